"""About how many tokens a text takes, where no provider has counted them.

A token is taken for four bytes of UTF-8: close for English and code, a little high for scripts of
three bytes a character. Providers' own counts correct it wherever there are any.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from pi_actors.core.messages import Blob, Call, Message, Part, Result, Text, Thinking

BYTES_PER_TOKEN: Final = 4

IMAGE_TOKENS: Final = 1_600
"""What a large image takes at the providers that publish how they count it; a small one takes less."""

_CUT: Final = " […cut]"


def text_tokens(text: str) -> int:
    """The estimate for *text*."""
    size = len(text) if text.isascii() else len(text.encode())
    return -(-size // BYTES_PER_TOKEN)


def capped(text: str, tokens_max: int) -> str:
    """*text*, or as much of its start as fits into *tokens_max* beside a remark that it was cut."""
    if text_tokens(text) <= tokens_max:
        return text
    room = max(tokens_max - text_tokens(_CUT), 1)
    kept = text.encode()[: room * BYTES_PER_TOKEN].decode(errors="ignore")
    return f"{kept.rstrip()}{_CUT}"


def message_tokens(messages: Iterable[Message]) -> int:
    """The estimate for all parts of *messages*."""
    return sum(parts_tokens(message.parts) for message in messages)


def parts_tokens(parts: Iterable[Part]) -> int:
    """The estimate for *parts*, as they are sent to the model that they came from."""
    return sum(_part_tokens(part) for part in parts)


def _part_tokens(part: Part) -> int:
    match part:
        case Text():
            return text_tokens(part.text)
        case Thinking():
            # Only what is signed is ever sent back.
            return 0 if part.opaque is None else text_tokens(part.text) + text_tokens(part.opaque)
        case Call():
            return text_tokens(part.name) + text_tokens(part.arguments)
        case Result():
            remarks = sum(text_tokens(remark.text) for remark in part.diagnostics)
            return remarks + parts_tokens(part.content)
        case Blob():
            return IMAGE_TOKENS if part.media_type.startswith("image/") else len(part.data) // BYTES_PER_TOKEN
        case _:
            assert_never(part)

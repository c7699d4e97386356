"""A conversation as plain text, for a model that is to summarise it."""

from collections.abc import Iterable
from typing import Final, assert_never

from pi_actors.core.messages import Blob, Call, Entry, Message, Part, Result, Text, Thinking
from pi_actors.core.tokens import BYTES_PER_TOKEN

RESULT_CHARACTERS_MAX: Final = 2_000
"""Of a tool's result so much is told; a summary needs what was found, not all that was read."""


def told(entry: Entry) -> str:
    """*entry* as text; an earlier summary as what it says; empty where there is nothing to tell."""
    return "\n".join(line for message in entry.messages for line in _lines(entry, message))


def parts_of(texts: Iterable[str], tokens_max: int | None) -> list[str]:
    """*texts* one after another, in as few parts of at most about *tokens_max* as that takes.

    There is always one part. A text that is too long for a part is split.
    """
    if tokens_max is None:
        return [_BETWEEN.join(text for text in texts if text)]
    size_max = max(tokens_max, 1) * BYTES_PER_TOKEN
    parts: list[list[str]] = [[]]
    size = 0
    for text in texts:
        for piece in _pieces(text, size_max):
            taken = len(piece.encode()) + len(_BETWEEN)
            if parts[-1] and size + taken > size_max:
                parts.append([])
                size = 0
            parts[-1].append(piece)
            size += taken
    return [_BETWEEN.join(part) for part in parts]


_BETWEEN: Final = "\n\n"


def _pieces(text: str, size_max: int) -> list[str]:
    """*text* in pieces of at most *size_max* bytes, or characters where these are larger."""
    stored = text.encode()
    if len(stored) <= size_max:
        return [text] if text else []
    characters = max(size_max // 4, 1) if not text.isascii() else size_max
    return [text[start : start + characters] for start in range(0, len(text), characters)]


def _lines(entry: Entry, message: Message) -> Iterable[str]:
    speaker = "earlier summary" if entry.kind == "pi.compaction" else message.role
    return (f"[{speaker}] {line}" for part in message.parts if (line := _line(part)))


def _line(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Thinking():
            return ""
        case Call():
            return f"calls {part.name} with {part.arguments or '{}'}"
        case Result():
            content = " ".join(_line(item) for item in part.content)
            remarks = " ".join(f"({remark.text})" for remark in part.diagnostics)
            return _short(f"{content} {remarks}".strip())
        case Blob():
            return f"({part.media_type}, {len(part.data)} bytes)"
        case _:
            assert_never(part)


def _short(text: str) -> str:
    if len(text) <= RESULT_CHARACTERS_MAX:
        return text
    return f"{text[:RESULT_CHARACTERS_MAX]} […{len(text) - RESULT_CHARACTERS_MAX} characters left out]"

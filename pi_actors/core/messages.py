"""The transcript's data: parts, messages, entries, usage.

These are stored inside events and handed to users as they are. They encode as maps with a
``type`` tag, so a view shows them as plain JSON objects.
"""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from pi_actors.core.ids import ActorId, EntryId
from pi_actors.core.text import Json


class Text(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="text", omit_defaults=True):
    """Plain text. ``opaque`` is raw provider JSON, returned only to where it came from."""

    text: str
    opaque: str | None = None


class Thinking(msgspec.Struct, frozen=True, kw_only=True, tag="thinking", omit_defaults=True):
    """A model's reasoning. Without ``opaque`` (its signature) it is never sent back."""

    text: str
    opaque: str | None = None


class Call(msgspec.Struct, frozen=True, kw_only=True, tag="call", omit_defaults=True):
    """A model's wish to run a tool.

    Its identity is (assistant entry, ``index``). ``wire_id`` is what travels to providers: the
    provider's own id where that is unique in the session's log, one of ours otherwise.
    ``arguments`` is the JSON text exactly as received, also when it does not parse.
    """

    index: int
    wire_id: str
    name: str
    arguments: str
    opaque: str | None = None


class Blob(msgspec.Struct, frozen=True, kw_only=True, tag="blob", omit_defaults=True):
    """Bytes with a media type, such as an image."""

    media_type: str
    data: bytes
    opaque: str | None = None


class CallRef(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Names a call: the assistant entry it stands in and its place among that entry's calls."""

    entry: EntryId
    index: int


DiagnosticCode: TypeAlias = Literal[
    "truncated",
    "incomplete",
    "interrupted",
    "invalid_arguments",
    "tool_unavailable",
    "blocked",
    "aborted",
    "tool_error",
    "faulted",
    "orphaned",
    "missing_result",
    "note",
]


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A remark on a tool's result, for programs (``code``) and for the model (``text``)."""

    level: Literal["info", "warn", "error"]
    code: DiagnosticCode
    text: str


class Result(msgspec.Struct, frozen=True, kw_only=True, tag="result", omit_defaults=True):
    """What became of a call. A transcript holds exactly one for each call."""

    call: CallRef
    content: tuple[Text | Blob, ...] = ()
    is_error: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


Part: TypeAlias = Text | Thinking | Call | Result | Blob
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Message(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One message of a conversation, in no provider's dialect."""

    role: Role
    parts: tuple[Part, ...]


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and money. ``cost`` is decimal text in US dollars; None is unknown, not zero.

    ``input`` counts every token sent, cached ones (``cache_read``, ``cache_write``) included.
    ``responses`` counts the model responses summed here, ``unreported`` those whose provider
    reported no usage, ``unpriced`` those whose usage has no known price. ``prices`` names the price
    table that ``cost`` was computed with.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: str | None = None
    prices: str | None = None
    responses: int = 0
    unreported: int = 0
    unpriced: int = 0


class ResponseInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an assistant entry came about.

    ``stop``: "answer", "calls" and "length" are settled responses, which later requests carry;
    "error" (an attempt that failed) and "aborted" are not sent to any model again.
    ``model`` is the catalog name that was asked, ``provider`` and ``provider_model`` what replied:
    opaque provider data returns only to the same pair.
    """

    stop: Literal["answer", "calls", "length", "error", "aborted"]
    model: str
    provider: str | None = None
    provider_model: str | None = None
    attempt: int = 1
    usage: Usage | None = None
    error: str | None = None


class Entry(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """An immutable transcript record, stored at ``at`` (UTC).

    ``kind``: pi.user, pi.assistant, pi.tool-result, pi.system, pi.reset, pi.compaction or one's
    own. ``by``: the actor that appended it, 0 for a caller. ``head``: the entry from which the
    active context starts (its own id: here), or None. ``data``: JSON of the kind.
    """

    id: EntryId
    agent: ActorId
    kind: str
    at: datetime
    by: ActorId = 0
    head: EntryId | None = None
    messages: tuple[Message, ...] = ()
    data: Json = None

    @property
    def text(self) -> str:
        """The text parts of all messages, joined; the content of results included."""
        return "".join(_texts(self.messages))


def _texts(messages: tuple[Message, ...]) -> list[str]:
    found: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case Text():
                    found.append(part.text)
                case Result():
                    found.extend(item.text for item in part.content if isinstance(item, Text))
                case _:
                    pass
    return found


def user_message(text: str) -> Message:
    """A user's message of one text part."""
    return Message(role="user", parts=(Text(text=text),))


def calls_of(message: Message) -> tuple[Call, ...]:
    """The calls of an assistant message, in order."""
    return tuple(part for part in message.parts if isinstance(part, Call))

"""The plain answers of the public surface."""

from datetime import datetime
from typing import Final, Literal, cast

import msgspec

from pi_actors.core.errors import CommandRefused, UnansweredReason
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.messages import Entry, Usage
from pi_actors.core.text import normalise


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """How a submission ended.

    ``answer``: the assistant entry that answered it; None for writes and where unanswered, when
    ``reason`` says why and ``detail`` explains it to people.
    """

    status: Literal["done", "unanswered"]
    answer: Entry | None = None
    reason: UnansweredReason | None = None
    detail: str | None = None

    @property
    def text(self) -> str:
        """The answer's text; empty where there is none."""
        return "" if self.answer is None else self.answer.text


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. ``usage``: of every response from the input to the answer, failed ones included.

    Summaries that were written for it are counted by ``agent.usage()``.
    """

    entry: Entry
    usage: Usage

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.entry.text


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a store's directory. ``live``: it has work to do. ``held_by``: who has it open."""

    id: SessionId
    position: Position
    live: bool
    size_bytes: int
    updated_at: datetime
    held_by: str | None


REQUEST_ID_MAX: Final = 500
RESERVED_PREFIX: Final = "pi.compaction:"
"""The request id of the write that places a compaction's summary begins so."""


def checked_request_id(request_id: str | None) -> str | None:
    """The request id as it is stored.

    Raises:
        CommandRefused: it is no text of 1 to 500 characters, or one of the runtime's own.
    """
    if request_id is None:
        return None
    if not isinstance(cast(object, request_id), str) or not 0 < len(request_id) <= REQUEST_ID_MAX:
        raise CommandRefused(f"a request id is text of 1 to {REQUEST_ID_MAX} characters, not {request_id!r}")
    if request_id.startswith(RESERVED_PREFIX):
        raise CommandRefused(f"request ids that begin with {RESERVED_PREFIX!r} are the runtime's own")
    return normalise(request_id)

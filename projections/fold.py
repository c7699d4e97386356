"""What a projection is: a named, versioned fold over the log, and the document it shows.

A fold is total: an event its state cannot have had leaves the state as it is. It takes nothing
but its state and the event, so two readers at the same position hold equal values, and a state
that was thrown away comes back equal. A changed meaning of a fold is a new ``version``.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from pi_actors.core.instants import instant
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json

S = TypeVar("S")
Document: TypeAlias = dict[str, Json]

INSTANT_MAX_US: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999, the last that has a date."""


class Projection(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """A fold over the events of one agent or of a session. All functions are pure.

    ``document`` gives a fresh JSON value, which its caller may change.
    """

    name: str
    version: int
    initial: S
    evolve: Callable[[S, Recorded], S]
    document: Callable[[S], Document]


def as_json(value: object) -> Json:
    """*value* as plain JSON that shares nothing with it; bytes become base64 text."""
    return msgspec.json.decode(msgspec.json.encode(value))


def in_calendar(at_us: int) -> int:
    """The nearest instant to *at_us* that has a date, in UTC microseconds."""
    return min(max(at_us, 0), INSTANT_MAX_US)


def iso(at_us: int) -> str:
    """A stored instant as ISO text in UTC, as entries show theirs."""
    return _text(instant(in_calendar(at_us)))


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")

"""An event as the log holds it: the fact, and what stands around it."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from pi_actors.core.decider import Event
from pi_actors.core.ids import ActorId, Position


class UnknownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a topic this version does not know. ``display``: it may be ignored by writers."""

    topic: str
    display: bool
    body: bytes


class Recorded(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One event of a session's stream.

    ``end``: the position at which its commit ends. ``at_us``: UTC microseconds, never decreasing
    within a session. ``actor``: whose state it changes (for a spawn: the new actor, so its own
    position). ``cause``: the position of the event whose effect or message led here, 0 for a caller.
    """

    position: Position
    end: Position
    at_us: int
    actor: ActorId
    cause: Position
    topic: str
    event: Event


class IndexRows(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What one commit adds to the index tables. All of it can be rebuilt from the log.

    ``requests``: (agent, request id, what it stands for, "input" | "write" | "agent" | "compaction").
    ``settled``: (submission or actor, position of the event that settled it).
    ``entries``: (agent, entry).
    """

    requests: Sequence[tuple[ActorId, str, Position, str]] = ()
    settled: Sequence[tuple[Position, Position]] = ()
    entries: Sequence[tuple[ActorId, Position]] = ()


Commit: TypeAlias = tuple[Recorded, ...]
"""The events of one commit, in order; never empty."""

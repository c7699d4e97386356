"""From the log of a claimed session to its state: the newest usable snapshot, and the rows after it."""

from typing import Final, NamedTuple

import msgspec

from pi_actors.actors.topics import index_of
from pi_actors.core.decider import Passive
from pi_actors.core.errors import LogCorrupt, LogTooNew
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.record import IndexRows, Recorded, UnknownEvent
from pi_actors.core.state import EMPTY, SessionState, evolve
from pi_actors.runtime.kept import Kept, with_restored
from pi_actors.storage.labels import session_uuid
from pi_actors.storage.log import Head

STATE: Final = "state"
"""The name of the snapshots of the write side's state."""


class Folded(NamedTuple):
    """The state of a session, and the position of the snapshot that it was made from; 0: none."""

    state: SessionState
    snapshot: Position


def fold_log(head: Head, kept: Kept) -> Folded:
    """The state of a claimed session. Rebuilds its index tables if somebody deleted them. Blocks.

    A row that a snapshot makes needless is not read, so nobody notices here if it is damaged.

    Raises:
        LogCorrupt: a row is damaged or missing.
        LogTooNew: a newer version wrote what this one must understand to go on.
    """
    needs_index = kept.log.needs_index(head.session)
    start = EMPTY if needs_index else _newest_snapshot(head, kept)
    state, last = start, None
    index = _Index()
    for last in kept.events(after=start.position, through=head.position):
        if isinstance(last.event, UnknownEvent) and not last.event.display:
            raise LogTooNew(kept.session, last.position, last.topic, "an event of an unknown kind")
        state = _evolved(state, last, kept)
        if needs_index:
            index.add(last)
    if last is not None and last.end != last.position:
        raise LogCorrupt(head.session, last.position, "its commit is cut off")
    if needs_index and last is not None:
        kept.log.rebuild_index(head.session, index.rows())
    return Folded(state, start.position)


def fold_to(kept: Kept, to: Position) -> SessionState:
    """The state just after the event at *to*, also within a commit. Blocks; raises as ``fold_log``."""
    state = EMPTY
    for each in kept.events(after=0, through=to):
        state = _evolved(state, each, kept)
    return state


def _newest_snapshot(head: Head, kept: Kept) -> SessionState:
    """The state of the newest snapshot that can be used; the empty one where there is none."""
    found = kept.log.snapshots(head.session, STATE)
    uuid = session_uuid(kept.log, kept.topics, kept.session) if found else None
    for snapshot in found:
        state = None if uuid is None else kept.codec.unpack(snapshot.body, uuid, snapshot.position)
        if state is not None:
            return state
    return EMPTY


def _evolved(state: SessionState, each: Recorded, kept: Kept) -> SessionState:
    event = each.event
    if isinstance(event, UnknownEvent):
        return msgspec.structs.replace(state, position=each.position, at_us=each.at_us)
    actor = state.actors.get(each.actor)
    if actor is not None and isinstance(actor.state, Passive):
        restored = kept.restore(state.uuid, actor.id, actor.state)
        state = with_restored(state, restored, actor.state)
    return evolve(state, kept.kinds, position=each.position, at_us=each.at_us, actor=each.actor, event=event)


class _Index:
    """The index rows of a whole log, without the events that they are of."""

    def __init__(self) -> None:
        self._requests: list[tuple[ActorId, str, Position, str]] = []
        self._settled: list[tuple[Position, Position]] = []
        self._entries: list[tuple[ActorId, Position]] = []

    def add(self, each: Recorded) -> None:
        rows = index_of([each])
        self._requests += rows.requests
        self._settled += rows.settled
        self._entries += rows.entries

    def rows(self) -> IndexRows:
        return IndexRows(requests=self._requests, settled=self._settled, entries=self._entries)

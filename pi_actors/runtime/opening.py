"""From the log of a claimed session to its state: read the rows, fold them."""

from collections.abc import Iterator

import msgspec

from pi_actors.actors.topics import index_of
from pi_actors.core.errors import LogCorrupt, LogTooNew
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import Recorded, UnknownEvent
from pi_actors.core.state import EMPTY, Kinds, SessionState, evolve
from pi_actors.storage.codec import Topics, decode_row
from pi_actors.storage.log import Head, Log


def fold_log(log: Log, head: Head, topics: Topics, kinds: Kinds) -> SessionState:
    """The state of a claimed session, and its index tables if somebody deleted them. Blocks.

    Raises:
        LogCorrupt: a row is damaged or missing.
        LogTooNew: a newer version wrote what this one must understand to go on.
    """
    state, last = EMPTY, None
    rebuilt: list[Recorded] | None = [] if log.needs_index(head.session) else None
    for last in _read(log, head, topics):
        if isinstance(last.event, UnknownEvent) and not last.event.display:
            raise LogTooNew(head.session, last.position, last.topic, "an event of an unknown kind")
        state = _evolved(state, last, kinds)
        if rebuilt is not None:
            rebuilt.append(last)
    if last is not None and last.end != last.position:
        raise LogCorrupt(head.session, last.position, "its commit is cut off")
    if rebuilt:
        log.rebuild_index(head.session, index_of((each.position, each.actor, each.event) for each in rebuilt))
    return state


def fold_to(log: Log, session: SessionId, topics: Topics, kinds: Kinds, to: Position) -> SessionState:
    """The state just after the event at *to*, also within a commit. Blocks; raises as ``fold_log``."""
    head = log.head(session)
    assert head is not None, f"session {session!r} is open and has no head"
    state = EMPTY
    for each in _read(log, msgspec.structs.replace(head, position=to), topics):
        state = _evolved(state, each, kinds)
    return state


def _evolved(state: SessionState, recorded: Recorded, kinds: Kinds) -> SessionState:
    event, position, at_us = recorded.event, recorded.position, recorded.at_us
    if isinstance(event, UnknownEvent):
        return msgspec.structs.replace(state, position=position, at_us=at_us)
    return evolve(state, kinds, position=position, at_us=at_us, actor=recorded.actor, event=event)


def _read(log: Log, head: Head, topics: Topics) -> Iterator[Recorded]:
    session, after = head.session, 0
    while after < head.position:
        rows = log.read(session, after=after, through=head.position)
        if not rows:
            raise LogCorrupt(session, after + 1, f"the rows from here to {head.position} are missing")
        for row in rows:
            if row.position > max(after, head.scavenged_to) + 1:
                raise LogCorrupt(session, after + 1, f"the rows from here to {row.position - 1} are missing")
            yield decode_row(session, row, topics)
            after = row.position

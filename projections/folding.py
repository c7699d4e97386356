"""Folding a stored session: where that begins, and how it goes on page by page."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from pi_actors.core.errors import LogCorrupt, LogTooNew
from pi_actors.core.ids import Position, SessionId
from pi_actors.storage.codec import Topics
from pi_actors.storage.labels import session_uuid
from pi_actors.storage.log import LogReader
from projections.session import EMPTY, FoldedState, fold_commit
from projections.snapshot import NAME, fits, state_of
from projections.tail import Tail


class Folding(NamedTuple):
    """A state, and the log from there on."""

    state: FoldedState
    tail: Tail


Call: TypeAlias = Callable[[Callable[[], FoldedState | None]], Awaitable[FoldedState | None]]
"""Runs a function that reads a log, wherever its caller's log is read."""


def begin(log: LogReader, topics: Topics, session: SessionId, *, to: Position | None = None) -> Folding:
    """The newest snapshot at or before *to* that is of any use, else the beginning of the log. Blocks.

    Folding on from there gives what folding the whole log gives. Raises StoreError as ``LogReader``.
    """
    uuid = _uuid(log, topics, session)
    for snapshot in log.snapshots(session, NAME):
        if to is None or snapshot.position <= to:
            state = state_of(snapshot, topics, uuid)
            if state is not None:
                last = next(iter(log.read_at(session, [state.position])), None)
                return Folding(state, Tail(log, topics, session, after=state.position, last=last))
    return Folding(EMPTY, Tail(log, topics, session))


def kept_to(log: LogReader, topics: Topics, session: SessionId) -> Position:
    """How far the newest snapshot goes that is of this session and these versions, 0 without one. Blocks."""
    uuid = _uuid(log, topics, session)
    fitting = (each.position for each in log.snapshots(session, NAME) if fits(each, topics, uuid))
    return next(fitting, 0)


def fold_page(tail: Tail, state: FoldedState, to: Position | None = None) -> FoldedState | None:
    """The state after the next page of commits that end at or before *to*, None where there is none. Blocks.

    Raises:
        NotFound, LogCorrupt, StoreError: as ``Tail.read``.
    """
    commits = tail.read(to=to)
    for commit in commits:
        state = fold_commit(state, commit)
    return state if commits else None


async def fold_rest(call: Call, folding: Folding, to: Position | None = None) -> FoldedState:
    """The state after the last commit that ends at or before *to*, page by page; the tail is there then.

    *call* runs a function that reads the log. Raises as ``fold_page``.
    """
    state, tail = folding
    while (further := await call(partial(fold_page, tail, state, to))) is not None:
        state = further
    return state


def _uuid(log: LogReader, topics: Topics, session: SessionId) -> str:
    """What the session's first event says, nothing where that cannot be read."""
    try:
        return session_uuid(log, topics, session) or ""
    except (LogCorrupt, LogTooNew):
        # Whoever folds the log from its beginning will be told.
        return ""

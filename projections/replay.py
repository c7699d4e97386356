"""A session's state at any position, read from its log.

Nothing is locked and nothing is written, so this may run beside the process that writes.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import trio

from pi_actors.actors.topics import ALL, PROGRESS
from pi_actors.core.errors import NotFound
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import Recorded
from pi_actors.storage.codec import Topics, decode_rows
from pi_actors.storage.log import LogReader
from pi_actors.storage.opening import open_reader
from projections.session import EMPTY, SessionState, fold_commit

T = TypeVar("T")

TOPICS = Topics(ALL, display=PROGRESS)


class OpenStore(Protocol):
    """A store that somebody has opened and will close."""

    @property
    def log(self) -> LogReader: ...

    @property
    def topics(self) -> Topics: ...


async def replay(
    store: str | Path | OpenStore, session_id: SessionId = "main", *, to: Position | None = None
) -> SessionState:
    """The session's state as of its last commit, or of the last one that ends at or before *to*.

    ``position`` of the state says which commit that is. Progress that was scavenged is missing from
    states before what superseded it; every other value is as it was shown.

    Cancellation: between pages of the log.

    Raises:
        NotFound: the store has no such session.
        LogCorrupt: a row up to there is damaged; the message names its position.
        NotSupported: a store that only its own process can read, or a kind that is not built yet.
        StoreUnreadable: the store cannot be opened; the message says what is missing.
    """
    limiter = trio.CapacityLimiter(1)
    async with _opened(store, limiter) as (log, topics):
        limit = await _call(log, partial(_limit, log, session_id, to), limiter)
        read = Read(state=EMPTY, open=(), after=0)
        while read.after < limit:
            read = await _call(log, partial(_fold_page, log, topics, session_id, read, limit), limiter)
        return read.state


async def _call(log: LogReader, function: Callable[[], T], limiter: trio.CapacityLimiter) -> T:
    """Run a function that reads *log*: in a thread, or at once where the log waits for no disk."""
    if log.blocks:
        return await trio.to_thread.run_sync(function, limiter=limiter)
    await trio.lowlevel.checkpoint()
    return function()


class Read(NamedTuple):
    """How far the log was read. ``open``: events of a commit whose end was not reached yet."""

    state: SessionState
    open: tuple[Recorded, ...]
    after: Position


def _limit(log: LogReader, session: SessionId, to: Position | None) -> Position:
    head = log.head(session)
    if head is None:
        known = ", ".join(repr(other.session) for other in log.heads()) or "none"
        raise NotFound(f"the store has no session {session!r}; its sessions are: {known}")
    return head.position if to is None else min(to, head.position)


def _fold_page(log: LogReader, topics: Topics, session: SessionId, read: Read, limit: Position) -> Read:
    """Read the next page and fold the commits that are whole by then.

    The head is never within a commit, so all of a commit that ends by *limit* has been stored; what
    is missing of it was scavenged.
    """
    rows = log.read(session, after=read.after, through=limit)
    reached = rows[-1].position if rows else limit
    events = (*read.open, *decode_rows(session, rows, topics))
    state = fold_commit(read.state, (event for event in events if event.end <= reached))
    still_open = tuple(event for event in events if event.end > reached)
    return Read(state=state, open=still_open, after=reached)


@asynccontextmanager
async def _opened(
    store: str | Path | OpenStore, limiter: trio.CapacityLimiter
) -> AsyncGenerator[tuple[LogReader, Topics], None]:
    """The log of *store*; one that was opened here is closed here."""
    if not isinstance(store, str | Path):
        yield store.log, store.topics
        return
    reader = await trio.to_thread.run_sync(open_reader, store, limiter=limiter)
    try:
        yield reader, TOPICS
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(reader.close, limiter=limiter)

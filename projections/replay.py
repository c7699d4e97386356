"""A session's state at any position, read from its log.

Nothing is locked and nothing is written, so this may run beside the process that writes.
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import trio

from pi_actors.actors.topics import ALL, PROGRESS
from pi_actors.core.ids import Position, SessionId
from pi_actors.storage.codec import Topics
from pi_actors.storage.log import LogReader
from pi_actors.storage.opening import open_reader
from projections.session import EMPTY, SessionState, fold_commit
from projections.tail import Tail

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
    (state,) = await newest_states(store, session_id, to=to)
    return state


async def newest_states(
    store: str | Path | OpenStore, session_id: SessionId, *, to: Position | None = None, count: int = 1
) -> tuple[SessionState, ...]:
    """The states after each of the last *count* commits up to *to*, oldest first; at least one.

    Those that were shown with progress that is scavenged now are left out. Raises as ``replay``.
    """
    async with opened(store) as source:
        tail = source.tail(session_id)
        states = deque([EMPTY], maxlen=count)
        while await source.call(partial(_fold_page, tail, states, to)):
            pass
        known = [state for state in states if state.position >= tail.scavenged_to]
        return tuple(known) or (states[-1],)


class Source:
    """The log of an open store, and how to call what reads it."""

    def __init__(self, log: LogReader, topics: Topics, limiter: trio.CapacityLimiter) -> None:
        self.log = log
        self.topics = topics
        self._limiter = limiter

    def tail(self, session_id: SessionId) -> Tail:
        """The session from its beginning."""
        return Tail(self.log, self.topics, session_id)

    async def call(self, function: Callable[[], T], *, blocks: bool = False) -> T:
        """Run a function that reads the log: in a thread, or at once where nothing waits for a disk.

        *blocks*: it waits for something else. Cancelled means not started, returned means finished.
        """
        if blocks or self.log.blocks:
            return await trio.to_thread.run_sync(function, limiter=self._limiter)
        await trio.lowlevel.checkpoint()
        return function()


@asynccontextmanager
async def opened(store: str | Path | OpenStore) -> AsyncGenerator[Source]:
    """The log of *store*; one that was opened here is closed here.

    Raises:
        NotSupported, StoreUnreadable: it cannot be opened for reading.
    """
    limiter = trio.CapacityLimiter(1)
    if not isinstance(store, str | Path):
        yield Source(store.log, store.topics, limiter)
        return
    reader = await trio.to_thread.run_sync(open_reader, store, limiter=limiter)
    try:
        yield Source(reader, TOPICS, limiter)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(reader.close, limiter=limiter)


def _fold_page(tail: Tail, states: deque[SessionState], to: Position | None) -> bool:
    """Read the next page and fold its commits; False at the end."""
    commits = tail.read(to=to)
    for commit in commits:
        states.append(fold_commit(states[-1], commit))
    return bool(commits)

"""A session's state at any position, read from its log.

Nothing is locked and nothing is written, so this may run beside the process that writes.
"""

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
    async with opened(store) as source:
        return await source.state(source.tail(session_id), to=to)


class Source:
    """The log of an open store, and how to call what reads it."""

    def __init__(self, log: LogReader, topics: Topics, limiter: trio.CapacityLimiter) -> None:
        self.log = log
        self.topics = topics
        self._limiter = limiter

    def tail(self, session_id: SessionId) -> Tail:
        """The session from its beginning."""
        return Tail(self.log, self.topics, session_id)

    async def state(self, tail: Tail, *, to: Position | None = None) -> SessionState:
        """Fold all of *tail*, which is at its beginning, up to *to*. Raises as ``replay``."""
        state = EMPTY
        while (further := await self.call(partial(_fold_page, tail, state, to))) is not None:
            state = further
        return state

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


def _fold_page(tail: Tail, state: SessionState, to: Position | None) -> SessionState | None:
    """The state after the next page, None where there is none."""
    commits = tail.read(to=to)
    for commit in commits:
        state = fold_commit(state, commit)
    return state if commits else None

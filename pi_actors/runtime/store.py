"""An open store: its log, its one writer, its readers."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar, TypeVarTuple

import trio

from pi_actors.actors.topics import ALL, PROGRESS
from pi_actors.core.ids import SessionId
from pi_actors.runtime.group_commit import GroupCommit
from pi_actors.runtime.scopes import background
from pi_actors.runtime.threads import call_log
from pi_actors.storage.codec import Topics
from pi_actors.storage.log import Log
from pi_actors.storage.opening import open_log

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TOPICS: Final = Topics(ALL, display=PROGRESS)
READERS_MAX: Final = 4


class LiveStore:
    """What the sessions of one store share."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.topics = TOPICS
        self.group = GroupCommit(log)
        self.readers = trio.CapacityLimiter(READERS_MAX)

    async def read(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run a function that reads the log."""
        return await call_log(self.log, function, *arguments, limiter=self.readers)

    async def write(self, function: Callable[[], T]) -> T:
        """Run a function that writes to the log what is no commit."""
        return await self.group.between_writes(function)

    def spill_dir(self, session_id: SessionId) -> Path | None:
        """Where long output of the session's tools goes; None where the store has no folder."""
        return self.log.spill_folder(session_id)


@asynccontextmanager
async def open_live_store(
    store: str | Path | Log, *, durability: Literal["power", "process"] = "power"
) -> AsyncGenerator[LiveStore]:
    """Open *store* with its writer running for the time of the body. A log is used and left open.

    Raises:
        StoreUnreadable, NotSupported: the message says what is wrong with it and what to do.
    """
    async with _opened(store, durability) as log:
        live = LiveStore(log)
        async with background(live.group.run):
            yield live


@asynccontextmanager
async def _opened(store: str | Path | Log, durability: Literal["power", "process"]) -> AsyncGenerator[Log]:
    if not isinstance(store, str | Path):
        yield store
        return
    opening = trio.CapacityLimiter(1)
    log = await trio.to_thread.run_sync(partial(open_log, store, durability=durability), limiter=opening)
    try:
        yield log
    finally:
        with trio.CancelScope(shield=True):
            await call_log(log, log.close, limiter=opening)

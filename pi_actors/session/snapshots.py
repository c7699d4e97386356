"""Snapshots of the documents, taken by the process that owns a session: readers begin near its end.

While the session is open that goes on in the background, slowly, so that commits hardly notice; at a
clean close what is left is folded, within a bounded time. Without a snapshot, or with an old one, who
reads the session comes to the same, only later. So whatever goes wrong here is none of the session's
business: a store that fails is found by the next commit.
"""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

import trio

from pi_actors.core.errors import StoreError
from pi_actors.core.ids import Position
from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState
from pi_actors.runtime.live import LiveSession
from projections.folding import Folding, begin, fold_page, kept_to
from projections.session import FoldedState
from projections.snapshot import snapshot_of

T = TypeVar("T")

EVERY: Final = 5_000
"""From one snapshot to the next there are at least so many positions."""

BYTES_A_POSITION: Final = 100
"""And at least so many that a snapshot takes no more than this for each, about a third of a row."""

PAGE_ROWS: Final = 100
"""So much is folded at once in the background; that takes a few milliseconds."""

REST: Final = 9
"""After each page it rests so many times as long as the page took."""

CLOSE_S: Final = 2.0
"""So long a close waits for the rest to be folded."""


class DocumentSnapshots:
    """Takes them for one opening of a session. *newest*: the folded state as of now, if somebody has it."""

    def __init__(self, live: LiveSession, newest: Callable[[], FoldedState | None]) -> None:
        self._live = live
        self._newest = newest
        self._due_at: Position = 0
        self._arrived = trio.Event()
        live.line.listen(self._look)

    async def run(self) -> None:
        """Take a snapshot each time the session has come far enough, until cancelled."""
        every = EVERY
        try:
            while True:
                await self._arrived.wait()
                saved = await self._kept_to()
                if self._live.line.shown.position >= saved + every:
                    state = self._newest() or await self._fold_slowly(saved + every)
                    size = await self._save(state)
                    saved, every = state.position, max(EVERY, size // BYTES_A_POSITION)
                self._wait_for(saved + every)
        except (StoreError, _NotSaved):
            return

    async def finish(self) -> None:
        """Once the session is closed: take a snapshot of all there is, or of what is folded in time.

        Cancellation: only after that.
        """
        line = self._live.line
        if line.failure is not None or not line.closed:
            return
        with trio.CancelScope(shield=True):
            try:
                if await self._kept_to() < line.shown.position:
                    await self._save(self._newest() or await self._fold_in_time())
            except (StoreError, _NotSaved):
                # A damaged row, a failing disk, another owner by now: whoever comes next will see.
                return

    def _look(self, _: Commit, state: SessionState) -> None:
        if state.position >= self._due_at:
            self._arrived.set()

    def _wait_for(self, position: Position) -> None:
        self._due_at, self._arrived = position, trio.Event()
        self._look((), self._live.line.shown)

    async def _kept_to(self) -> Position:
        """How far the newest snapshot goes."""
        line, store = self._live.line, self._live.store
        return await self._read(partial(kept_to, store.log, store.topics, line.session_id))

    async def _begun(self) -> Folding:
        """Where folding goes on: at the newest snapshot."""
        line, store = self._live.line, self._live.store
        to = line.shown.position
        return await self._read(partial(begin, store.log, store.topics, line.session_id, to=to))

    async def _fold_slowly(self, to: Position) -> FoldedState:
        """The state of the first commit that ends at or after *to*, which is shown already.

        Where progress was scavenged on the way, the state is that of a later commit: it is exact.
        """
        state, tail = await self._begun()
        through = state.position
        while state.position < max(to, tail.exact_from):
            through = min(through + PAGE_ROWS, self._live.line.shown.position)
            further: FoldedState | None = state
            while further is not None:
                state = further
                further, seconds = await self._read(partial(_timed, partial(fold_page, tail, state, through)))
                await trio.sleep(REST * seconds)
        return state

    async def _fold_in_time(self) -> FoldedState:
        """The state as of now, or that reached when the time is over."""
        over, to = trio.current_time() + CLOSE_S, self._live.line.shown.position
        state, tail = await self._begun()
        while trio.current_time() < over:
            further = await self._read(partial(fold_page, tail, state, to))
            if further is None:
                break
            state = further
        if state.position < tail.exact_from:
            raise _NotSaved
        return state

    async def _save(self, state: FoldedState) -> int:
        """Store a snapshot and return its size in bytes."""
        line, store = self._live.line, self._live.store
        snapshot = await self._read(partial(snapshot_of, state, store.topics))
        if snapshot is None:
            raise _NotSaved
        save = partial(store.log.save_snapshot, line.session_id, line.epoch, snapshot)
        if not await store.write(save):
            raise _NotSaved
        return len(snapshot.body)

    async def _read(self, function: Callable[[], T]) -> T:
        return await self._live.store.read(function)


class _NotSaved(Exception):
    """The state does not fit into a snapshot or is not exact, or the session is somebody else's by now."""


def _timed(function: Callable[[], T]) -> tuple[T, float]:
    """What *function* returns, and the seconds it took."""
    began = perf_counter()
    return function(), perf_counter() - began

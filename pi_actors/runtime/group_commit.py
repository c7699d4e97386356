"""One writer for all sessions of a store: what queues while a write is in flight goes next, together.

A batch taken from the queue is written under a shield; its session learns the true outcome in any
case. A fenced batch fails its own session only. An error of the store fails every session.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import trio

from pi_actors.core.errors import Fenced, StoreError
from pi_actors.runtime.threads import call_log
from pi_actors.storage.log import Batch, Log

T = TypeVar("T")


class Queued(Protocol):
    """A batch on its way to the disk."""

    @property
    def batch(self) -> Batch: ...

    def acknowledge(self) -> None:
        """The batch is durable. Called in order within a session, before anyone is woken; must not raise."""
        ...

    def fail(self, error: StoreError) -> None:
        """The batch was refused, or nobody knows. Nothing more of its session will be written."""
        ...


class GroupCommit:
    """The queue and its writer. ``run`` is the only caller of the log's ``append``."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._queue: list[Queued] = []
        self._decided = trio.Event()
        self._limiter = trio.CapacityLimiter(1)
        self._writing = False
        self._calm = trio.lowlevel.ParkingLot()
        self._wake = trio.Event()
        self._broken: StoreError | None = None

    def put(self, queued: Queued) -> trio.Event:
        """Queue a batch; it is written with the next transaction. Never blocks.

        The event, one for all batches of that transaction, is set when they have heard their outcome.
        """
        if self._broken is not None:
            queued.fail(self._broken)
        else:
            self._queue.append(queued)
            self._wake.set()
        return self._decided

    async def run(self) -> None:
        """Write until cancelled. Sessions close, and so see their batches written, before that."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            decided, self._decided = self._decided, trio.Event()
            self._writing = True
            await self._write(self._take())
            self._writing = False
            decided.set()
            if not self._queue:
                self._calm.unpark_all()

    async def between_writes(self, function: Callable[[], T]) -> T:
        """Run a blocking function that writes to the log while no batch is being written."""
        return await call_log(self._log, function, limiter=self._limiter)

    async def lull(self, patience_s: float) -> bool:
        """Return once nothing is to be written, or after *patience_s*; whether it was the former."""
        with trio.move_on_after(patience_s) as patience:
            while self._queue or self._writing:
                await self._calm.park()
        return not patience.cancelled_caught

    def _take(self) -> list[Queued]:
        taken, self._queue = self._queue, []
        return taken

    async def _write(self, taken: Sequence[Queued]) -> None:
        batches = [queued.batch for queued in taken]
        outcomes: Sequence[Fenced | None] = ()
        try:
            with trio.CancelScope(shield=True):
                outcomes = await call_log(self._log, self._log.append, batches, limiter=self._limiter)
        except StoreError as error:
            self._break([*taken, *self._take()], error)
            return
        for queued, outcome in zip(taken, outcomes, strict=True):
            if isinstance(outcome, Fenced):
                queued.fail(outcome)
            else:
                queued.acknowledge()

    def _break(self, lost: Sequence[Queued], error: StoreError) -> None:
        self._broken = error
        for queued in lost:
            queued.fail(error)
        self._decided.set()

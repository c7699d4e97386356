"""Threads for code that blocks, each use with a limiter of its own."""

from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple

import trio

from pi_actors.runtime.scopes import contained
from pi_actors.storage.log import LogReader

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def call_log(
    log: LogReader, function: Callable[[*Ts], T], *arguments: *Ts, limiter: trio.CapacityLimiter
) -> T:
    """Run a function that uses *log*: in a worker thread, or at once where the log waits for no disk.

    Cancellation: cancelled means not started, returned means finished.
    """
    if log.blocks:
        return await trio.to_thread.run_sync(function, *arguments, limiter=limiter)
    await trio.lowlevel.checkpoint()
    return function(*arguments)


async def run_plain(function: Callable[[], T], *, grace_ms: int) -> T:
    """Run *function* in a worker thread and return what it returns, or raise what it raises.

    It begins at once; how many run together is the caller's to limit.

    Cancellation: a thread cannot be stopped. It is waited for up to *grace_ms*; if it ends in that
    time its result is returned (or its error raised) all the same, else it is left to itself.
    """
    job = _Job(function)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(job.run)
        try:
            await job.ended.wait()
        except trio.Cancelled:
            with trio.move_on_after(grace_ms / 1000, shield=True):
                await job.ended.wait()
            job.scope.cancel()
            if not job.ended.is_set():
                raise
    return job.result()


class _Job(Generic[T]):
    """One thread's work, shielded until its scope is cancelled, then abandoned."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._returned: list[T] = []
        self._raised: Exception | None = None
        self.scope = trio.CancelScope(shield=True)
        self.ended = trio.Event()

    async def run(self) -> None:
        alone = trio.CapacityLimiter(1)
        with self.scope:
            await trio.to_thread.run_sync(self._work, abandon_on_cancel=True, limiter=alone)
            self.ended.set()

    def _work(self) -> None:
        try:
            with contained():
                self._returned.append(self._function())
        except Exception as error:  # raised again by whoever waits for the result
            self._raised = error

    def result(self) -> T:
        if self._raised is not None:
            raise self._raised
        return self._returned[0]


async def in_thread(function: Callable[[], T]) -> T:
    """Run a short function that blocks in a worker thread of its own.

    Cancellation: cancelled means not started, returned means finished.
    """
    return await trio.to_thread.run_sync(function, limiter=trio.CapacityLimiter(1))

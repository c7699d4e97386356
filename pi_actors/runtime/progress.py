"""Commits what streams at most once per interval, with one commit in flight."""

from collections.abc import Awaitable, Callable

import trio


class Pacer:
    """Calls *flush* while something is buffered, at most every *interval_ms*.

    ``first_waits``: also the first flush waits out the interval, so that what ends sooner has none.
    """

    def __init__(self, flush: Callable[[], Awaitable[None]], interval_ms: int, *, first_waits: bool) -> None:
        self._flush = flush
        self._interval_s = interval_ms / 1000
        self._first_waits = first_waits
        self._buffered = trio.Event()

    def touch(self) -> None:
        """Something was buffered. Never blocks; call from the event loop."""
        self._buffered.set()

    async def run(self) -> None:
        """Flush until cancelled. A flush that has begun is stored even so."""
        waits = self._first_waits
        while True:
            await self._buffered.wait()
            if waits:
                await trio.sleep(self._interval_s)
            self._buffered = trio.Event()
            await self._flush()
            waits = False
            await trio.sleep(self._interval_s)

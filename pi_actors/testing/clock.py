"""Wall time that follows trio's clock, so that a MockClock moves stored deadlines too."""

from datetime import UTC, datetime, timedelta
from typing import Final

import trio

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class TrioClock:
    """Says *start* when it is first asked, and from then on as much more as trio's clock has moved.

    Under ``trio.testing.MockClock`` with autojump no deadline is waited for. That holds for a store
    in memory: a clock that jumps does not wait for the worker threads of an SQLite store.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._began: float | None = None

    def now(self) -> datetime:
        if self._began is None:
            self._began = trio.current_time()
        return self._start + timedelta(seconds=trio.current_time() - self._began)

    async def sleep_until(self, instant: datetime) -> None:
        while (left_s := (instant - self.now()).total_seconds()) > 0:  # noqa: ASYNC110 - a clock can only look again
            await trio.sleep(left_s)

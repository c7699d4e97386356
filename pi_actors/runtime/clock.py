"""Time comes in through here: deadlines in the log are wall-clock instants."""

from datetime import UTC, datetime
from typing import Final, Protocol

import trio

LOOK_EVERY_S: Final = 60.0
"""The longest sleep before the clock is looked at again, so a suspended machine wakes late, once."""


class Clock(Protocol):
    """A source of time that can be waited for."""

    def now(self) -> datetime:
        """The current time, in UTC."""
        ...

    async def sleep_until(self, instant: datetime) -> None:
        """Return at the first look at or after *instant*."""
        ...


class SystemClock:
    """The machine's clock. Survives suspends and steps: it looks again at least every minute."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep_until(self, instant: datetime) -> None:
        while (left_s := (instant - self.now()).total_seconds()) > 0:
            await trio.sleep(min(left_s, LOOK_EVERY_S))

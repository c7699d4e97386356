"""Wall time that follows trio's clock."""

from datetime import UTC, datetime, timedelta

import trio
from trio.testing import MockClock

from pi_actors.testing import TrioClock


async def test_it_moves_with_trios_clock_from_its_start_on(autojump_clock: MockClock) -> None:
    start = datetime(2030, 5, 1, tzinfo=UTC)
    autojump_clock.jump(7)
    clock = TrioClock(start)
    assert clock.now() == start
    await trio.sleep(90)
    assert clock.now() == start + timedelta(seconds=90)


async def test_sleeping_until_an_instant_ends_there_and_the_past_is_not_waited_for(
    autojump_clock: MockClock,
) -> None:
    clock = TrioClock()
    start = clock.now()
    await clock.sleep_until(start + timedelta(hours=5))
    assert clock.now() == start + timedelta(hours=5)
    await clock.sleep_until(start)
    assert clock.now() == start + timedelta(hours=5)

"""What an SDK leaves suspended is closed before the request returns."""

from collections.abc import AsyncGenerator

import pytest
import trio

from pi_actors.models.leftovers import generators_closed


async def endless(log: list[str]) -> AsyncGenerator[int, None]:
    try:
        while True:
            await trio.lowlevel.checkpoint()
            yield 1
    finally:
        await trio.lowlevel.checkpoint()
        log.append("closed")


async def drop_one(log: list[str]) -> None:
    """Begin a generator and lose it: outside, trio would find it in the garbage and warn."""
    await anext(endless(log))


async def test_a_dropped_generator_is_closed_on_leaving() -> None:
    log: list[str] = []
    async with generators_closed():
        await drop_one(log)
        assert log == []
    assert log == ["closed"]


async def test_it_is_closed_when_the_body_raises_or_is_cancelled() -> None:
    log: list[str] = []

    async def fail() -> None:
        async with generators_closed():
            await drop_one(log)
            raise ValueError("bad chunk")

    with pytest.raises(ValueError, match="bad chunk"):
        await fail()
    with trio.CancelScope() as scope:
        async with generators_closed():
            await drop_one(log)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert log == ["closed", "closed"]


async def test_generators_of_others_are_left_alone() -> None:
    log: list[str] = []
    mine = endless(log)
    await anext(mine)
    async with generators_closed():
        await drop_one([])
    assert log == []
    assert await anext(mine) == 1
    await mine.aclose()


async def test_a_generator_that_fails_to_close_does_not_hide_how_the_request_ended() -> None:
    async def stubborn() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            raise OSError("the connection is gone")

    async with generators_closed():
        await anext(stubborn())


async def test_each_task_closes_its_own() -> None:
    first: list[str] = []
    second: list[str] = []
    turn = trio.Event()

    async def one() -> None:
        async with generators_closed():
            await drop_one(first)
            await turn.wait()

    async def other() -> None:
        async with generators_closed():
            await drop_one(second)
        assert (first, second) == ([], ["closed"])
        turn.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(other)
    assert first == ["closed"]

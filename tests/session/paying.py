"""The checkout in a process of its own, which kills itself at a step of its choice.

    python -m tests.session.paying STORE BOOKS STORY [TICK]

A tick passes right before and right after each line that is written into the bank's books.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast, get_args

import trio

from pi_actors import Outcome, Store, open_session
from tests.session.test_checkout import Bank, kinds, start

PROJECT: Final = Path(__file__).parents[2]
Story: TypeAlias = Literal["good", "declined", "cancelled"]
STORIES: Final[tuple[Story, ...]] = get_args(Story)


class TickingBank(Bank):
    """A bank whose process dies at tick number *tick*, counted from 1; 0: never."""

    def __init__(self, path: Path, story: Story, tick: int = 0) -> None:
        declined = ("d",) if story == "declined" else ()
        slow = ("c",) if story == "cancelled" else ()
        super().__init__(path, declined, slow)
        self._tick = tick
        self._passed = 0

    def _write(self, what: str, key: str) -> None:
        if (what, key) not in self.books():
            self._pass_tick()
            super()._write(what, key)
            self._pass_tick()

    def _pass_tick(self) -> None:
        self._passed += 1
        if self._passed == self._tick:
            os.kill(os.getpid(), signal.SIGKILL)


async def check_out(store: Path | Store, bank: Bank, story: Story) -> Outcome:
    """Do the checkout, or whatever of it is left, and return how it ended."""
    async with open_session(store, actors=kinds(bank)) as session:
        checkout = await start(session, bank)
        if story == "cancelled":
            await _first_of(bank.asked.wait, partial(session.wait_actor, checkout))
            await session.abort_actor(checkout)
        return await session.wait_actor(checkout)


async def check_out_in_a_process(folder: Path, story: Story, tick: int) -> int:
    """The same in a child process that dies at *tick*; its exit status."""
    words = [str(folder / "work.db"), str(folder / "books"), story, str(tick)]
    program = [sys.executable, "-m", "tests.session.paying", *words]
    return (await trio.run_process(program, cwd=PROJECT, check=False)).returncode


async def _first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    """Return with the first of them; a checkout that is being cancelled asks for no card again."""

    async def wait_for(wait: Callable[[], Awaitable[object]]) -> None:
        await wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for wait in waits:
            nursery.start_soon(wait_for, wait)


async def main(store: str, books: str, story: str, tick: str = "0") -> None:
    """Check out in this process."""
    told = cast(Story, story)
    await check_out(Path(store), TickingBank(Path(books), told, int(tick)), told)


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))

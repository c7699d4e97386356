"""The checkout, killed by SIGKILL right before and right after every effect that it has."""

import signal
from collections import Counter
from pathlib import Path

import pytest
import trio

from pi_actors import Store, open_store
from pi_actors.storage.log import Log
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_reader
from pi_actors.testing import CrashPoint, check_log, crash_sweep
from tests.session.paying import STORIES, Story, TickingBank, check_out, check_out_in_a_process

STATUS = {"good": "completed", "declined": "failed", "cancelled": "aborted"}
PROCESSES = 2
TICKS_AT_A_TIME = 4


@pytest.mark.parametrize("story", STORIES)
async def test_a_checkout_that_is_killed_at_an_effect_pays_or_refunds_each_card_once(
    story: Story, tmp_path: Path
) -> None:
    killed: dict[int, bool] = {}
    slots = trio.CapacityLimiter(PROCESSES)
    tick = 1
    while all(killed.values()):
        async with trio.open_nursery() as nursery:
            for number in range(tick, tick + TICKS_AT_A_TIME):
                folder = _made(tmp_path / str(number))
                nursery.start_soon(_kill_and_go_on, folder, story, number, killed, slots)
        tick += TICKS_AT_A_TIME
    assert sum(killed.values()) >= 8


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def _kill_and_go_on(
    folder: Path, story: Story, tick: int, killed: dict[int, bool], slots: trio.CapacityLimiter
) -> None:
    async with slots:
        killed[tick] = await check_out_in_a_process(folder, story, tick) == -signal.SIGKILL
        bank = TickingBank(folder / "books", story)
        ended = await check_out(folder / "work.db", bank, story)
    assert ended.status == STATUS[story]
    check_books(bank, story)
    reader = open_reader(folder / "work.db")
    check_log(reader, finished=True)
    reader.close()


@pytest.mark.parametrize("story", STORIES)
async def test_a_checkout_that_crashes_at_a_commit_pays_or_refunds_each_card_once(
    story: Story, tmp_path: Path
) -> None:
    banks: list[TickingBank] = []

    def make_log() -> Log:
        banks.append(TickingBank(tmp_path / f"books-{len(banks)}", story))
        return MemoryLog()

    async def scenario(store: Store) -> None:
        banks[-1].asked = trio.Event()
        assert (await check_out(store, banks[-1], story)).status == STATUS[story]

    def check(log: Log, _: CrashPoint | None) -> None:
        check_log(log, finished=True)
        check_books(banks[-1], story)

    assert await crash_sweep(scenario, check, make_log=make_log) >= 5


def check_books(bank: TickingBank, story: Story) -> None:
    """Nothing is written twice; all four cards have paid, or everything was given back."""
    books = Counter(bank.books())
    assert set(books.values()) == {1}
    assert len(bank.owed()) == (4 if story == "good" else 0)
    refunds = {key for what, key in books if what == "refund"}
    charges = {key for what, key in books if what == "charge"}
    assert refunds == (set() if story == "good" else charges)


async def test_a_checkout_killed_twice_still_pays_once(tmp_path: Path) -> None:
    for tick in (3, 2):
        assert await check_out_in_a_process(tmp_path, "good", tick) == -signal.SIGKILL
    bank = TickingBank(tmp_path / "books", "good")
    assert (await check_out(tmp_path / "work.db", bank, "good")).status == "completed"
    check_books(bank, "good")
    async with open_store(tmp_path / "work.db") as store:
        check_log(store.log, finished=True)

"""Logs of every sort for the tests of snapshots: a story, random work through crashes, random trees."""

import random
from functools import partial
from pathlib import Path

import trio
from trio.testing import MockClock

from pi_actors.core.record import Recorded
from pi_actors.core.state import EMPTY, SessionState, evolve
from pi_actors.runtime.kept import Kept
from pi_actors.runtime.live import KINDS, kept_of
from pi_actors.runtime.store import LiveStore
from pi_actors.storage.log import FORMAT, Head, Log
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import CrashPoint, EffectsFile, TrioClock, read_log, run_until_crash
from tests.crash.test_seeds import work
from tests.golden.write import FOLDER, load


def golden() -> MemoryLog:
    """The newest golden log: every topic is in it."""
    return load(FOLDER / f"format-{FORMAT}.rows")


def crashed(seed: int, folder: Path) -> MemoryLog:
    """Random work, cut off by a crash, taken up again and finished; its snapshots are deleted."""
    log = MemoryLog()

    async def live() -> None:
        chance = random.Random(seed)
        file = EffectsFile(folder / f"effects {seed}")
        scenario = partial(work, seed=seed, chance=chance, clock=TrioClock(), file=file)
        await run_until_crash(scenario, log, CrashPoint(chance.randint(8, 30), "after"))
        await run_until_crash(scenario, log, None)

    trio.run(live, clock=MockClock(autojump_threshold=0))
    log._sessions["main"].snapshots.clear()
    return log


def commits(log: Log) -> list[tuple[Recorded, SessionState]]:
    """The last event of every commit, and the state it led to, folded from the beginning."""
    state, found = EMPTY, list[tuple[Recorded, SessionState]]()
    for each in read_log(log):
        state = evolve(
            state, KINDS, position=each.position, at_us=each.at_us, actor=each.actor, event=each.event
        )
        if each.position == each.end:
            found.append((each, state))
    return found


def kept(log: Log) -> Kept:
    """How the session of *log* is read."""
    return kept_of(LiveStore(log), "main")


def head(log: Log) -> Head:
    """The session's head."""
    found = log.head("main")
    assert found is not None, "the session was claimed"
    return found

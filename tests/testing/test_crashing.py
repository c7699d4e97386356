"""A log that crashes where it is told to, and the sweep over every place."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pi_actors import SessionFailed, Store, ToolContext, open_session, open_store
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.storage.log import Log
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log
from pi_actors.testing import (
    Crash,
    CrashingLog,
    CrashPoint,
    EffectsFile,
    TrioClock,
    check_log,
    crash_sweep,
    effect_tools,
    read_log,
    run_until_crash,
)
from tests.storage.events import batch, claimed

PROJECT = Path(__file__).parents[2]


def test_commits_of_one_transaction_are_counted_singly_and_the_point_falls_between_them() -> None:
    stored = {}
    for point in (CrashPoint(2, "before"), CrashPoint(2, "after"), CrashPoint(3, "after")):
        log = MemoryLog()
        claimed(log, "main")
        crashing = CrashingLog(log, point)
        with pytest.raises(Crash, match=str(point)):
            crashing.append([batch("main", 0), batch("main", 1), batch("main", 2)])
        head = log.head("main")
        assert head is not None
        stored[str(point)] = head.position
    assert stored == {"before commit 2": 1, "after commit 2": 2, "after commit 3": 3}


def test_after_the_crash_nothing_is_read_or_written_but_the_log_below_goes_on() -> None:
    log = MemoryLog()
    claimed(log, "main")
    crashing = CrashingLog(log, CrashPoint(1, "after"))
    with pytest.raises(Crash):
        crashing.append([batch("main", 0)])
    for use in (
        lambda: crashing.append([batch("main", 1)]),
        lambda: crashing.head("main"),
        lambda: crashing.read("main", after=0, through=1),
        lambda: crashing.claim("main", now_us=0),
        lambda: crashing.acquire("main"),
    ):
        with pytest.raises(Crash):
            use()
    crashing.close()
    assert log.append([batch("main", 1)]) == [None]


def test_without_a_point_it_is_the_log_below() -> None:
    log = MemoryLog()
    crashing = CrashingLog(log, None)
    claimed(crashing, "main")
    crashing.append([batch("main", 0)])
    assert (crashing.commits, crashing.transactions, crashing.blocks) == (1, 2, False)
    assert crashing.heads() == log.heads()
    assert crashing.size_bytes("main") == log.size_bytes("main")


async def test_a_crash_fails_the_session_and_reopening_finds_what_was_stored() -> None:
    # R270, R271
    log = MemoryLog()
    with pytest.raises(SessionFailed, match="crashed after commit 2"):
        async with (
            open_store(CrashingLog(log, CrashPoint(2, "after"))) as store,
            open_session(store) as session,
        ):
            await session.root.submit_write("note")
    async with open_store(log) as store, open_session(store) as session:
        assert [entry.kind for entry in await session.root.entries()] == ["note"]


async def test_another_failure_of_the_session_is_no_crash() -> None:
    async def fail(store: Store) -> None:
        async with open_session(store) as session:
            session.live.line.fail(SessionFailed("for a reason of its own"))
            await session.root.submit_write("note")

    with pytest.raises(SessionFailed, match="for a reason of its own"):
        await run_until_crash(fail, MemoryLog(), CrashPoint(99, "before"))


@pytest.mark.parametrize("recoveries", [1, 3])
async def test_the_sweep_meets_every_commit_on_both_sides_and_then_a_run_without_a_crash(
    recoveries: int, tmp_path: Path, autojump_clock: MockClock
) -> None:
    seen: list[CrashPoint | None] = []
    file = EffectsFile(tmp_path / "effects")
    model = ScriptedModel([reply("", call("look", what="it")), reply("Seen.")])

    async def pause(_: ToolContext) -> None:
        await trio.sleep(0.1)

    async def scenario(store: Store) -> None:
        tools = effect_tools(file, pause=pause)
        async with open_session(store, model=model, tools=tools, clock=TrioClock()) as session:
            settled = await (await session.root.submit("look", request_id="one")).wait()
            assert settled.text == "Seen."

    def check(log: Log, point: CrashPoint | None) -> None:
        seen.append(point)
        check_log(log, finished=True)

    commits = await crash_sweep(scenario, check, recoveries=recoveries)
    assert commits == 5
    assert seen == [
        *(CrashPoint(n, side) for n in range(1, 6) for side in ("before", "after")),
        None,
    ]


async def test_the_sweep_works_on_sqlite_too(tmp_path: Path) -> None:
    made: list[Path] = []

    def make_log() -> Log:
        made.append(tmp_path / f"{len(made)}.db")
        return open_log(made[-1])

    async def scenario(store: Store) -> None:
        async with open_session(store) as session:
            await session.root.submit_write("note", request_id="one")

    def check(log: Log, _: CrashPoint | None) -> None:
        assert [each.topic for each in read_log(log)] == ["AgentSpawned", "SubmissionPlaced", "EntryAppended"]
        check_log(log, finished=True)

    assert await crash_sweep(scenario, check, make_log=make_log) == 2
    assert len(made) == 5


def test_a_process_that_kills_itself_is_killed_by_the_signal(tmp_path: Path) -> None:
    program = """
import sys
from pi_actors.storage.opening import open_log
from pi_actors.testing import CrashingLog, CrashPoint, kill_this_process
from tests.storage.events import batch, claimed
log = CrashingLog(open_log(sys.argv[1]), CrashPoint(1, "after"), crash=kill_this_process)
claimed(log, "main")
log.append([batch("main", 0, 3)])
"""
    store = tmp_path / "work.db"
    ended = subprocess.run([sys.executable, "-c", program, store], cwd=PROJECT, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    log = open_log(store)
    head = log.head("main")
    log.close()
    assert head is not None
    assert head.position == 3

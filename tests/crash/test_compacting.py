"""Crashes around compactions: the agent is before one or after it, and no summary is lost or paid twice."""

import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from pi_actors import Store, open_store
from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.actors.compaction.messages import SummarySettled, SummaryStarted
from pi_actors.core.record import Recorded
from pi_actors.storage.log import Log
from pi_actors.storage.opening import open_reader
from pi_actors.testing import CrashPoint, check_log, crash_sweep
from pi_actors.testing.crashing import SIDES
from tests.crash.compacting import KINDS, CompactionKind, check_requests, in_a_process, noting, work

PROCESSES = 2
FIRST = 8
"""The commit that begins the compaction, or one before it."""

BLOCK = 4
"""So many commits are swept at a time, so that little is done after the last one."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recoveries", [1, 2])
async def test_a_compaction_crashed_before_and_after_every_commit_is_finished_once(
    kind: CompactionKind, recoveries: int
) -> None:
    """X18, V349, N235, X71: whatever was accepted is answered, and each summary is placed once."""
    requests: list[str] = []

    async def scenario(store: Store) -> None:
        assert (await work(store, kind, requests.append)).status == "done"

    def check(log: Log, point: CrashPoint | None) -> None:
        _check(check_log(log, finished=True), kind)
        check_requests(requests, crashes=0 if point is None else recoveries)
        requests.clear()

    commits = await crash_sweep(scenario, check, recoveries=recoveries)
    assert commits > 15


async def test_a_compaction_killed_before_and_after_every_commit_is_finished_once(tmp_path: Path) -> None:
    """X18, V349: the same with SIGKILL, in a child process, from the commit on that begins it."""
    kind: CompactionKind = "blocking"
    swept: dict[CrashPoint, bool] = {}
    slots = trio.CapacityLimiter(PROCESSES)
    commit = FIRST
    while all(swept.values()):
        async with trio.open_nursery() as nursery:
            for number in range(commit, commit + BLOCK):
                for side in SIDES:
                    nursery.start_soon(_sweep, tmp_path, kind, CrashPoint(number, side), swept, slots)
        commit += BLOCK
    assert max(point.commit for point, killed in swept.items() if killed) > 20


async def _sweep(
    tmp_path: Path,
    kind: CompactionKind,
    point: CrashPoint,
    swept: dict[CrashPoint, bool],
    slots: trio.CapacityLimiter,
) -> None:
    folder = tmp_path / f"{point.commit}-{point.side}"
    folder.mkdir()
    async with slots:
        swept[point] = await in_a_process(folder, kind, point) == -signal.SIGKILL
        async with open_store(folder / "work.db") as store:
            assert (await work(store, kind, noting(folder / "requests"))).status == "done"
    reader = open_reader(folder / "work.db")
    _check(check_log(reader, finished=True), kind)
    reader.close()
    requests = (folder / "requests").read_text().splitlines()
    check_requests(requests, crashes=int(swept[point]))
    shutil.rmtree(folder)


def _check(log: Sequence[Recorded], kind: CompactionKind) -> None:
    """One compaction of the kind took place, in several parts, and its summary was placed once."""
    placed = [each.event for each in log if isinstance(each.event, EntryAppended)]
    summaries = [event for event in placed if event.kind == "pi.compaction"]
    assert [event.data["trigger"] for event in summaries] == [kind]
    started = [each for each in log if isinstance(each.event, SummaryStarted)]
    settled = [each for each in log if isinstance(each.event, SummarySettled)]
    parts = [each.event.part for each in settled if isinstance(each.event, SummarySettled)]
    assert len(started) == 1
    assert parts == list(range(len(parts)))
    assert len({each.end for each in settled}) >= 2, "no commit stands between two parts"

"""Real processes, killed by SIGKILL before and after every single commit of a run."""

import shutil
import signal
from pathlib import Path

import trio

from pi_actors import open_store
from pi_actors.actors.agent.messages import ToolResultSettled
from pi_actors.storage.opening import open_reader
from pi_actors.testing import CrashPoint, EffectsFile, check_effects, check_log
from pi_actors.testing.crashing import SIDES
from tests.crash.program import ANSWER, CALLS, work, work_in_a_process

PROCESSES = 2
BLOCK = 4
"""So many commits are swept at a time, so that little is done after the last one."""


async def test_work_killed_before_and_after_every_commit_is_finished_as_promised(tmp_path: Path) -> None:
    """V352, X01, X25, N223, N226 to N230: no kill loses, repeats or revives anything.

    Each time the work goes on in another process, and once more in a third one after a second kill.
    """
    swept: dict[CrashPoint, bool] = {}
    slots = trio.CapacityLimiter(PROCESSES)
    commit = 1
    while all(swept.values()):
        async with trio.open_nursery() as nursery:
            for number in range(commit, commit + BLOCK):
                for side in SIDES:
                    nursery.start_soon(_sweep, tmp_path, CrashPoint(number, side), swept, slots)
        commit += BLOCK
    killed = [point for point, was_killed in swept.items() if was_killed]
    assert max(killed).commit >= 2 + 2 * CALLS


async def test_a_kill_in_a_call_that_must_not_be_repeated_leaves_its_effect_unknown(tmp_path: Path) -> None:
    """N227, X19, X83: done once in the world, interrupted in the log, and the model is told."""
    folder, file, commit = tmp_path, EffectsFile(tmp_path / "effects"), 3
    while not file.by_key("push"):
        commit += 1
        folder = tmp_path / str(commit)
        folder.mkdir()
        file = EffectsFile(folder / "effects")
        await work_in_a_process(folder, CrashPoint(commit, "before"))
    results = await _finish(folder)
    unknown = [each for each in results if each.name == "push" and not each.own]
    assert [each.diagnostics[-1].code for each in unknown] == ["interrupted"] * len(unknown)
    for result in unknown:
        text = result.diagnostics[-1].text
        assert "its effect is unknown" in text
        assert "Nobody refused it, and it was not repeated" in text
    assert set(file.by_key("push").values()) == {1}


async def _sweep(
    tmp_path: Path, point: CrashPoint, swept: dict[CrashPoint, bool], slots: trio.CapacityLimiter
) -> None:
    once, twice = (tmp_path / f"{point.commit}-{point.side}-{times}" for times in ("once", "twice"))
    once.mkdir()
    async with slots:
        swept[point] = await work_in_a_process(once, point) == -signal.SIGKILL
        if not swept[point]:
            return
        shutil.copytree(once, twice)
        await work_in_a_process(twice, CrashPoint(2, "before"))
        await _finish(once)
        await _finish(twice)


async def _finish(folder: Path) -> list[ToolResultSettled]:
    """Go on in this process, check everything, and return the results of the calls."""
    file = EffectsFile(folder / "effects")
    async with open_store(folder / "work.db") as store:
        settled = await work(store, file)
    assert (settled.status, settled.text) == ("done", ANSWER)
    reader = open_reader(folder / "work.db")
    log = check_log(reader, finished=True)
    reader.close()
    results = check_effects(log, file)
    assert len(results) == CALLS
    assert all(result.own for result in results if result.name != "push")
    return results

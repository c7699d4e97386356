"""The one writer of a store under load, under cancellation, and under the eyes of whoever is killed."""

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
import trio

from pi_actors import Settings, ToolContext, open_session, open_store, tool
from pi_actors.core.errors import Fenced
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.storage.log import Batch, Log
from pi_actors.storage.opening import open_log, open_reader
from pi_actors.testing import CrashingLog, check_log, check_session, read_log
from tests.crash.program import PROJECT
from tests.storage.programs import command, kill, line_of, running

PROCESSES = 8
TURNS = 4
TOOLS = 40

WORK = """
import sys
import trio
from pi_actors import open_session
from pi_actors.models import ScriptedModel, reply

async def main(store, session_id, turns):
    model = ScriptedModel(lambda request: reply(f"Answer {request.turn}."))
    async with open_session(store, session_id, model=model) as session:
        for turn in range(int(turns)):
            assert (await session.root.ask(f"Question {turn}")).text == f"Answer {turn}."

trio.run(main, *sys.argv[1:])
"""

SHOW = """
import sys
import msgspec
import trio
from pi_actors import ToolContext, open_session, tool
from pi_actors.models import ScriptedModel, call, reply

@tool
async def talk(ctx: ToolContext, number: int) -> str:
    \"\"\"Talk.\"\"\"
    for word in range(5):
        ctx.output(f"{number}.{word}\\\\n")
        await trio.sleep(0.002)
    return f"said {number}"

def show(commit, state):
    for each in commit:
        print(each.position, msgspec.json.encode(each.event).decode(), flush=True)

async def main(store):
    calls = [call("talk", number=number) for number in range(3)]
    model = ScriptedModel(lambda request: reply("So:", *calls), chunk_ms=1)
    async with open_session(store, model=model, tools=[talk]) as session:
        session.live.line.listen(show)
        await (await session.root.submit("go")).wait()

trio.run(main, sys.argv[1])
"""
"""Works for ever and prints every event at the instant it is shown."""


async def test_eight_processes_write_one_store_and_none_fails(tmp_path: Path) -> None:
    """X57."""
    store, codes = tmp_path / "work.db", dict[int, int]()

    async def work(number: int) -> None:
        program = command(WORK, [store, f"session-{number}", TURNS])
        codes[number] = (await trio.run_process(program, cwd=PROJECT, check=False)).returncode

    async with trio.open_nursery() as nursery:
        for number in range(PROCESSES):
            nursery.start_soon(work, number)
    assert codes == dict.fromkeys(range(PROCESSES), 0)
    reader = open_reader(store)
    for number in range(PROCESSES):
        log = check_log(reader, f"session-{number}", finished=True)
        assert [each.topic for each in log].count("RunEnded") == TURNS
    reader.close()


@pytest.mark.parametrize("point", range(5))
def test_what_was_shown_when_the_process_was_killed_is_stored(point: int, tmp_path: Path) -> None:
    """X03: at random instants, byte for byte."""
    store = tmp_path / "work.db"
    shown: list[str] = []
    with running(SHOW, store) as process:
        shown += [line_of(process) for _ in range(random.Random(point).randint(5, 120))]
        kill(process)
        assert process.stdout is not None
        shown += [line.strip() for line in process.stdout if line.endswith("\n")]
    reader = open_reader(store)
    log = check_log(reader)
    reader.close()
    stored = {f"{each.position} {msgspec.json.encode(each.event).decode()}" for each in log}
    assert [line for line in shown if line not in stored] == []


class Held(CrashingLog):
    """A log whose writes wait, each in its thread, until the test lets them go on."""

    def __init__(self, log: Log) -> None:
        super().__init__(log, None)
        self.waiting = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        self.waiting.set()
        assert self.go_on.wait(timeout=60)
        return super().append(batches)


async def test_a_write_that_has_begun_is_finished_and_known_though_its_caller_was_cancelled(
    tmp_path: Path,
) -> None:
    """X67: and closing waits for it."""
    log = open_log(tmp_path / "work.db")
    held = Held(log)
    async with open_store(held) as store, open_session(store) as session:
        before = session.position
        held.waiting.clear()
        held.go_on.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.root.submit_write, "a.note")
            await trio.to_thread.run_sync(held.waiting.wait)
            nursery.cancel_scope.cancel()
        assert session.position == before
        threading.Timer(0.05, held.go_on.set).start()
    assert session.position == before + 2
    assert [each.topic for each in check_log(log, finished=True)][-2:] == [
        "SubmissionPlaced",
        "EntryAppended",
    ]
    log.close()


async def test_forty_plain_tools_that_write_from_their_threads_do_not_stall_the_store(tmp_path: Path) -> None:
    together = threading.Barrier(TOOLS)

    @tool
    def talk(ctx: ToolContext, number: int) -> str:
        """Talk, once all others do."""
        together.wait(timeout=60)
        for word in range(20):
            ctx.output(f"{number}.{word}\n")
        together.wait(timeout=60)
        return f"said {number}"

    model = ScriptedModel([reply("", *(call("talk", number=n) for n in range(TOOLS))), reply("Enough.")])
    settings = Settings(progress_ms=1)
    async with open_session(tmp_path / "work.db", model=model, tools=[talk], settings=settings) as session:
        assert (await session.root.ask("go")).text == "Enough."
        await check_session(session)
        log = read_log(session.live.store.log)
        assert session.live.store.log.transactions < len({each.end for each in log})
    results = [each for each in log if each.topic == "ToolResultSettled"]
    assert len(results) == TOOLS
    reader = open_reader(tmp_path / "work.db")
    check_log(reader, finished=True)
    reader.close()

"""One session, several who want it: one has it, the others are told so and change nothing."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from pi_actors import SessionFailed, SessionInUse, open_session, tool
from pi_actors.core.errors import Fenced
from pi_actors.core.ids import SessionId
from pi_actors.core.record import Recorded
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.storage.log import Batch, Held
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_reader
from pi_actors.testing import CrashingLog, check_log, read_log
from tests.crash.killed import reopened
from tests.storage.programs import kill, line_of, running

OPEN = """
import sys
import trio
from pi_actors import open_session
from pi_actors.models import ScriptedModel, stall

async def main():
    async with open_session(sys.argv[1], model=ScriptedModel([stall()])) as session:
        await session.root.submit("go", request_id="go")
        print("open", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_second_opener_is_refused_at_once_and_opens_at_once_when_the_first_was_killed(
    tmp_path: Path,
) -> None:
    """X53, R292: the refused one has changed nothing."""
    store = tmp_path / "work.db"
    with running(OPEN, store) as first:
        assert line_of(first) == "open"
        reader = open_reader(store)
        before = (reader.head("main"), read_log(reader))
        with pytest.raises(SessionInUse, match=f"process {first.pid} on host"):
            async with open_session(store):
                pass
        assert (reader.head("main"), read_log(reader)) == before
        reader.close()
        kill(first)
        async with open_session(store, model=ScriptedModel([reply("Done.")])) as session:
            assert (await (await session.root.submit("go", request_id="go")).wait()).text == "Done."
            with pytest.raises(SessionInUse, match=f"process {os.getpid()} on host"):
                async with open_session(store):
                    pass
    reader = open_reader(store)
    check_log(reader, finished=True)
    reader.close()


class Unlocked(CrashingLog):
    """A log on a mount where locks do not exclude and no probe has shown it. It counts refusals."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, None)
        self.refusals = 0

    def acquire(self, session: SessionId) -> Held:
        return _Nothing()

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        outcomes = super().append(batches)
        self.refusals += sum(outcome is not None for outcome in outcomes)
        return outcomes


class _Nothing:
    def close(self) -> None:
        """Nothing was held."""


async def test_a_writer_whose_session_was_taken_over_is_refused_and_stops_all_its_effects() -> None:
    """X33, X24, X55: a log in which two epochs are interleaved cannot come to be."""
    log, stopped = MemoryLog(), trio.Event()
    old, entered = Unlocked(log), trio.Event()
    kept: list[Recorded] = []

    @tool
    async def hang() -> None:
        """Hang until stopped."""
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async def be_taken_over() -> None:
        async with reopened(old, [reply("", call("hang"))], hang) as session:
            await session.root.submit("go")
            await entered.wait()
            async with reopened(Unlocked(log), [], hang, resume=False) as other:
                await other.root.submit_write("from.the.new.owner")
            kept.extend(read_log(log))
            await session.root.submit_write("from.the.old.owner")

    with pytest.raises(SessionFailed, match="another writer has extended or taken over"):
        await be_taken_over()
    assert stopped.is_set()
    assert old.refusals >= 1
    assert read_log(log) == kept
    assert kept[-1].topic == "SubmissionQueued"
    check_log(log)

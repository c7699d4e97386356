"""What goes of the progress that was stored, when, and what everything else looks like after that."""

import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from trio.testing import MockClock

from pi_actors import Session, SessionFailed, Settings, Store, ToolContext, open_session, open_store, tool
from pi_actors.actors.agent.messages import ResponseSettled
from pi_actors.actors.generation.messages import Delta, PartialStreamed
from pi_actors.actors.topics import PROGRESS
from pi_actors.core.errors import Fenced, LogCorrupt, StoreError
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import Recorded
from pi_actors.core.state import EMPTY as NOTHING
from pi_actors.core.state import SessionState, evolve
from pi_actors.models import ScriptedModel, call, reply, stall
from pi_actors.models.plays import Script
from pi_actors.runtime import scavenging
from pi_actors.runtime.group_commit import GroupCommit
from pi_actors.runtime.kept import Kept
from pi_actors.runtime.live import CODEC, KINDS
from pi_actors.runtime.store import TOPICS
from pi_actors.session import snapshots
from pi_actors.storage.codec import published
from pi_actors.storage.log import Batch, Log, LogReader, Snapshot
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log, open_reader
from pi_actors.testing import CrashPoint, TrioClock, check_log, check_session, read_log, run_until_crash
from pi_actors.testing.crashing import SIDES
from pi_actors.tools import subagent_tool
from projections.fold import Document
from projections.session import EMPTY, FoldedState, fold_commit
from projections.snapshot import NAME, state_of
from tests.crash.killed import killed, reopened
from tests.projections.busy import SETTINGS, busy_model, busy_tools, keep_busy
from tests.projections.stored import Doubled, stored
from tests.projections.story import Story
from tests.projections.test_tail import Raced, streamed
from tests.session.gate import Gate
from tests.storage.events import batch, claimed
from tests.storage.programs import running

QUICK = Settings(progress_ms=1)
LONG = "A long answer, said in many small pieces. " * 5
AT_ONCE = pytest.mark.usefixtures("at_once")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is superseded goes without delay."""
    monkeypatch.setattr(scavenging, "LINGER_S", 0)


@pytest.fixture(params=["memory:", "sqlite:"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    kind: str = request.param
    log = open_log(kind if kind == "memory:" else f"{kind}{tmp_path / 'work.db'}")
    yield log
    log.close()


@tool(replay="safe")
async def talk(ctx: ToolContext) -> str:
    """Say something while working."""
    for number in range(5):
        ctx.output(f"line {number}\n")
        await ctx.details({"done": number})
        await trio.sleep(0.002)
    return "said"


def talking() -> ScriptedModel:
    """Streams an answer with a call, and another answer, and so on."""
    return ScriptedModel(
        lambda request: reply(LONG, call("talk")) if request.turn % 2 == 0 else reply(LONG), chunk_ms=1
    )


def progress(log: LogReader) -> list[Recorded]:
    """The progress events that are stored."""
    return [each for each in read_log(log) if each.topic in PROGRESS]


async def gone(log: LogReader, *, left: int = 0) -> None:
    """Return once no more than *left* progress events are stored."""
    while len(progress(log)) > left:  # noqa: ASYNC110 - deleting announces nothing
        await trio.sleep(0.005)


# What goes and what stays.


async def test_progress_goes_once_it_is_settled_and_everything_else_stays(log: Log) -> None:
    whole = MemoryLog()
    async with reopened(Doubled(log, whole), talking(), talk, settings=QUICK) as session:
        await session.root.ask("Talk.")
        streamed = {each.topic for each in progress(whole)}
        assert streamed == PROGRESS
        documents, entries = await session.root.documents(), await session.root.entries()
        await gone(log)
        await check_session(session)
        assert log.size_bytes("main") == sum(
            len(row.state) for row in log.read("main", after=0, through=session.position)
        )
        assert log.size_bytes("main") < whole.size_bytes("main")
        assert (await session.root.documents(), await session.root.entries()) == (documents, entries)
    assert read_log(log) == [each for each in read_log(whole) if each.topic not in PROGRESS]
    check_log(log, finished=True)
    head = log.head("main")
    assert head is not None
    assert 0 < head.scavenged_to <= head.position


async def test_progress_is_left_for_a_second_so_that_followers_get_by(autojump_clock: MockClock) -> None:
    log = MemoryLog()
    slow = ScriptedModel(lambda _: reply(LONG), chunk_ms=10)
    async with reopened(log, slow, clock=TrioClock()) as session:
        await session.root.ask("Talk.")
        settled = trio.current_time()
        streamed = len(progress(log))
        assert streamed > 1
        await gone(log, left=streamed - 1)
        assert trio.current_time() - settled >= scavenging.LINGER_S
        await gone(log)
        assert trio.current_time() - settled < scavenging.LINGER_S + 1


@AT_ONCE
async def test_progress_of_what_still_runs_stays(log: Log) -> None:
    gate = Gate()

    @tool(replay="safe")
    async def begin(ctx: ToolContext) -> str:
        """Say how it begins, and wait."""
        ctx.output("it begins")
        await ctx.details({"begun": True})
        gate.entered.set()
        await gate.opened.wait()
        return "done"

    async with reopened(
        log, ScriptedModel([reply(LONG, call("begin")), reply("Done.")], chunk_ms=1), begin, settings=QUICK
    ) as session:
        submission = await session.root.submit("Begin.")
        await gate.entered.wait()
        slot = await _slot_with_output(session)
        await gone(log, left=2)
        assert {each.topic for each in progress(log)} == {"ToolDetailsReported", "ToolOutputStreamed"}
        await check_session(session)
        assert slot["output"] == "it begins"
        gate.opened.set()
        await submission.wait()
        await gone(log)


async def _slot_with_output(session: Session) -> dict[str, object]:
    """The one slot of pi.live, once it has output and details."""
    while True:
        slot: dict[str, object]
        (slot,) = (await session.root.documents())["pi.live"]["tools"]
        if slot["output"] and slot["details"]:
            return slot
        await trio.sleep(0.005)


async def test_with_keep_progress_nothing_goes(log: Log) -> None:
    kept = Settings(progress_ms=1, keep_progress=True)
    whole = MemoryLog()
    async with reopened(Doubled(log, whole), talking(), talk, settings=kept) as session:
        await session.root.ask("Talk.")
    assert read_log(log) == read_log(whole)
    head = log.head("main")
    assert head is not None
    assert head.scavenged_to == 0
    # What was kept by one opening is found by the next that does not want to keep it.
    async with reopened(log, talking(), talk, settings=QUICK):
        await gone(log)


async def test_what_an_actor_that_owns_agents_has_reported_stays_as_its_state_does() -> None:
    """An agent never ends, so the tool that owns it stays in the tree, with what it showed."""
    log = MemoryLog()
    script = ScriptedModel(
        lambda request: (
            reply("Hm.", call("task", prompt="Do it."))
            if request.turn == 0 and request.session_id.endswith(":1")
            else reply(LONG)
        ),
        chunk_ms=1,
    )
    async with reopened(log, script, subagent_tool(), settings=QUICK) as session:
        await session.root.ask("Delegate.")
        ended = [each for each in session.live.line.shown.actors.values() if each.ended]
        (owner,) = (each for each in ended if each.kind == "pi.tool")
        await gone(log, left=1)
        assert [(each.actor, each.topic) for each in progress(log)] == [(owner.id, "ToolDetailsReported")]
        await check_session(session)
    async with reopened(log, script, subagent_tool(), settings=QUICK) as session:
        await check_session(session)
        await session.root.ask("Once more.")
        await gone(log, left=1)
        await check_session(session)


# Leftovers.


async def test_what_a_killed_process_left_is_found_by_the_next_one_and_what_is_live_stays(log: Log) -> None:
    """Without a look at the rest of the log; the partial of the request that is out is still needed."""
    script: Script = [reply(LONG, call("talk")), reply(LONG), stall(LONG)]
    async with killed(log, ScriptedModel(script, chunk_ms=1), talk, settings=QUICK) as session:
        await session.root.ask("Talk.")
        await session.root.submit("Talk on.")
        await session.live.waits.until(has_partial)
    before, whole = progress(log), read_log(log)
    last = max(each.position for each in whole if isinstance(each.event, ResponseSettled))
    live = [each.position for each in before if each.position > last]
    assert 0 < len(live) < len(before)
    async with reopened(log, ScriptedModel(script), talk, settings=QUICK, resume=False) as session:
        await gone(log, left=len(live))
        assert [each.position for each in progress(log)] == live
        await check_session(session)
        partial = (await session.root.documents())["pi.live"]["generation"]["partial"]
        assert LONG.startswith(partial[0]["text"])
    async with reopened(log, lambda _: reply("Done."), talk, settings=QUICK) as session:
        await session.wait_idle()
        await gone(log)
        await check_session(session)
    check_log(log, finished=True)
    kept = [each for each in read_log(log) if each.position <= whole[-1].position]
    assert kept == [each for each in whole if each.topic not in PROGRESS]


def has_partial(state: SessionState) -> bool:
    return any(getattr(actor.state, "partial", ()) for actor in state.actors.values() if actor.live)


async def test_the_last_event_of_a_log_stays_whatever_it_is() -> None:
    """So a log never ends before its head says; here the event is of an actor that never was."""
    log = MemoryLog()
    async with reopened(log, []):
        pass
    story = Story()
    story.commits = [tuple(read_log(log))]
    story.commit((99, PARTIAL), (99, PARTIAL))
    stored(log, story)
    async with reopened(log, [reply("Hello.")], settings=QUICK) as session:
        await gone(log, left=1)
        assert read_log(log)[-1].event == PARTIAL
        await check_session(session)
        await session.root.ask("Hello?")
        await check_session(session)
    async with reopened(log, [], settings=QUICK):
        await gone(log)


PARTIAL = PartialStreamed(deltas=(Delta(part=0, type="text", text="so far"),))

WORK = """
import sys
import trio
from pi_actors import Settings, open_session
from pi_actors.core.messages import Text
from pi_actors.models import ModelResponse
from pi_actors.models.protocol import TextDelta
from pi_actors.runtime import scavenging
from pi_actors.storage.opening import open_log
from pi_actors.testing import CrashingLog, kill_this_process

class Dying(CrashingLog):
    deletions = 0

    def scavenge(self, session, *, epoch, positions, through):
        self.deletions += 1
        if self.deletions == int(sys.argv[2]):
            kill_this_process(None)
        return super().scavenge(session, epoch=epoch, positions=positions, through=through)

class Pieces:
    name, context_window = "pieces", None

    def see(self, commit, state):
        if commit[0].topic == "PartialStreamed":
            self.seen.set()

    async def stream(self, request, emit):
        for _ in range(8):
            self.seen = trio.Event()
            emit(TextDelta(part=0, text="piece "))
            await self.seen.wait()
        return ModelResponse(parts=(Text(text="piece " * 8),), stop="stop")

async def main():
    scavenging.LINGER_S, scavenging.ROWS_MIN, scavenging.ROWS_MAX = 0, 2, 2
    model, log = Pieces(), Dying(open_log(sys.argv[1]), None)
    async with open_session(log, model=model, settings=Settings(progress_ms=1)) as session:
        session.live.line.listen(model.see)
        for _ in range(3):
            await session.root.ask("Talk.")
    log.log.close()

trio.run(main)
print("finished", flush=True)
"""
"""Three answers of eight pieces, until killed before a deletion of two rows; its number is given."""


async def test_a_store_opens_after_a_kill_between_any_two_deletions(tmp_path: Path) -> None:
    for deletion in (1, 2, 4, 5, 12):
        file = tmp_path / f"{deletion}.db"
        with running(WORK, file, deletion) as process:
            assert await trio.to_thread.run_sync(process.wait) == -9
        with closing(open_reader(file)) as reader:
            check_log(reader)
        async with open_session(file, model=talking(), settings=QUICK) as session:
            await session.wait_idle()
            await check_session(session)
            await gone(session.live.store.log)
            await session.root.ask("Talk.")
        with closing(open_reader(file)) as reader:
            assert progress(reader) == []
            check_log(reader, finished=True)


# Beside commits, and at the end.


async def test_closing_deletes_what_is_settled_by_then(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scavenging, "LINGER_S", 1_000)
    async with reopened(log, talking(), talk, settings=QUICK) as session:
        await session.root.ask("Talk.")
        assert progress(log)
    assert progress(log) == []


@AT_ONCE
async def test_scavenging_gets_its_turn_also_where_commits_never_pause(tmp_path: Path) -> None:
    log = open_log(tmp_path / "work.db", "process")
    async with open_store(log) as store, trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(_write_without_a_pause, store.open_session(f"busy-{number}"))
        async with store.open_session(model=talking(), tools=[talk], settings=QUICK) as session:
            await session.root.ask("Talk.")
            await gone(log)
        nursery.cancel_scope.cancel()
    log.close()


async def _write_without_a_pause(opening: AbstractAsyncContextManager[Session]) -> None:
    async with opening as session:
        while True:
            await session.root.submit_write("note")


async def test_a_lull_is_waited_for_as_long_as_patience_lasts() -> None:
    log = MemoryLog()
    claimed(log, "main")
    group = GroupCommit(log)
    assert await group.lull(0)
    waiting = Waiting(batch("main", 0))
    group.put(waiting)
    assert not await group.lull(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(group.run)
        assert await group.lull(60)
        assert waiting.stored
        nursery.cancel_scope.cancel()


class Waiting:
    """A batch on its way."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.stored = False

    def acknowledge(self) -> None:
        self.stored = True

    def fail(self, error: StoreError) -> None:
        raise AssertionError(error)


def test_a_state_of_the_past_can_be_folded_while_progress_goes() -> None:
    """Rows that go between two reads are no damage; those that are missing beyond that are."""
    log = Raced()
    stored(log, streamed(partials=4))
    kept = Kept(log, "main", TOPICS, KINDS, CODEC)
    log.before_reading = lambda: log.scavenge("main", epoch=1, positions=[5, 4], through=6)
    assert [each.position for each in kept.events(after=0, through=6)] == [1, 2, 3, 6]
    assert [each.position for each in kept.events(after=3, through=5)] == []
    with pytest.raises(LogCorrupt, match="damaged at position 7"):
        list(kept.events(after=0, through=8))


async def test_a_session_that_somebody_took_over_deletes_nothing_and_fails(log: Log) -> None:
    before: list[Recorded] = []

    async def lose() -> None:
        async with reopened(log, talking(), talk, settings=QUICK) as session:
            await session.root.ask("Talk.")
            log.claim("main", now_us=0)
            before.extend(read_log(log))
            await trio.sleep_forever()

    with pytest.raises(SessionFailed, match="taken over by another writer"):
        await lose()
    assert read_log(log) == before


# Equal to what was never scavenged.


class Compared(Doubled):
    """Compares the log, after some of the deletions, with one from which nothing goes."""

    def __init__(self, log: Log, whole: Log, chance: random.Random) -> None:
        super().__init__(log, whole)
        self.deletions = 0
        self.snapshots_taken = 0
        self._chance = chance

    def scavenge(
        self, session: SessionId, *, epoch: int, positions: Sequence[Position], through: Position
    ) -> Fenced | None:
        fenced = super().scavenge(session, epoch=epoch, positions=positions, through=through)
        self.deletions += 1
        if self._chance.random() < 0.1:
            compare(self.log, self.whole)
        return fenced

    def save_snapshot(self, session: SessionId, epoch: int, *snapshots: Snapshot) -> bool:
        for snapshot in snapshots:
            if snapshot.name == NAME:
                self.snapshots_taken += 1
                full = states_of(self.whole)[snapshot.position].shown
                assert state_of(snapshot, TOPICS, full.uuid) == full
        return super().save_snapshot(session, epoch, *snapshots)


@pytest.mark.parametrize("seed", range(40), ids=lambda seed: f"seed-{seed}")
async def test_a_log_that_was_scavenged_folds_to_the_same_states_from_where_its_head_says(
    seed: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every position from ``scavenged_to`` on, on the write side and for readers, across crashes.

    Before that all but what is live is the same, and of what had streamed the beginning is left.
    Snapshots that are folded from the log meanwhile are exact.
    """
    chance = random.Random(seed)
    monkeypatch.setattr(scavenging, "LINGER_S", chance.choice((0, 0.5)))
    monkeypatch.setattr(scavenging, "ROWS_MIN", 2)
    monkeypatch.setattr(scavenging, "ROWS_MAX", 4)
    monkeypatch.setattr(snapshots, "EVERY", 20)
    monkeypatch.setattr(snapshots, "BYTES_A_POSITION", 1_000_000)
    monkeypatch.setattr(snapshots, "PAGE_ROWS", 3)
    log, whole = MemoryLog(), MemoryLog()
    compared = Compared(log, whole, chance)

    async def scenario(store: Store) -> None:
        async with store.open_session(
            model=busy_model(seed), tools=busy_tools(chance), clock=TrioClock(), settings=SETTINGS
        ) as session:
            await keep_busy(session, chance, steps=10)
            await session.wait_idle()
            await check_session(session)

    for _ in range(chance.randint(0, 2)):
        await run_until_crash(scenario, compared, CrashPoint(chance.randint(1, 40), chance.choice(SIDES)))
        compare(log, whole)
    await run_until_crash(scenario, compared, None)
    compare(log, whole)
    check_log(log)
    assert compared.deletions > 0
    assert compared.snapshots_taken > 0


def compare(log: Log, whole: Log) -> None:
    """Hold every state of the log against that of the whole one."""
    head = log.head("main")
    assert head is not None
    left, full = states_of(log), states_of(whole)
    reached = NOTHING_YET
    for position, states in full.items():
        reached = left.get(position, reached)
        if position >= head.scavenged_to:
            assert reached == states
        else:
            compare_settled(reached.shown, states.shown)


class States(NamedTuple):
    """The state of the write side and that of readers."""

    written: SessionState
    shown: FoldedState


NOTHING_YET = States(NOTHING, EMPTY)


def states_of(log: Log) -> dict[Position, States]:
    """The states at each commit's end that is left."""
    states: dict[Position, States] = {}
    written, shown = NOTHING_YET
    for commit in published(read_log(log)):
        shown = fold_commit(shown, commit)
        for each in commit:
            written = evolve(
                written, KINDS, position=each.position, at_us=each.at_us, actor=each.actor, event=each.event
            )
        states[commit[-1].end] = States(written, shown)
    return states


def compare_settled(left: FoldedState, full: FoldedState) -> None:
    """All but what is live is the same, and what streamed is a beginning of what had streamed."""
    assert left.agents == full.agents
    assert left.tree() == full.tree()
    for agent in full.agents:
        assert left.entry_ids(agent) == full.entry_ids(agent)
        found, expected = left.documents(agent), full.documents(agent)
        live, known = found.pop("pi.live"), expected.pop("pi.live")
        assert found == expected
        assert (live["run"], live["retry"], live["unknown"]) == (
            known["run"],
            known["retry"],
            known["unknown"],
        )
        for part, longer in zip(said(live), said(known), strict=False):
            assert longer.startswith(part)
        assert len(said(live)) <= len(said(known))


def said(live: Document) -> list[str]:
    """The parts that have streamed."""
    return [] if live["generation"] is None else [part["text"] for part in live["generation"]["partial"]]

"""Snapshots of the documents, which the process that owns a session takes."""

import random
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pi_actors import Session, Store, StoreError, open_session, open_store
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.session import snapshots
from pi_actors.storage.log import Log, Snapshot
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log, open_reader
from pi_actors.testing import CrashingLog, CrashPoint, TrioClock, run_until_crash
from projections import follow, replay
from projections.folding import begin
from projections.replay import TOPICS, SessionState
from projections.session import FoldedState
from projections.snapshot import NAME, state_of
from projections.view import value_of
from tests.projections.busy import SETTINGS, busy_model, busy_tools, keep_busy
from tests.projections.exact import exact
from tests.projections.stored import Doubled, Opened
from tests.projections.test_folding import damage
from tests.session.gate import Gate
from tests.session.opened import opened

TALKS = ScriptedModel(lambda request: reply(f"Answer {request.turn}."))


def kept(log: Log, uuid: str) -> list[FoldedState]:
    """The states in the snapshots, newest first."""
    states = [state_of(each, TOPICS, uuid) for each in log.snapshots("main", NAME)]
    return [state for state in states if state is not None]


def folds_of(state: SessionState) -> FoldedState:
    """What is true in *state*, without the rest of what the log tells."""
    return FoldedState(
        position=state.position,
        at_us=state.at_us,
        uuid=state.uuid,
        tree_state=state.tree_state,
        folds=state.folds,
    )


async def write_notes(session: Session, count: int) -> None:
    """So many commits of two events, one after another."""
    for number in range(count):
        await session.root.submit_write("note", data=number)


async def test_a_closed_session_leaves_a_snapshot_of_all_that_happened() -> None:
    log = MemoryLog()
    async with open_store(log) as store, opened(TALKS, store=store) as session:
        await session.root.ask("Hello?")
    state = await replay(Opened(log))
    assert kept(log, state.uuid) == [folds_of(state)]


async def test_a_session_whose_documents_were_asked_for_leaves_the_same() -> None:
    log = MemoryLog()
    async with open_store(log) as store, opened(TALKS, store=store) as session:
        await session.root.documents()
        await session.root.ask("Hello?")
    state = await replay(Opened(log))
    assert kept(log, state.uuid) == [folds_of(state)]


async def test_what_is_still_running_at_the_close_is_in_the_snapshot() -> None:
    log, gate = MemoryLog(), Gate()
    async with open_store(log) as store, opened([reply("", call("gate"))], gate.tool, store=store) as session:
        await session.root.submit("Go.")
        await gate.entered.wait()
        await session.root.submit("And then?")
    state = await replay(Opened(log))
    (snapshot,) = kept(log, state.uuid)
    assert snapshot == folds_of(state)
    assert [slot["state"] for slot in snapshot.documents(1)["pi.live"]["tools"]] == ["running"]
    assert len(snapshot.documents(1)["pi.inbox"]["items"]) == 1


async def test_a_long_session_is_kept_up_with_in_the_background(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(snapshots, "EVERY", 40)
    monkeypatch.setattr(snapshots, "PAGE_ROWS", 7)
    log = MemoryLog()
    async with open_store(log) as store, opened(TALKS, store=store) as session:
        for _ in range(5):
            await write_notes(session, 25)
            await trio.sleep(60)
            assert session.position - kept(log, session.uuid)[0].position < 80
        assert (await session.folded()).position == session.position
        await write_notes(session, 40)
        await trio.sleep(60)
        assert session.position - kept(log, session.uuid)[0].position < 80
    for state in kept(log, session.uuid):
        assert state == folds_of(await replay(Opened(log), to=state.position))


async def test_a_commit_longer_than_what_is_folded_at_once_is_folded_whole(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(snapshots, "EVERY", 2)
    monkeypatch.setattr(snapshots, "BYTES_A_POSITION", 1_000_000)
    monkeypatch.setattr(snapshots, "PAGE_ROWS", 1)
    log, gate = MemoryLog(), Gate()
    calls = [call("gate") for _ in range(9)]
    async with open_store(log) as store, opened([reply("", *calls)], gate.tool, store=store) as session:
        await session.root.submit("Go.")
        await trio.sleep(60)
        assert session.position - kept(log, session.uuid)[0].position < 2


async def test_a_snapshot_that_takes_much_room_is_followed_by_as_long_a_way(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Else snapshots of a session with much in its inbox would soon take more room than its log."""
    monkeypatch.setattr(snapshots, "EVERY", 4)
    saved: list[Snapshot] = []

    class Counting(CrashingLog):
        def save_snapshot(self, session: str, epoch: int, *given: Snapshot) -> bool:
            saved.extend(each for each in given if each.name == NAME)
            return super().save_snapshot(session, epoch, *given)

    log, gate = Counting(MemoryLog(), None), Gate()
    async with open_store(log) as store, opened([reply("", call("gate"))], gate.tool, store=store) as session:
        await session.root.submit("Go.")
        await gate.entered.wait()
        await session.root.submit("x" * 20_000)
        await trio.sleep(60)
        for _ in range(200):
            await session.root.configure(thinking="high")
            await trio.sleep(60)
        taken = [each for each in saved if len(each.body) > 20_000]
        assert 0 < len(taken) <= 3


@pytest.mark.parametrize("store", ["memory:", "work.db"])
async def test_opening_again_and_looking_begins_at_the_snapshot(tmp_path: Path, store: str) -> None:
    """A view shows the whole transcript, and all documents are as the log tells."""
    log = open_log(store if store == "memory:" else tmp_path / store)
    async with open_store(log) as opened_store:
        for name in ("one", "two"):
            async with opened(TALKS, store=opened_store) as session:
                assert begin(log, TOPICS, "main").state.position in (0, session.position)
                async with session.root.view() as view:
                    assert len(view.value["entries"]) == (0 if name == "one" else 4)
                    for _ in range(2):
                        await session.root.ask(name)
                    state = await replay(opened_store)
                    assert exact(view.value) == exact(value_of(state, 1))
                    assert await session.root.documents() == state.documents(1)
                    assert await session.usage() == state.usage()
    log.close()


async def test_what_a_snapshot_covers_is_not_read_again_for_the_documents(tmp_path: Path) -> None:
    file = tmp_path / "work.db"
    async with open_session(file, model=TALKS) as session:
        await session.root.ask("Hello?")
        known = await session.root.documents()
    (run,) = [each for each in range(1, 9) if topic_at(file, each) == "RunStarted"]
    async with open_store(file) as store, store.open_session(model=TALKS) as session:
        damage(file, position=run, topic="RunStarted")
        assert await session.root.documents() == known
        async with session.root.view() as view:
            assert [entry["kind"] for entry in view.value["entries"]] == ["pi.user", "pi.assistant"]
        async with follow(file) as view:
            assert view.value["docs"] == known


def topic_at(file: Path, position: int) -> str:
    with closing(open_reader(file)) as reader:
        return "".join(row.topic for row in reader.read_at("main", [position]))


async def test_a_close_waits_a_bounded_time_and_keeps_what_was_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    async with open_store(log) as store:
        async with opened(TALKS, store=store) as session:
            await session.root.ask("Hello?")
        (before,) = kept(log, session.uuid)
        monkeypatch.setattr(snapshots, "CLOSE_S", 0.0)
        async with opened(TALKS, store=store) as session:
            await session.root.ask("Hello?")
        assert kept(log, session.uuid)[0] == before, "there was no time at all"
        monkeypatch.undo()
        async with opened(TALKS, store=store):
            pass
    assert kept(log, session.uuid)[0] == folds_of(await replay(Opened(log)))


async def test_a_session_that_has_failed_leaves_no_snapshot() -> None:
    log = MemoryLog()

    async def ask(store: Store) -> None:
        async with opened(TALKS, store=store) as session:
            await session.root.ask("Hello?")

    assert await run_until_crash(ask, log, CrashPoint(3, "before"))
    assert log.snapshots("main", NAME) == []


async def test_a_disk_that_takes_no_snapshot_does_not_trouble_the_session(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(snapshots, "EVERY", 4)
    log = Full(MemoryLog(), None)
    async with open_store(log) as store, opened(TALKS, store=store) as session:
        for _ in range(5):
            await session.root.ask("Hello?")
            await trio.sleep(60)
    assert log.refused > 1
    assert log.log.snapshots("main", NAME) == []


class Full(CrashingLog):
    """A store with no room for snapshots."""

    refused = 0

    def save_snapshot(self, session: str, epoch: int, *given: Snapshot) -> bool:
        if any(each.name == NAME for each in given):
            self.refused += 1
            raise StoreError("the disk is full")
        return super().save_snapshot(session, epoch, *given)


async def test_views_that_begin_while_commits_go_on_miss_nothing(tmp_path: Path) -> None:
    """Entries are read beside the commits, from a real file."""
    async with open_session(tmp_path / "work.db", model=TALKS) as session, trio.open_nursery() as nursery:
        await write_notes(session, 30)
        await session.folded()
        nursery.start_soon(write_notes, session, 60)
        while session.position < 180:
            async with session.root.view() as view:
                value, position = view.value, view.position
                assert exact(value) == exact(value_of(await replay(session.live.store, to=position), 1))


@pytest.mark.parametrize("seed", range(20))
async def test_busy_sessions_are_restored_from_snapshots_as_they_were(
    seed: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens, and wherever the snapshots were taken, the states are those of the whole log."""
    monkeypatch.setattr(snapshots, "EVERY", 20)
    monkeypatch.setattr(snapshots, "PAGE_ROWS", 3)
    chance, whole = random.Random(seed), MemoryLog()
    log = Doubled(MemoryLog(), whole)
    async with open_store(log) as store:
        for _ in range(3):
            async with store.open_session(
                model=busy_model(seed), tools=busy_tools(chance), settings=SETTINGS, clock=TrioClock()
            ) as session:
                if chance.random() < 0.5:
                    live, position = await session.folded(), session.position
                    assert live == folds_of(await replay(Opened(whole), to=position))
                await keep_busy(session, chance, steps=6)
            state = await replay(store)
            for number, snapshot in enumerate(kept(log, state.uuid)):
                assert number or snapshot.position == state.position
                assert snapshot == folds_of(await replay(Opened(whole), to=snapshot.position))

"""Opening from a snapshot gives what folding the whole log gives; when snapshots are taken."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pi_actors import Session, SessionFailed, Store, open_session, open_store
from pi_actors.core.errors import LogCorrupt, LogTooNew, StoreError
from pi_actors.core.ids import SessionId
from pi_actors.core.state import SessionState
from pi_actors.models import call, reply
from pi_actors.runtime import snapshots
from pi_actors.runtime.live import CODEC
from pi_actors.runtime.opening import STATE, fold_log
from pi_actors.storage.log import Log, Snapshot
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import CrashingLog, check_log, check_session, read_log
from tests.crash.killed import killed, reopened
from tests.crash.test_opening import FutureFelt, put, row
from tests.runtime.histories import commits, crashed, golden, head, kept
from tests.session.gate import Gate


def save(log: Log, position: int, body: bytes) -> None:
    assert log.save_snapshot("main", head(log).epoch, Snapshot(STATE, position, body))


def snapshot_of(state: SessionState) -> tuple[int, bytes]:
    return state.position, CODEC.pack(state)


def positions(log: Log) -> list[int]:
    """Where the usable snapshots of the session stand."""
    return [each.position for each in log.snapshots("main", STATE)]


# What an opening makes of them.


@pytest.mark.parametrize("history", ["golden", "seed 1", "seed 5", "seed 7"])
def test_opening_from_a_snapshot_at_any_position_gives_the_state_of_the_whole_log(
    history: str, tmp_path: Path
) -> None:
    """V358: the same state, whatever it was made from."""
    log = golden() if history == "golden" else crashed(int(history[5:]), tmp_path)
    told = commits(log)
    whole = told[-1][1]
    for _, state in told:
        save(log, *snapshot_of(state))
        folded = fold_log(head(log), kept(log))
        assert folded.snapshot == max(positions(log))
        assert kept(log).awake(folded.state) == whole


Spoil = Callable[[SessionState], tuple[int, bytes]]
SPOILT: dict[str, Spoil] = {
    "of another version": lambda state: (
        state.position,
        CODEC.pack(state).replace(b"kind pi.tool\x01", b"kind pi.tool\x02"),
    ),
    "of another session": lambda state: snapshot_of(msgspec.structs.replace(state, uuid="another")),
    "of another position": lambda state: (state.position + 1, CODEC.pack(state)),
    "cut off": lambda state: (state.position, CODEC.pack(state)[:-9]),
    "of nothing": lambda state: (state.position, b""),
    "beyond the head": lambda state: snapshot_of(msgspec.structs.replace(state, position=100_000)),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT.keys())
def test_a_snapshot_that_cannot_be_used_is_passed_over_for_an_older_one_or_the_whole_log(
    spoil: Spoil,
) -> None:
    log = golden()
    told = commits(log)
    whole = told[-1][1]
    position, body = spoil(told[20][1])
    assert (position, body) != snapshot_of(told[20][1])
    save(log, position, body)
    assert fold_log(head(log), kept(log)) == (whole, 0)
    save(log, *snapshot_of(told[10][1]))
    assert fold_log(head(log), kept(log)) == (whole, told[10][1].position)


def test_a_tail_is_judged_as_a_whole_log_is() -> None:
    """X34, X38: a newer event, a damaged row and a gap after the snapshot stop the opening."""
    log = golden()
    save(log, *snapshot_of(commits(log)[-1][1]))
    put(log, row(log, FutureFelt(how="fine")))
    with pytest.raises(LogTooNew, match=f"at position {head(log).position}"):
        fold_log(head(log), kept(log))
    log = golden()
    save(log, *snapshot_of(commits(log)[-1][1]))
    whole = row(log, FutureFelt(how="fine"), display=True)
    put(log, msgspec.structs.replace(whole, state=whole.state[:-1] + bytes((whole.state[-1] ^ 1,))))
    with pytest.raises(LogCorrupt, match=f"is damaged at position {head(log).position}"):
        fold_log(head(log), kept(log))


async def test_deleted_index_tables_are_rebuilt_from_the_whole_log_although_there_is_a_snapshot(
    tmp_path: Path,
) -> None:
    store = tmp_path / "work.db"
    async with open_session(store) as session:
        await session.root.submit_write("note", request_id="a note")
    edit(store, "DELETE FROM request_ids")
    async with open_session(store) as session:
        assert await session.find_submission(1, "a note") is not None
        await check_session(session)


def edit(store: Path, statement: str) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("deletion", ["DROP TABLE", "DELETE FROM"])
async def test_a_session_whose_snapshots_were_deleted_opens_as_before(tmp_path: Path, deletion: str) -> None:
    store = tmp_path / "work.db"
    async with open_session(store) as session:
        await session.root.submit_write("note")
        shown = session.live.line.shown
    edit(store, f"{deletion} snapshots")
    async with open_session(store) as session:
        assert session.live.line.shown == shown
        await session.root.submit_write("note")
    async with open_session(store) as session:
        await check_session(session)


async def test_what_was_unfinished_at_a_snapshot_goes_on_after_it() -> None:
    """Queued inputs and the output of a running call are in it; entries are read from the log."""
    log, gate = MemoryLog(), Gate()
    script = [reply("", call("gate")), reply("One."), reply("Two.")]
    async with killed(log, script, gate.tool) as session:
        first = await session.root.submit("first")
        await gate.entered.wait()
        second = await session.root.submit("second")
        await session.live.snapshots.take()
    async with reopened(log, script, gate.tool) as session:
        assert session.live.snapshots.newest == positions(log)[0]
        assert (await session.submission(first.id).wait()).text == "One."
        assert (await session.submission(second.id).wait()).text == "Two."
        assert [entry.text for entry in await session.root.entries()][-1] == "Two."
        await check_session(session)
    check_log(log, finished=True)


# When they are taken.


class Counting(MemoryLog):
    """Counts how often snapshots were saved."""

    saved = 0

    def save_snapshot(self, session: str, epoch: int, *snapshots: Snapshot) -> bool:
        self.saved += 1
        return super().save_snapshot(session, epoch, *snapshots)


async def test_a_close_takes_one_when_something_has_happened_since_the_last_one() -> None:
    log = Counting()
    async with reopened(log, []) as session:
        await session.root.submit_write("note")
        assert positions(log) == []
    closed_at = head(log).position
    assert positions(log) == [closed_at]
    before = log.saved
    async with reopened(log, []):
        pass
    assert positions(log) == [closed_at]
    assert log.saved == before


async def test_one_is_taken_in_the_background_each_time_enough_has_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOT_EVERY", 10)
    log = MemoryLog()
    async with reopened(log, []) as session:
        await taken_at_least(session, log, 10)
        first = positions(log)[0]
        await taken_at_least(session, log, first + 10)
    async with killed(log, []) as session:
        await check_session(session)


async def taken_at_least(session: Session, log: Log, position: int) -> None:
    """Write until a snapshot stands at *position* or later."""
    while max(positions(log), default=0) < position:
        await session.root.submit_write("note")


async def test_a_large_one_is_taken_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOT_EVERY", 10)
    monkeypatch.setattr(snapshots, "BYTES_A_POSITION", 1)
    log = MemoryLog()
    async with reopened(log, []) as session:
        await taken_at_least(session, log, 10)
        (first,) = log.snapshots("main", STATE)
        size = len(first.body)
        assert size > 100
        await taken_at_least(session, log, first.position + 1)
        newest, older = positions(log)
        assert newest - older >= size


async def test_one_is_taken_soon_after_an_opening_that_had_much_to_fold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = golden()
    async with killed(log, []) as session:
        await session.root.submit_write("note")
        assert positions(log) == []
    monkeypatch.setattr(snapshots, "SNAPSHOT_EVERY", 10)
    async with killed(log, []) as session:
        await taken_at_least(session, log, 1)


async def test_a_process_that_dies_between_snapshots_loses_nothing() -> None:
    log = MemoryLog()
    async with reopened(log, []) as session:
        await session.root.submit_write("note")
    async with killed(log, []) as session:
        await session.root.submit_write("note")
    assert positions(log)[0] < head(log).position
    async with reopened(log, []) as session:
        assert len(await session.root.entries()) == 2
        await check_session(session)


class Failing(CrashingLog):
    """A log that cannot keep snapshots: its disk is full."""

    def save_snapshot(self, session: SessionId, epoch: int, *snapshots: Snapshot) -> bool:
        raise StoreError("the disk is full")


async def test_a_store_that_fails_while_a_snapshot_is_written_fails_the_session() -> None:
    log = MemoryLog()
    with pytest.raises(SessionFailed, match="the disk is full"):
        async with reopened(Failing(log, None), []) as session:
            await session.root.submit_write("note")
    async with reopened(log, []) as session:
        assert len(await session.root.entries()) == 1


async def test_a_session_that_was_taken_over_writes_no_snapshot_any_more() -> None:
    log = MemoryLog()
    async with open_store(log) as store:
        await _write_and_lose(store, log)
    assert positions(log) == []


async def _write_and_lose(store: Store, log: Log) -> None:
    async with open_session(store) as session:
        await session.root.submit_write("note")
        log.claim("main", now_us=0)
        await session.live.snapshots.take()
        assert read_log(log)[-1].position == session.position

"""The log in an SQLite file: what it promises beyond the contract of every log."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pi_actors.core.errors import LogCorrupt, LogTooNew, StoreError
from pi_actors.core.record import IndexRows
from pi_actors.storage import sqlite_connections
from pi_actors.storage.codec import decode_row, decode_rows, published
from pi_actors.storage.log import FORMAT
from pi_actors.storage.opening import open_reader
from pi_actors.storage.sqlite import SQLiteLog, open_sqlite
from pi_actors.storage.sqlite_connections import CHECKPOINT_PAGES, Durability
from pi_actors.storage.sqlite_schema import APPLICATION_ID
from tests.storage.events import NOW_US, TOPICS, append, batch, claimed, positions, refusal
from tests.storage.programs import WRITE, kill, line_of, running

PAGE_BYTES = 4_096 + 24
INDEX = IndexRows(requests=((1, "asked", 1, "input"),), settled=((1, 3),), entries=((1, 2), (1, 3)))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


@pytest.fixture
def log(store: Path) -> Iterator[SQLiteLog]:
    log = open_sqlite(store)
    yield log
    log.close()


def wal(store: Path) -> Path:
    return store.with_name("work.db-wal")


def edit(store: Path, *statements: str) -> None:
    """What a foreign hand does to a store that nobody has open."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return value


# Files and settings.


def test_every_file_of_a_store_is_private_whatever_the_umask(store: Path) -> None:
    # X100
    before = os.umask(0)
    try:
        log = open_sqlite(store)
        held = log.acquire("main")
        claimed(log, "main")
        append(log, batch("main", 0))
        log.head("main")
    finally:
        os.umask(before)
    files = [path for path in store.parent.rglob("*") if path.is_file()]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in files} == dict.fromkeys(
        ("work.db", "work.db-wal", "work.db-shm", "store.lock", "probe.lock", "main.lock"), 0o600
    )
    held.close()
    log.close()


def test_the_mode_that_an_owner_gave_a_store_is_kept(store: Path) -> None:
    open_sqlite(store).close()
    store.chmod(0o640)
    open_sqlite(store).close()
    assert stat.S_IMODE(store.stat().st_mode) == 0o640


def test_an_empty_file_that_becomes_a_store_is_its_owners_alone(tmp_path: Path) -> None:
    store = tmp_path / "work.db"
    store.touch(mode=0o644)
    open_sqlite(store).close()
    assert stat.S_IMODE(store.stat().st_mode) == 0o600


def test_the_file_says_whose_it_is_and_of_which_format(store: Path, log: SQLiteLog) -> None:
    with closing(sqlite3.connect(store)) as connection:
        assert pragma(connection, "application_id") == APPLICATION_ID
        assert pragma(connection, "user_version") == FORMAT
        assert pragma(connection, "journal_mode") == "wal"
        incremental = 2
        assert pragma(connection, "auto_vacuum") == incremental


@pytest.mark.parametrize(("durability", "synchronous"), [("power", 2), ("process", 1)])
def test_an_acknowledged_commit_waits_for_the_disk_unless_told_otherwise(
    store: Path, durability: Durability, synchronous: int
) -> None:
    # R291: 2 is FULL, 1 is NORMAL.
    with closing(open_sqlite(store, durability)) as log:
        assert pragma(log._writer.connection, "synchronous") == synchronous
        assert pragma(log._writer.connection, "fullfsync") == 1
        assert pragma(log._writer.connection, "checkpoint_fullfsync") == 1
        assert pragma(log._writer.connection, "wal_autocheckpoint") == 0


def test_all_connections_but_one_are_read_only(log: SQLiteLog) -> None:
    claimed(log, "main")
    with pytest.raises(sqlite3.OperationalError, match="readonly"), log._readers.lent() as connection:
        connection.execute("DELETE FROM sessions")
    with log._readers.lent() as connection:
        connection.execute("PRAGMA query_only=0")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM sessions")


def test_what_was_stored_is_there_after_reopening(store: Path) -> None:
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        stored = batch("main", 0, 3, index=INDEX, live=True)
        append(log, stored)
        head = log.head("main")
    with closing(open_sqlite(store)) as log:
        assert log.head("main") == head
        assert log.read("main", after=0, through=9) == stored.rows
        assert log.find_request("main", 1, "asked") == (1, "input")
        assert claimed(log, "main").epoch == 2


# Checkpoints.


def test_the_write_ahead_log_stays_bounded_under_many_commits_and_is_gone_after_closing(store: Path) -> None:
    # R288
    log = open_sqlite(store, "process")
    claimed(log, "main")
    largest = after = 0
    while store.stat().st_size < 3 * CHECKPOINT_PAGES * PAGE_BYTES:
        append(log, batch("main", after, 2, text="x" * 20_000))
        after += 2
        largest = max(largest, wal(store).stat().st_size)
    assert largest < 1.5 * CHECKPOINT_PAGES * PAGE_BYTES
    assert positions(log, "main") == list(range(1, after + 1))
    log.close()
    assert not wal(store).exists()


def test_readers_that_stay_do_not_keep_the_log_from_being_removed_at_closing(store: Path) -> None:
    log = open_sqlite(store)
    claimed(log, "main")
    reader = open_reader(store)
    assert reader.head("main") is not None
    append(log, batch("main", 0))
    log.close()
    assert not wal(store).exists()
    assert positions(reader, "main") == [1]
    reader.close()
    assert not wal(store).exists()


def test_a_log_that_a_stuck_reader_let_grow_is_cut_once_the_reader_is_gone(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # X96
    monkeypatch.setattr(sqlite_connections, "CHECKPOINT_PAGES", 50)
    monkeypatch.setattr(sqlite_connections, "TRUNCATE_BYTES", 100 * PAGE_BYTES)
    log = open_sqlite(store, "process")
    claimed(log, "main")
    stuck = sqlite3.connect(store, isolation_level=None)
    stuck.execute("BEGIN")
    stuck.execute("SELECT count(*) FROM stored_events").fetchone()
    for after in range(0, 60, 2):
        append(log, batch("main", after, 2, text="x" * 20_000))
    assert wal(store).stat().st_size > 200 * PAGE_BYTES
    stuck.close()
    for after in range(60, 90, 2):
        append(log, batch("main", after, 2, text="x" * 20_000))
    assert wal(store).stat().st_size <= 150 * PAGE_BYTES
    log.close()


def test_every_append_is_one_transaction(log: SQLiteLog) -> None:
    claimed(log, "main")
    before = log.transactions
    append(log, batch("main", 0, 3, index=INDEX), batch("main", 3))
    assert log.transactions == before + 1
    log.append([batch("main", 9)])
    assert log.transactions == before + 2


# The index tables are disposable.


@pytest.mark.parametrize("table", ["request_ids", "settled_ids", "agent_entries"])
@pytest.mark.parametrize("deletion", ["DROP TABLE", "DELETE FROM"])
def test_a_deleted_index_table_is_noticed_and_rebuilt(store: Path, table: str, deletion: str) -> None:
    with closing(open_sqlite(store)) as log:
        for session in ("main", "empty"):
            claimed(log, session)
        append(log, batch("main", 0, 3, index=INDEX))
    edit(store, f"{deletion} {table}")
    with closing(open_sqlite(store)) as log:
        assert log.needs_index("main")
        assert log.needs_index("empty")
        log.rebuild_index("main", INDEX)
        assert not log.needs_index("main")
        assert log.needs_index("empty")
        assert log.find_request("main", 1, "asked") == (1, "input")
        assert log.find_settled("main", 1) == 3
        assert log.entries("main", 1, before=None, limit=9) == [2, 3]


def test_a_rebuild_that_fails_leaves_the_index_as_it_was_so_that_the_next_opening_starts_it_again(
    store: Path,
) -> None:
    # X62
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        append(log, batch("main", 0, 3, index=INDEX))
    edit(store, "DROP TABLE request_ids")
    with closing(open_sqlite(store)) as log:
        twice = IndexRows(settled=((1, 2), (1, 3)))
        with pytest.raises(StoreError, match="UNIQUE"):
            log.rebuild_index("main", twice)
    with closing(open_sqlite(store)) as log:
        assert log.needs_index("main")
        assert log.find_settled("main", 1) == 3


def test_a_deleted_head_is_made_anew_from_the_rows(store: Path) -> None:
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        append(log, batch("main", 0, 3, index=INDEX))
        size = log.size_bytes("main")
    edit(store, "DELETE FROM sessions")
    with closing(open_sqlite(store)) as log:
        head = claimed(log, "main")
        assert (head.position, head.live) == (3, True)
        assert log.size_bytes("main") == size
        assert log.needs_index("main")
        append(log, batch("main", 3))


def test_a_row_that_is_there_already_fences_although_the_head_fits(log: SQLiteLog) -> None:
    # X64: the primary key is the second line.
    claimed(log, "main")
    claimed(log, "other")
    append(log, batch("main", 0, 2))
    with log._writer.transaction() as cursor:
        cursor.execute("UPDATE sessions SET position=1 WHERE session='main'")
    outcomes = log.append([batch("other", 0), batch("main", 1, 2), batch("other", 1)])
    assert "session 'main' has something after position 1 already" in refusal(outcomes)
    assert positions(log, "main") == [1, 2]
    assert positions(log, "other") == [1, 2]


# What is not right is told.


def test_a_session_of_a_newer_format_is_not_claimed(store: Path) -> None:
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        append(log, batch("main", 0, 2))
    edit(store, "UPDATE sessions SET format=2")
    with closing(open_sqlite(store)) as log:
        with pytest.raises(LogTooNew, match=r"rows of format 2 at position 2 \(topic 'Noted'\). Upgrade"):
            log.claim("main", now_us=NOW_US)
        head = log.head("main")
        assert head is not None
        assert head.epoch == 1
        assert claimed(log, "other").epoch == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE stored_events SET state=substr(state, 1, 10) WHERE originator_version=2",
        "UPDATE stored_events SET state='text' WHERE originator_version=2",
        "UPDATE stored_events SET state=NULL WHERE originator_version=2",
        "UPDATE stored_events SET topic=CAST(x'4eff74' AS TEXT) WHERE originator_version=2",
        "UPDATE stored_events SET originator_version=99 WHERE originator_version=2",
    ],
)
def test_a_damaged_row_is_told_with_its_position(store: Path, damage: str) -> None:
    # X63
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        append(log, batch("main", 0, 3))
    edit(store, damage)
    with closing(open_reader(store)) as reader:
        rows = reader.read("main", after=0, through=1_000)
        place = 99 if "99" in damage else 2
        with pytest.raises(LogCorrupt, match=f"session 'main' is damaged at position {place}"):
            list(decode_rows("main", rows, TOPICS))
        (row,) = reader.read_at("main", [place])
        with pytest.raises(LogCorrupt):
            decode_row("main", row, TOPICS)
        assert positions(reader, "other") == []


def test_a_damaged_file_is_told_as_such(store: Path) -> None:
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        append(log, batch("main", 0, 2_000))
    content = bytearray(store.read_bytes())
    content[4_096 * 8 :] = b"?" * (len(content) - 4_096 * 8)
    store.write_bytes(content)
    with closing(open_reader(store)) as reader, pytest.raises(StoreError, match=r"is damaged.*from a backup"):
        positions(reader, "main")


def test_an_append_that_the_database_refuses_stores_nothing_and_ends_the_log(store: Path) -> None:
    # X45, R270, R271
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        claimed(log, "other")
        append(log, batch("main", 0))
    edit(
        store,
        "CREATE TRIGGER refuse BEFORE INSERT ON stored_events WHEN new.originator_version=4"
        " BEGIN SELECT raise(ABORT, 'refused'); END",
    )
    with closing(open_sqlite(store)) as log:
        with pytest.raises(StoreError, match="failed: refused"):
            log.append([batch("other", 0), batch("main", 1, 3)])
        for use in (lambda: log.append([batch("other", 0)]), log.heads, lambda: claimed(log, "main")):
            with pytest.raises(StoreError, match=r"has failed; nothing is read or written.*refused"):
                use()
    edit(store, "DROP TRIGGER refuse")
    with closing(open_sqlite(store)) as log:
        assert positions(log, "main") == [1]
        assert positions(log, "other") == []


def test_a_store_whose_file_was_taken_away_is_written_no_more(store: Path) -> None:
    log = open_sqlite(store)
    claimed(log, "main")
    store.rename(store.with_name("elsewhere.db"))
    with pytest.raises(StoreError, match="was removed or replaced while it was open"):
        log.append([batch("main", 0)])
    log.close()


def test_a_store_that_another_program_keeps_locked_is_told_as_such(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connections, "_BUSY_S", 0.05)
    log = open_sqlite(store)
    claimed(log, "main")
    with closing(sqlite3.connect(store, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another program keeps .* locked .*; nothing was stored"):
            log.append([batch("main", 0)])
    log.close()


def test_a_value_that_sqlite_cannot_bind_leaves_no_transaction_open(log: SQLiteLog) -> None:
    claimed(log, "main")
    unbound = IndexRows(requests=((1, "half \ud800", 1, "input"),))
    with pytest.raises(UnicodeEncodeError):
        log.append([batch("main", 0, index=unbound)])
    append(log, batch("main", 0))
    assert positions(log, "main") == [1]


# Several processes.


def test_eight_processes_write_their_sessions_to_one_file(store: Path) -> None:
    # X57
    commits = 20
    programs = [running(WRITE, store, f"session {number}", commits) for number in range(8)]
    processes = [program.__enter__() for program in programs]
    for process in processes:
        _, complaints = process.communicate()
        assert (process.returncode, complaints) == (0, "")
    for program in programs:
        program.__exit__(None, None, None)
    with closing(open_reader(store)) as reader:
        assert [(head.session, head.position) for head in reader.heads()] == [
            (f"session {number}", 3 * commits) for number in range(8)
        ]
        for number in range(8):
            session = f"session {number}"
            rows = reader.read(session, after=0, through=1_000)
            whole = list(published(decode_rows(session, rows, TOPICS)))
            assert [len(commit) for commit in whole] == [3] * commits


@pytest.mark.parametrize("acknowledged", [0, 1, 7, 40])
def test_a_process_killed_while_it_writes_leaves_all_it_acknowledged_and_whole_commits_only(
    store: Path, acknowledged: int
) -> None:
    with running(WRITE, store, "main", 1_000_000) as process:
        last = 0
        for _ in range(acknowledged):
            last = int(line_of(process))
        kill(process)
        assert process.stdout is not None
        last = max([last, *(int(line) for line in process.stdout.read().split())])
    if acknowledged:
        # Whoever only looks, without mending anything, sees the same.
        with closing(open_reader(store)) as reader:
            assert len(positions(reader, "main")) >= last
    with closing(open_sqlite(store)) as log:
        held = log.acquire("main")
        head = claimed(log, "main")
        rows = [row for after in positions(log, "main") for row in log.read_at("main", [after])]
        whole = list(published(decode_rows("main", rows, TOPICS)))
        assert sum(map(len, whole)) == len(rows) == head.position >= last
        assert {len(commit) for commit in whole} <= {3}
        append(log, batch("main", head.position, epoch=head.epoch))
        held.close()


def test_a_reader_in_another_process_sees_commits_as_they_are_acknowledged(store: Path) -> None:
    with running(WRITE, store, "main", 5) as process:
        line_of(process)
        with closing(open_reader(store)) as reader:
            for _ in range(4):
                assert len(positions(reader, "main")) >= int(line_of(process)) - 3


def test_one_file_has_one_set_of_locks_however_it_is_reached(store: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(store)
    with closing(open_sqlite(link)) as first, closing(open_sqlite(store)) as second:
        assert first.store == second.store
        held = first.acquire("main")
        assert second.holder("main") is not None
        claimed(first, "main")
        append(second, batch("main", 0))
        append(first, batch("main", 1))
        held.close()
    assert not (tmp_path / "link.db.d").exists()


def test_a_log_opened_twice_in_one_process_keeps_working_when_one_is_closed(store: Path) -> None:
    first, second = open_sqlite(store), open_sqlite(store)
    claimed(first, "main")
    append(first, batch("main", 0))
    second.close()
    append(first, batch("main", 1))
    assert positions(first, "main") == [1, 2]
    first.close()
    with closing(open_reader(store)) as reader:
        assert positions(reader, "main") == [1, 2]

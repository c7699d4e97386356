"""Snapshots, in every kind of log: what is kept of them, and what is as good as missing."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pi_actors.storage.log import Log, Snapshot
from pi_actors.storage.opening import open_log, open_reader
from pi_actors.storage.sqlite import SQLiteLog, open_sqlite
from tests.storage.events import append, batch, claimed


@pytest.fixture(params=["memory:", "sqlite:"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    kind: str = request.param
    log = open_log(kind if kind == "memory:" else f"{kind}{tmp_path / 'work.db'}")
    claimed(log, "main")
    append(log, batch("main", 0, 9))
    yield log
    log.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with two snapshots of one session."""
    store = tmp_path / "work.db"
    with closing(open_sqlite(store)) as log:
        claimed(log, "main")
        append(log, batch("main", 0, 9))
        assert log.save_snapshot("main", 1, OLDER)
        assert log.save_snapshot("main", 1, NEWER)
    return store


OLDER = Snapshot("state", 3, b"as of 3")
NEWER = Snapshot("state", 6, b"as of 6" * 2_000)


def edit(store: Path, statement: str, *values: object) -> None:
    """What a foreign hand does to a store that nobody has open."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute(statement, values)


def found(store: Path) -> list[Snapshot]:
    """What a writer finds, which must be what a reader finds."""
    with closing(open_reader(store)) as reader:
        read = reader.snapshots("main", "state")
    with closing(open_sqlite(store)) as log:
        assert log.snapshots("main", "state") == read
    return read


def test_a_session_has_no_snapshots_until_one_is_saved(log: Log) -> None:
    assert log.snapshots("main", "state") == []
    assert log.snapshots("nobody", "state") == []


def test_snapshots_come_newest_first_and_the_newest_two_of_a_name_are_kept(log: Log) -> None:
    for snapshot in (OLDER, NEWER, Snapshot("documents", 4, b"others"), Snapshot("state", 9, b"as of 9")):
        assert log.save_snapshot("main", 1, snapshot)
    assert log.snapshots("main", "state") == [Snapshot("state", 9, b"as of 9"), NEWER]
    assert log.snapshots("main", "documents") == [Snapshot("documents", 4, b"others")]


def test_several_snapshots_are_saved_at_once_and_wait_for_no_disk(log: Log) -> None:
    before = log.transactions
    assert log.save_snapshot("main", 1, OLDER, NEWER, Snapshot("documents", 6, b""))
    assert log.transactions == before
    assert log.snapshots("main", "state") == [NEWER, OLDER]
    assert log.snapshots("main", "documents") == [Snapshot("documents", 6, b"")]


def test_an_older_snapshot_that_is_far_larger_is_not_kept(log: Log) -> None:
    """An answer that was unfinished in it is settled, and stands in the log."""
    large = Snapshot("state", OLDER.position, b"x" * 200_000)
    log.save_snapshot("main", 1, large)
    log.save_snapshot("main", 1, Snapshot("state", NEWER.position, b"y" * 190_000))
    assert len(log.snapshots("main", "state")) == 2
    log.save_snapshot("main", 1, NEWER)
    assert log.snapshots("main", "state") == [NEWER]


def test_a_snapshot_of_the_same_position_takes_the_place_of_the_one_before(log: Log) -> None:
    log.save_snapshot("main", 1, OLDER)
    log.save_snapshot("main", 1, Snapshot("state", 3, b"once more"))
    assert log.snapshots("main", "state") == [Snapshot("state", 3, b"once more")]


def test_a_writer_that_has_lost_its_session_saves_nothing_and_deletes_nothing(log: Log) -> None:
    log.save_snapshot("main", 1, OLDER)
    claimed(log, "main")
    assert not log.save_snapshot("main", 1, NEWER)
    assert log.snapshots("main", "state") == [OLDER]
    assert not log.save_snapshot("nobody", 1, NEWER)


def test_sessions_do_not_see_each_others_snapshots(log: Log) -> None:
    claimed(log, "other")
    append(log, batch("other", 0, 9))
    log.save_snapshot("other", 1, NEWER)
    assert log.snapshots("main", "state") == []


def test_a_snapshot_beyond_the_head_is_as_good_as_missing_and_makes_room_for_others(log: Log) -> None:
    for beyond in (10, 11):
        log.save_snapshot("main", 1, Snapshot("state", beyond, b"of events that are not there"))
    assert log.snapshots("main", "state") == []
    log.save_snapshot("main", 1, OLDER)
    log.save_snapshot("main", 1, NEWER)
    assert log.snapshots("main", "state") == [NEWER, OLDER]


def test_commits_after_a_snapshot_go_on_as_before(log: Log) -> None:
    log.save_snapshot("main", 1, NEWER)
    append(log, batch("main", 9, 2))
    assert log.snapshots("main", "state") == [NEWER]


def test_a_snapshot_waits_for_no_disk_and_the_next_commit_does(store: Path) -> None:
    with closing(open_sqlite(store)) as log:
        writer = log._writer
        with writer.unsynced_transaction() as cursor:
            assert _synchronous(cursor.connection) == 1
        assert _synchronous(writer.connection) == 2


def _synchronous(connection: sqlite3.Connection) -> int:
    (level,) = connection.execute("PRAGMA synchronous").fetchone()
    assert isinstance(level, int)
    return level


def test_a_damaged_snapshot_is_as_good_as_missing_whatever_byte_was_flipped(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        (body,) = connection.execute("SELECT body FROM snapshots WHERE position=3").fetchone()
    for place in range(len(body)):
        flipped = bytes((*body[:place], body[place] ^ 0x10, *body[place + 1 :]))
        edit(store, "UPDATE snapshots SET body=? WHERE position=3", flipped)
        assert found(store) == [NEWER]


@pytest.mark.parametrize("stored", [b"", b"\x01", b"\x01abcd", "a text", 7])
def test_what_is_no_snapshot_is_as_good_as_missing(store: Path, stored: object) -> None:
    edit(store, "UPDATE snapshots SET body=? WHERE position=6", stored)
    assert found(store) == [OLDER]


def test_a_snapshot_that_was_moved_is_as_good_as_missing(store: Path) -> None:
    edit(store, "UPDATE snapshots SET position=7 WHERE position=6")
    assert found(store) == [OLDER]
    edit(store, "UPDATE snapshots SET name='other'")
    with closing(open_sqlite(store)) as log:
        assert log.snapshots("main", "other") == []


@pytest.mark.parametrize("deletion", ["DROP TABLE", "DELETE FROM"])
def test_deleted_snapshots_are_missing_and_can_be_saved_again(store: Path, deletion: str) -> None:
    edit(store, f"{deletion} snapshots")
    assert found(store) == []
    with closing(open_sqlite(store)) as log:
        assert log.save_snapshot("main", claimed(log, "main").epoch, NEWER)
    assert found(store) == [NEWER]


def test_a_table_that_is_dropped_under_an_open_store_is_made_again(store: Path) -> None:
    with closing(open_sqlite(store)) as log:
        _drop(log)
        assert log.snapshots("main", "state") == []
        assert log.save_snapshot("main", 1, NEWER)
        assert log.snapshots("main", "state") == [NEWER]


def _drop(log: SQLiteLog) -> None:
    with log._writer.transaction() as cursor:
        cursor.execute("DROP TABLE snapshots")


def test_a_store_of_before_there_were_snapshots_is_read_as_it_is(store: Path) -> None:
    edit(store, "DROP TABLE snapshots")
    with closing(open_reader(store)) as reader:
        assert reader.snapshots("main", "state") == []

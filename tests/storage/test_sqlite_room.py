"""What an SQLite store does with the room that deleted rows have left."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pi_actors.storage import sqlite_room
from pi_actors.storage.opening import open_log
from pi_actors.storage.sqlite import SQLiteLog
from pi_actors.storage.sqlite_schema import IS_DISPLAY
from tests.storage.events import append, batch, claimed, positions, shown_batch

GLIMPSES = 8_000


def opened(file: Path, durability: str = "power") -> SQLiteLog:
    """The store, open for writing."""
    log = open_log(file, "process" if durability == "process" else "power")
    assert isinstance(log, SQLiteLog)
    return log


def filled(log: SQLiteLog) -> None:
    """A note, much that is only for display, and a note."""
    claimed(log, "main")
    append(log, batch("main", 0))
    append(log, shown_batch("main", 1, GLIMPSES, text="x" * 100))
    append(log, batch("main", GLIMPSES + 1))


def emptied(log: SQLiteLog, *, epoch: int = 1) -> None:
    """All that is only for display goes, newest first."""
    for newest in range(GLIMPSES + 1, 1, -500):
        gone = range(newest, max(1, newest - 500), -1)
        assert log.scavenge("main", epoch=epoch, positions=gone, through=GLIMPSES + 2) is None
    assert positions(log, "main") == [1, GLIMPSES + 2]


def asked(file: Path, pragma: str) -> int:
    """What the file says of itself."""
    with closing(sqlite3.connect(file)) as connection:
        value: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        return value


def test_a_closed_store_is_as_small_as_if_what_was_scavenged_had_never_been_there(tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept.db", tmp_path / "gone.db"
    for file in (kept, gone):
        with closing(opened(file)) as log:
            filled(log)
            if file == gone:
                emptied(log)
    assert kept.stat().st_size > 1_000_000
    assert gone.stat().st_size < 100_000
    assert asked(gone, "freelist_count") <= sqlite_room.SPARE_PAGES_CLOSED
    with closing(opened(gone)) as log:
        assert positions(log, "main") == [1, GLIMPSES + 2]


def test_an_open_store_gives_back_in_small_steps_what_it_does_not_need_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_room, "SPARE_PAGES", 50)
    with closing(opened(tmp_path / "work.db")) as log:
        filled(log)
        assert not log.give_back()
        emptied(log)
        steps = 0
        connection = log._writer.connection
        while log.give_back():
            steps += 1
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        assert 0 < free <= 50 + sqlite_room.STEP_PAGES
        assert steps > 3
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_room_that_was_left_is_used_again(tmp_path: Path) -> None:
    """So a file does not grow under endless streaming, as long as rows go as fast as they come."""
    file, last = tmp_path / "work.db", 0
    with closing(opened(file)) as log:
        claimed(log, "main")
        sizes: list[int] = []
        for _ in range(6):
            append(log, shown_batch("main", last, 2_000, text="x" * 100), batch("main", last + 2_000))
            gone = range(last + 2_000, last, -1)
            last += 2_001
            for start in range(0, 2_000, 500):
                log.scavenge("main", epoch=1, positions=gone[start : start + 500], through=last)
            sizes.append(log._writer.connection.execute("PRAGMA page_count").fetchone()[0])
    assert sizes[-1] <= sizes[1] + 2


def test_a_store_that_cannot_give_room_back_uses_it_again_and_works(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    with closing(opened(file)) as log:
        filled(log)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")
    assert asked(file, "auto_vacuum") == 0
    before = file.stat().st_size
    with closing(opened(file)) as log:
        claimed(log, "main")
        emptied(log, epoch=2)
        assert not log.give_back()
    assert file.stat().st_size == before
    assert asked(file, "freelist_count") > 100


def test_a_store_of_before_gets_the_index_that_finds_what_may_go(tmp_path: Path) -> None:
    file = tmp_path / "work.db"
    with closing(opened(file)) as log:
        filled(log)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DROP INDEX display_rows")
    with closing(opened(file)) as log:
        assert [row.position for row in log.read_display("main", before=9, limit=2)] == [8, 7]
    query = (
        "EXPLAIN QUERY PLAN SELECT originator_version, topic, state FROM stored_events"
        f" WHERE originator_id=? AND originator_version<? AND {IS_DISPLAY} ORDER BY originator_version DESC"
    )
    with closing(sqlite3.connect(file)) as connection:
        ((*_, plan),) = connection.execute(query, ("main", 9)).fetchall()
        (rows,) = connection.execute(f"SELECT count(*) FROM stored_events WHERE {IS_DISPLAY}").fetchone()
    assert "USING INDEX display_rows" in plan
    assert rows == GLIMPSES


@pytest.mark.parametrize(("durability", "level"), [("power", 2), ("process", 1)])
def test_commits_are_as_durable_after_scavenging_as_before(
    tmp_path: Path, durability: str, level: int
) -> None:
    with closing(opened(tmp_path / "work.db", durability)) as log:
        filled(log)
        assert log.scavenge("main", epoch=1, positions=[2], through=GLIMPSES + 2) is None
        assert log.scavenge("main", epoch=7, positions=[3], through=GLIMPSES + 2) is not None
        log.give_back()
        assert log._writer.connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_a_session_whose_head_was_lost_opens_also_after_scavenging(tmp_path: Path) -> None:
    """Nobody can tell any more up to where rows were scavenged, so all of it counts."""
    file = tmp_path / "work.db"
    with closing(opened(file)) as log:
        filled(log)
        emptied(log)
        append(log, batch("main", GLIMPSES + 2))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DELETE FROM sessions")
    with closing(opened(file)) as log:
        head = claimed(log, "main")
        assert (head.position, head.scavenged_to) == (GLIMPSES + 3, GLIMPSES + 3)
        assert log.size_bytes("main") == sum(
            len(row.state) for row in log.read("main", after=0, through=head.position)
        )

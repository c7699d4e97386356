"""Checkpoints in an SQLite file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pi_actors.core.errors import StoreUnreadable
from pi_actors.storage.opening import open_log
from projections import SQLiteCheckpoint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


def test_what_was_saved_last_is_found_again_also_by_another_process(file: Path) -> None:
    assert SQLiteCheckpoint(file).load("a", "main") is None
    SQLiteCheckpoint(file).save("a", "main", b"one")
    SQLiteCheckpoint(file).save("a", "main", b"two")
    SQLiteCheckpoint(file).save("b", "main", b"three")
    again = SQLiteCheckpoint(str(file))
    assert again.load("a", "main") == b"two"
    assert again.load("b", "main") == b"three"
    assert again.load("a", "other") is None


def test_only_its_owner_may_look_into_the_file_and_nothing_stays_beside_it(file: Path) -> None:
    SQLiteCheckpoint(file).save("a", "main", b"one")
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("spoil", ["no database", "cut", "pages"])
def test_a_damaged_file_is_set_aside_and_a_new_one_made(file: Path, spoil: str) -> None:
    checkpoint = SQLiteCheckpoint(file)
    for number in range(40):
        checkpoint.save("a", str(number), b"x" * 500)
    whole = file.read_bytes()
    damaged = {
        "no database": b"y" * len(whole),
        "cut": whole[: len(whole) // 2],
        "pages": whole[:4096] + b"y" * (len(whole) - 4096),
    }[spoil]
    file.write_bytes(damaged)
    checkpoint.save("a", "0", b"new")
    assert checkpoint.load("a", "0") == b"new"
    assert checkpoint.load("a", "1") is None
    assert file.with_name("checkpoints.db.damaged").read_bytes() == damaged


def test_the_database_of_another_program_is_refused_and_left_as_it_is(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = file.read_bytes()
    refused = pytest.raises(
        StoreUnreadable, match=r"no file of checkpoints.*Nothing was changed; choose another file"
    )
    with refused:
        SQLiteCheckpoint(file).load("a", "main")
    with refused:
        SQLiteCheckpoint(file).save("a", "main", b"one")
    assert file.read_bytes() == before


def test_a_store_is_no_file_of_checkpoints(file: Path) -> None:
    with closing(open_log(file)), pytest.raises(StoreUnreadable, match="or a store"):
        SQLiteCheckpoint(file).save("a", "main", b"one")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match="cannot be reached"):
        SQLiteCheckpoint(tmp_path / "nowhere" / "checkpoints.db").load("a", "main")

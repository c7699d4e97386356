"""What a store's name stands for, and what is told where no store can be."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pi_actors.core.errors import NotSupported, StoreError, StoreUnreadable
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log, open_reader
from pi_actors.storage.sqlite import SQLiteLog
from pi_actors.storage.sqlite_schema import APPLICATION_ID
from tests.storage.events import append, batch, claimed, positions
from tests.storage.programs import FORKING, WRITE, as_user, finished, kill, line_of, running

NOBODY = 65_534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, which only root can")

FILL = """
import resource, signal, sys
from pi_actors.core.errors import StoreError
from pi_actors.storage.opening import open_log
from tests.storage.events import append, batch, claimed
log = open_log(sys.argv[1])
after = claimed(log, "main").position
if sys.argv[2] != "0":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    while True:
        append(log, batch("main", after, 3, text="x" * 20_000))
        after += 3
        print(after, flush=True)
except StoreError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
log.close()
"""
"""Store commits until the store says no; print where each ends, and what it said."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


def written(store: Path, *, commits: int = 1) -> None:
    """Make a store with a session of *commits* events and close it."""
    with closing(open_log(store)) as log:
        claimed(log, "main")
        for after in range(commits):
            append(log, batch("main", after))


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files below *folder* with their contents."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# Names.


def test_a_file_name_or_an_sqlite_name_is_a_store_in_a_file(tmp_path: Path) -> None:
    for name, file in (
        (str(tmp_path / "a.db"), "a.db"),
        (f"sqlite:{tmp_path / 'b.db'}", "b.db"),
        (tmp_path / "c:d?e#f%20g.db", "c:d?e#f%20g.db"),
        (tmp_path / "ünïcode ✓.db", "ünïcode ✓.db"),
    ):
        with closing(open_log(name)) as log:
            assert isinstance(log, SQLiteLog)
            claimed(log, "main")
            append(log, batch("main", 0))
        assert (tmp_path / file).is_file()
        with closing(open_reader(name)) as reader:
            assert positions(reader, "main") == [1]


def test_a_relative_name_stays_the_same_store_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_log("work.db")) as log:
        claimed(log, "main")
        monkeypatch.chdir("/")
        append(log, batch("main", 0))
        assert positions(log, "main") == [1]
    assert (tmp_path / "work.db").is_file()


def test_memory_is_a_new_store_each_time() -> None:
    with closing(open_log("memory:")) as one, closing(open_log("memory:")) as other:
        assert isinstance(one, MemoryLog)
        claimed(one, "main")
        assert other.heads() == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("jsonl:folder", "jsonl: are not built yet; use a file name"),
        ("postgresql://host/base", "postgresql: are not built yet; use a file name"),
        ("mysql://host/base", "is no kind of store; write a file name such as work.db"),
        (":memory:", "is no kind of store; write a file name such as work.db, sqlite:work.db, or memory:"),
        ("memory:mine", "is no kind of store"),
    ],
)
def test_a_kind_of_store_that_there_is_not_is_refused(name: str, problem: str) -> None:
    for opening in (open_log, open_reader):
        with pytest.raises(NotSupported, match=problem):
            opening(name)


def test_an_empty_name_is_refused() -> None:
    for name in ("", "sqlite:"):
        with pytest.raises(StoreUnreadable, match="name is empty"):
            open_log(name)


def test_a_durability_that_there_is_not_is_refused(store: Path) -> None:
    durability: Any = "paper"
    with pytest.raises(NotSupported, match='durability is \'paper\'; it must be "power" or "process"'):
        open_log(store, durability)
    assert not store.exists()


def test_a_store_in_memory_has_no_reader_elsewhere() -> None:
    with pytest.raises(NotSupported, match="only by the process that holds it"):
        open_reader("memory:")


# What is no store.


def test_what_is_no_store_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("Dear diary, this file is longer than the header of a database. " * 4)
    foreign = {
        "foreign.db": "",
        "foreign-wal.db": "PRAGMA journal_mode=WAL",
        "mine.db": "PRAGMA application_id=7",
    }
    for name, statement in foreign.items():
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.execute(statement)
            connection.execute("CREATE TABLE notes (text)")
            connection.commit()
    before = snapshot(tmp_path)
    problems = {
        "folder": "is a folder, not a store; name the store's file",
        "notes.txt": r"is damaged or no SQLite database \(file is not a database\); nothing was changed",
        **dict.fromkeys(
            foreign, "is the SQLite database of another program.*Nothing was changed; choose another"
        ),
    }
    for opening in (open_log, open_reader):
        for name, problem in problems.items():
            with pytest.raises(StoreUnreadable, match=problem):
                opening(tmp_path / name)
    assert snapshot(tmp_path) == before
    assert len(list(tmp_path.iterdir())) == len(problems)


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(store: Path) -> None:
    written(store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version=2")
    before = snapshot(store.parent)
    for opening in (open_log, open_reader):
        with pytest.raises(StoreUnreadable, match=r"store format 2, this one knows 1\).*Upgrade pi-actors"):
            opening(store)
    assert snapshot(store.parent) == before


def test_a_store_that_has_lost_a_table_is_refused(store: Path) -> None:
    written(store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DROP TABLE stored_events")
    for opening in (open_log, open_reader):
        with pytest.raises(StoreUnreadable, match="has lost its table stored_events"):
            opening(store)


def test_a_store_with_two_names_is_refused(store: Path, tmp_path: Path) -> None:
    written(store)
    (tmp_path / "same.db").hardlink_to(store)
    with pytest.raises(StoreUnreadable, match=r"several names \(hard links\)"):
        open_log(store)


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match=r"there is no folder .*missing to make the store work.db in"):
        open_log(tmp_path / "missing" / "work.db")
    with pytest.raises(StoreUnreadable, match="there is no store"):
        open_reader(tmp_path / "missing" / "work.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("begun", ["an empty file", "an empty database", "a database in WAL mode"])
def test_a_store_whose_making_was_cut_short_is_made(store: Path, begun: str) -> None:
    store.touch()
    if begun != "an empty file":
        with closing(sqlite3.connect(store)) as connection:
            mode = "WAL" if "WAL" in begun else "DELETE"
            connection.executescript(f"PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode={mode}; VACUUM")
    written(store)
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


# Readers own nothing.


def test_a_reader_makes_no_file_where_there_is_no_store(store: Path) -> None:
    with pytest.raises(StoreUnreadable, match=r"there is no store .*check the path"):
        open_reader(store)
    assert list(store.parent.iterdir()) == []


def test_a_reader_leaves_no_file_beside_a_closed_store(store: Path) -> None:
    written(store)
    before = snapshot(store.parent)
    with closing(open_reader(store)) as reader:
        assert [head.session for head in reader.heads()] == ["main"]
        assert positions(reader, "main") == [1]
        assert reader.holder("main") is None
        assert not reader.needs_index("main")
        assert snapshot(store.parent) == before
    assert snapshot(store.parent) == before


def test_a_reader_follows_through_openings_and_closings_of_the_writer(store: Path) -> None:
    written(store)
    with closing(open_reader(store)) as reader:
        for after in range(1, 5):
            assert positions(reader, "main") == list(range(1, after + 1))
            with closing(open_log(store)) as log:
                head = claimed(log, "main")
                append(log, batch("main", after, epoch=head.epoch))
                assert positions(reader, "main") == list(range(1, after + 2))


def test_a_reader_of_an_empty_file_sees_that_there_is_no_store_in_it(store: Path) -> None:
    store.touch()
    with pytest.raises(StoreUnreadable, match="is empty: no session was ever opened in it"):
        open_reader(store)


def test_a_reader_sees_what_a_killed_writer_has_left_in_its_log(store: Path) -> None:
    with running(WRITE, store, "main", 1_000_000) as process:
        last = int(line_of(process))
        kill(process)
    main_file = store.read_bytes()
    with closing(open_reader(store)) as reader:
        assert len(positions(reader, "main")) >= last
    assert store.read_bytes() == main_file


def test_a_reader_that_is_closed_reads_no_more(store: Path) -> None:
    written(store)
    reader = open_reader(store)
    reader.close()
    with pytest.raises(StoreError, match="is closed"):
        reader.heads()


# Permissions.


def read(store: Path) -> str:
    """What a reader finds, or is told."""
    try:
        with closing(open_reader(store)) as reader:
            return f"{positions(reader, 'main')}, held by {reader.holder('main')}"
    except StoreError as error:
        return f"{type(error).__name__}: {error}"


def opened(store: Path) -> str:
    """What a writer is told."""
    try:
        open_log(store).close()
    except StoreError as error:
        return f"{type(error).__name__}: {error}"
    return "opened"


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that everybody can reach, if not write."""
    folder = tmp_path_factory.mktemp("shared")
    folder.chmod(0o755)
    opened = [parent for parent in folder.parents if not parent.stat().st_mode & 0o001]
    modes = {parent: parent.stat().st_mode for parent in opened}
    for parent in opened:
        parent.chmod(modes[parent] | 0o001)
    yield folder
    for parent in opened:
        parent.chmod(modes[parent])


@AS_ROOT
@FORKING
def test_another_user_reads_a_closed_store_that_is_readable_and_makes_no_file(shared: Path) -> None:
    written(shared / "work.db", commits=3)
    (shared / "work.db").chmod(0o644)
    before = snapshot(shared)
    assert as_user(NOBODY, read, shared / "work.db") == "[1, 2, 3], held by None"
    assert snapshot(shared) == before


@AS_ROOT
@FORKING
def test_another_user_without_permission_is_told_so(shared: Path) -> None:
    written(shared / "work.db")
    told = as_user(NOBODY, read, shared / "work.db")
    assert "StoreUnreadable: SQLite may not open or write" in told
    assert "needs permission for the file, its -wal and -shm files and the folder" in told
    before = snapshot(shared)
    for name in ("work.db", "new.db"):
        told = as_user(NOBODY, opened, shared / name)
        assert told.startswith("StoreUnreadable: ")
        assert "permission" in told
    assert snapshot(shared) == before


@AS_ROOT
@FORKING
def test_a_log_beside_a_store_is_never_passed_over_by_a_reader_who_may_not_read_it(shared: Path) -> None:
    with closing(open_log(shared / "work.db")) as log:
        claimed(log, "main")
        append(log, batch("main", 0))
        (shared / "work.db").chmod(0o644)
        told = as_user(NOBODY, read, shared / "work.db")
        assert told.startswith("StoreUnreadable: SQLite may not open or write")


# Disks.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounts a small disk, which this user or system cannot")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_its_last_commit_is_wholly_there_or_wholly_absent(disk: Path) -> None:
    # R270, R271
    filling = finished(FILL, disk / "work.db", 0)
    *ends, said = filling.stdout.splitlines()
    assert filling.stderr == ""
    assert said.startswith("StoreError: disk full: the store ")
    assert "Free some room and open it again; what was acknowledged is kept." in said
    requires_whole_commits(disk / "work.db", int(ends[-1]))


def test_a_file_that_may_not_grow_is_told_and_its_last_commit_is_wholly_there_or_wholly_absent(
    store: Path,
) -> None:
    # R270, R271
    filling = finished(FILL, store, 400_000)
    *ends, said = filling.stdout.splitlines()
    assert filling.stderr == ""
    assert said.startswith("StoreError: ")
    requires_whole_commits(store, int(ends[-1]))
    with closing(open_log(store)) as log:
        head = claimed(log, "main")
        append(log, batch("main", head.position, epoch=head.epoch))


def test_a_disk_too_full_for_a_new_store_is_told(disk: Path) -> None:
    room = os.statvfs(disk)
    (disk / "ballast").write_bytes(b"x" * room.f_bavail * room.f_frsize)
    with pytest.raises(StoreError, match="disk full"):
        open_log(disk / "work.db")
    (disk / "ballast").unlink()
    written(disk / "work.db")


def test_a_store_on_a_read_only_disk_can_be_read_and_nothing_else(disk: Path) -> None:
    written(disk / "work.db", commits=3)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for name in ("work.db", "new.db"):
        with pytest.raises(
            StoreUnreadable, match=r"its file system is read-only\..*to read it, nothing needs"
        ):
            open_log(disk / name)
    with closing(open_reader(disk / "work.db")) as reader:
        assert positions(reader, "main") == [1, 2, 3]
        assert reader.holder("main") is None


def requires_whole_commits(store: Path, acknowledged: int) -> None:
    """Fail unless all that was acknowledged is there, and commits of three are whole."""
    with closing(open_reader(store)) as reader:
        head = reader.head("main")
        assert head is not None
        assert head.position in {acknowledged, acknowledged + 3}
        assert positions(reader, "main") == list(range(1, head.position + 1))

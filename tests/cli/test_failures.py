"""Whatever goes wrong is one clear line on standard error and an exit status, never a traceback."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import click
import pytest

from pi_actors.cli.failures import goes_on, status_of, tell
from pi_actors.core.errors import LogCorrupt, LogTooNew, SessionInUse, StoreError, Unanswered, UnknownName
from tests.cli.commandline import (
    PROJECT,
    Finished,
    command,
    environment,
    let_go,
    pi_actors,
    read_until,
    running,
    says,
    script,
    waits,
)

NOBODY: Final = 65_534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, which only root can")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a test works; no command that it has started waits on after it."""
    yield tmp_path
    let_go(tmp_path)


@pytest.fixture(scope="module")
def finished_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a session that owes nothing."""
    folder = tmp_path_factory.mktemp("finished")
    done = pi_actors("run", "talk", "--model", script(folder, "Hello."), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "pi-actors.db"


def complaint_of(done: Finished, status: int) -> str:
    """The one line that a failed command has said."""
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("pi-actors: ")
    return line.removeprefix("pi-actors: ")


def changed(store: Path, statement: str) -> None:
    """Do to the store what only a foreign hand does."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(statement)
        connection.commit()


# Models.


@pytest.mark.parametrize(
    ("model", "says_what"),
    [
        (None, "no model: give --model provider:model"),
        ("gpt", "there is no model 'gpt'; write provider:model"),
        ("nosuch:model", "no provider 'nosuch'"),
        ("openai:gpt-5", "set the environment variable OPENAI_API_KEY"),
        ("anthropic:claude-opus-4-6", "set the environment variable ANTHROPIC_API_KEY"),
        ("scripted:nix.json", "the script nix.json cannot be read: No such file or directory"),
    ],
)
def test_a_model_that_cannot_be_used_is_told_and_no_store_is_made(
    folder: Path, model: str | None, says_what: str
) -> None:
    options = () if model is None else ("--model", model)
    assert says_what in complaint_of(pi_actors("run", "x", *options, cwd=folder), 2)
    assert list(folder.iterdir()) == []


# Stores.


def not_a_database(store: Path, _: Path) -> None:
    store.write_text("a diary")


def foreign(store: Path, _: Path) -> None:
    changed(store, "CREATE TABLE recipes (name)")


def folder_in_its_place(store: Path, _: Path) -> None:
    store.mkdir()


def of_a_newer_format(store: Path, finished: Path) -> None:
    shutil.copy(finished, store)
    changed(store, "PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("make", "says_what"),
    [
        (not_a_database, "is damaged or no SQLite database"),
        (foreign, "is the SQLite database of another program"),
        (folder_in_its_place, "is a folder, not a store"),
        (of_a_newer_format, "was written by a newer pi-actors"),
    ],
)
def test_a_file_that_is_no_store_is_refused_by_every_command_and_left_as_it_is(
    folder: Path, finished_store: Path, make: Callable[[Path, Path], None], says_what: str
) -> None:
    store = folder / "work.db"
    make(store, finished_store)
    before = store.read_bytes() if store.is_file() else None
    for arguments in (
        ("run", "x", "--model", "demo", "--store", store),
        ("resume", store, "--model", "demo"),
        ("log", store),
        ("sessions", store),
    ):
        assert says_what in complaint_of(pi_actors(*arguments, cwd=folder), 2)
    assert before is None or store.read_bytes() == before


def test_a_damaged_row_is_told_with_its_position(folder: Path, finished_store: Path) -> None:
    store = folder / "work.db"
    shutil.copy(finished_store, store)
    changed(store, "UPDATE stored_events SET state = x'00' WHERE originator_version = 4")
    done = pi_actors("run", "x", "--model", "demo", "--store", store, cwd=folder)
    assert "session 'main' is damaged at position 4" in complaint_of(done, 1)


def test_a_topic_of_a_newer_version_is_told_with_its_position(folder: Path, finished_store: Path) -> None:
    store = folder / "work.db"
    shutil.copy(finished_store, store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("UPDATE stored_events SET topic = 'RunStarted.9' WHERE topic = 'RunStarted'")
        connection.execute("DELETE FROM snapshots")  # with one, nobody needs to read the row
        connection.commit()
    # A topic that was merely renamed fails the row's checksum, which covers it.
    done = pi_actors("run", "x", "--model", "demo", "--store", store, cwd=folder)
    assert "the checksum of the 'RunStarted.9' row is wrong" in complaint_of(done, 1)


@AS_ROOT
def test_a_folder_that_cannot_be_written_is_told(folder: Path, finished_store: Path) -> None:
    """As another user; what may be read can still be looked at."""
    there = folder / "there"
    there.mkdir()
    store = there / "work.db"
    shutil.copy(finished_store, store)
    open_to_all(folder, there, store)
    for arguments in (
        ("run", "x", "--model", "demo", "--store", store),
        ("run", "x", "--model", "demo", "--store", there / "new.db"),
    ):
        done = as_nobody(*arguments)
        assert "permission" in complaint_of(done, 2)
    assert as_nobody("log", store).returncode == 0


@AS_ROOT
def test_a_folder_that_cannot_be_entered_is_told(folder: Path, finished_store: Path) -> None:
    """As another user, who may not even see whether a store is there."""
    there = folder / "there"
    there.mkdir()
    store = there / "work.db"
    shutil.copy(finished_store, store)
    there.chmod(0o700)
    for arguments in (("run", "x", "--model", "demo", "--store", store), ("log", store)):
        assert "permission" in complaint_of(as_nobody(*arguments), 2)


def open_to_all(folder: Path, there: Path, store: Path) -> None:
    """Let everybody look into *folder*, and read what is in *there*."""
    for path in (*folder.parents, folder):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    there.chmod(0o555)
    store.chmod(0o444)


def as_nobody(*arguments: object) -> Finished:
    """What came of ``pi-actors`` for a user who owns nothing here, and may not even read its code."""
    return subprocess.run(
        [sys.executable, "-c", AS_NOBODY, *map(str, arguments)],
        cwd=PROJECT,
        env=environment(HOME="/nonexistent"),
        capture_output=True,
        text=True,
        check=False,
    )


AS_NOBODY: Final = f"""
import os
import pi_actors.cli.commands, pi_actors.cli.demo.story, pi_actors.cli.reading, pi_actors.cli.running
import rich.table
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
pi_actors.cli.main()
"""


def talks_too_much(folder: Path) -> str:
    """A model whose second answer is larger than the disk."""
    return script(folder, says("", ("bash", {"command": "echo one"})), "x" * 900_000)


def requires_what_was_acknowledged(folder: Path, done: Finished) -> None:
    """What was shown is stored, and the run can be finished as soon as there is room."""
    assert "✓ bash" in done.stdout
    assert pi_actors("log", "pi-actors.db", cwd=folder).stdout.count("ToolResultSettled") == 1
    assert "Good again." in pi_actors("resume", "pi-actors.db", cwd=folder).stdout


def test_files_that_may_not_grow_end_the_run_and_what_was_acknowledged_is_kept(folder: Path) -> None:
    limited = ["bash", "-c", 'ulimit -f 400; exec "$@"', "-"]
    done = subprocess.run(
        [*limited, *command("run", "talk", "--model", talks_too_much(folder))],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "session 'main' has failed: the store " in complaint_of(done, 1)
    script(folder, says("", ("bash", {"command": "echo one"})), "Good again.")
    requires_what_was_acknowledged(folder, done)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for 700 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_is_told_and_what_was_acknowledged_is_kept(folder: Path, small_disk: Path) -> None:
    done = pi_actors("run", "talk", "--model", talks_too_much(folder), cwd=small_disk)
    assert "session 'main' has failed: disk full: the store " in complaint_of(done, 1)
    script(folder, says("", ("bash", {"command": "echo one"})), "Good again.")
    requires_what_was_acknowledged(small_disk, done)


def test_a_session_in_use_ends_with_3_and_names_the_holder(folder: Path) -> None:
    model = script(folder, says("", waits()), "Done.")
    with running("run", "x", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        for arguments in (("run", "y", "--model", model), ("resume", "pi-actors.db")):
            told = complaint_of(pi_actors(*arguments, cwd=folder), 3)
            assert told.startswith(
                f"session 'main' of {folder}/pi-actors.db is in use by process {process.pid} "
            )
        let_go(folder)
        process.communicate()
    assert process.returncode == 0, "the holder noticed nothing"


def test_a_second_interrupt_leaves_at_once(folder: Path) -> None:
    """A tool that ends on no signal does not hold its user up; nothing stored is lost."""
    stubborn = "trap '' TERM INT; echo begun; until [ -e go ]; do sleep 0.02; done"
    model = script(folder, says("", ("bash", {"command": stubborn})), "Done.")
    with running("run", "x", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolOutputStreamed")
        while process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == 130
    let_go(folder)
    assert "interrupted: " in pi_actors("resume", "pi-actors.db", cwd=folder).stdout


# What each failure stands for.


def test_every_kind_of_failure_has_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    def raising(error: BaseException) -> int:
        def work() -> int:
            raise error

        return status_of(work)

    assert status_of(lambda: None) == 0
    assert status_of(lambda: 1) == 1
    assert raising(Unanswered("aborted", None)) == 1
    assert raising(StoreError("the disk")) == 1
    assert raising(LogCorrupt("main", 3, "bad")) == 1
    assert raising(LogTooNew("main", 3, "New.2", "news")) == 2
    assert raising(UnknownName("no model")) == 2
    assert raising(SessionInUse("taken")) == 3
    assert raising(KeyboardInterrupt()) == 130
    assert raising(click.Abort()) == 130
    assert raising(FileNotFoundError(2, "No such file or directory", "there")) == 1
    assert raising(ExceptionGroup("several", [UnknownName("inner")])) == 2
    assert "pi-actors: inner" in capsys.readouterr().err


def test_a_bug_is_not_hidden() -> None:
    def work() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        status_of(work)


def test_what_is_told_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    tell("first\n  second \x1b[31mred")
    assert capsys.readouterr().err == "pi-actors: first second [31mred\n"


def test_going_on_is_a_command_that_can_be_pasted() -> None:
    assert goes_on("a b.db", "main").endswith("pi-actors resume 'a b.db'")
    assert goes_on("a.db", "x y").endswith("pi-actors resume a.db --session 'x y'")
    assert "resume" not in goes_on("memory:", "main")

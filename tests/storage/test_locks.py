"""Locks: the operating system gives them to one opener and takes them back from the dead."""

import errno
import fcntl
import os
import re
import stat
import threading
from pathlib import Path

import pytest

from pi_actors.core.errors import NotSupported, SessionInUse, StoreError
from pi_actors.storage.folder import ensure_folder, session_lock_path
from pi_actors.storage.locks import StoreLock, acquire_session, require_locks, session_holder
from pi_actors.storage.opening import open_log
from tests.storage.events import append, batch, claimed
from tests.storage.programs import FORKING, HOLD, kill, line_of, running, tell


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "work.db"
    ensure_folder(store)
    return store


def test_a_second_process_is_refused_at_once_naming_the_holder(store: Path) -> None:
    # X53, R292
    with running(HOLD, store, "main") as holder:
        assert line_of(holder) == "held"
        named = rf"process {holder.pid} on host {re.escape(os.uname().nodename)} since \d{{4}}-"
        with pytest.raises(SessionInUse, match=rf"session 'main' of .*work.db is in use by {named}"):
            acquire_session(store, "main")
        assert re.match(named, session_holder(store, "main") or "nobody")
        acquire_session(store, "other").close()
        tell(holder)
        assert line_of(holder) == "let go"
        acquire_session(store, "main").close()


def test_a_killed_process_frees_its_session_at_once(store: Path) -> None:
    with running(HOLD, store, "main") as holder:
        assert line_of(holder) == "held"
        kill(holder)
        assert session_holder(store, "main") is None
        acquire_session(store, "main").close()


@FORKING
def test_a_forked_child_does_not_hold_what_its_parent_held(store: Path) -> None:
    held = acquire_session(store, "main")
    waiting, let_go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(let_go)
        os.read(waiting, 1)
        os._exit(0)
    try:
        with pytest.raises(SessionInUse):
            acquire_session(store, "main")
        held.close()
        acquire_session(store, "main").close()
    finally:
        os.close(let_go)
        os.waitpid(child, 0)
        os.close(waiting)


@FORKING
def test_a_forked_child_cannot_write_through_its_parents_store(tmp_path: Path) -> None:
    log = open_log(tmp_path / "work.db")
    claimed(log, "main")
    child = os.fork()
    if child == 0:
        try:
            log.append([batch("main", 0)])
        except StoreError as error:
            os._exit(7 if "this process was forked from it" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    append(log, batch("main", 0))
    log.close()


def test_lock_files_stay_and_only_their_owner_may_read_them(store: Path) -> None:
    mask = os.umask(0)
    try:
        held = acquire_session(store, "main")
    finally:
        os.umask(mask)
    path = session_lock_path(store, "main")
    inode = path.stat().st_ino
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    held.close()
    acquire_session(store, "main").close()
    assert path.stat().st_ino == inode


def test_a_lock_file_that_was_replaced_under_its_holder_is_locked_anew(store: Path) -> None:
    held = acquire_session(store, "main")
    session_lock_path(store, "main").unlink()
    assert not held.is_where_it_was()
    second = acquire_session(store, "main")
    assert second.is_where_it_was()
    second.close()
    held.close()


def test_a_lock_file_that_does_not_name_its_holder_still_excludes(store: Path) -> None:
    held = acquire_session(store, "main")
    session_lock_path(store, "main").write_text("")
    with pytest.raises(SessionInUse, match="is in use by another process"):
        acquire_session(store, "main")
    held.close()


def test_asking_who_holds_a_session_makes_no_file(tmp_path: Path) -> None:
    assert session_holder(tmp_path / "work.db", "main") is None
    assert list(tmp_path.iterdir()) == []


def test_asking_who_holds_a_session_refuses_nobody(store: Path) -> None:
    acquire_session(store, "main").close()
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            session_holder(store, "main")

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(200):
            acquire_session(store, "main").close()
    finally:
        done.set()
        asking.join()


def test_a_mount_where_locks_do_not_exclude_is_refused(store: Path) -> None:
    # X58
    folder = ensure_folder(store)

    def lock_everybody(descriptor: int, operation: int) -> None:
        """What some network and container mounts do."""

    def lock_nobody(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with pytest.raises(
        NotSupported, match=r"two openers of one file both got its lock.*Put it on a local file"
    ):
        require_locks(folder, flock=lock_everybody)
    with pytest.raises(NotSupported, match=r"No locks available.*Put it on a local file system"):
        require_locks(folder, flock=lock_nobody)
    require_locks(folder)


def test_two_openers_may_try_the_locks_at_the_same_time(store: Path) -> None:
    folder = ensure_folder(store)
    with (folder / "probe.lock").open("w") as probing:
        fcntl.flock(probing, fcntl.LOCK_EX)
        require_locks(folder)


def test_the_store_lock_lets_one_thread_or_opener_in_at_a_time(store: Path) -> None:
    path = ensure_folder(store) / "store.lock"
    first, second = StoreLock(path), StoreLock(path, wait_s=0.05)
    with (
        first,
        pytest.raises(StoreError, match=r"more than 0\.05 s.*nothing was stored. Is it suspended"),
        second,
    ):
        pass
    with second, pytest.raises(StoreError, match=r"more than 0\.05 s"), second:
        pass
    inside: list[int] = []

    def enter() -> None:
        for _ in range(50):
            with first:
                inside.append(1)
                assert len(inside) == 1
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first.close()
    second.close()
    with pytest.raises(StoreError, match="is closed"), first:
        pass

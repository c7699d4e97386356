"""Locks that the operating system gives and takes back: a process that dies holds none.

Every lock is an exclusive ``flock`` on a file of its own, which is never unlinked. Each opener has
its own open file, so locks exclude within a process too. A forked child closes its copies at once:
otherwise the lock would outlive the parent.
"""

import errno
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

import msgspec

from pi_actors.core.errors import NotSupported, SessionInUse, StoreError
from pi_actors.core.ids import SessionId
from pi_actors.storage.folder import open_private, session_lock_path

Flock: TypeAlias = Callable[[int, int], None]
"""``fcntl.flock``, or what behaves as it does on another kind of mount."""

LOOKS_MAX: Final = 5
LOOK_MS: Final = 2
"""How often and how long a taken lock is tried: somebody may be asking who holds it, which is over
in microseconds."""

STORE_LOCK_WAIT_S: Final = 30.0


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lock; stands in the lock file as JSON. ``since``: UTC."""

    pid: int
    host: str
    since: datetime

    @property
    def words(self) -> str:
        """The holder as messages name it."""
        return f"process {self.pid} on host {self.host} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


def this_process() -> Holder:
    """The running process as a holder from now on."""
    return Holder(pid=os.getpid(), host=socket.gethostname(), since=datetime.now(UTC))


class LockFile:
    """An open lock file. Closing it, dying and being forked all give the lock back or leave it alone."""

    def __init__(self, path: Path, *, flock: Flock = fcntl.flock) -> None:
        """Open *path*, made with mode 0600 where it is missing. Raises OSError."""
        self.path = path
        self._flock = flock
        with _forks:
            self.descriptor = open_private(path)
            _open_files.add(self)

    @property
    def closed(self) -> bool:
        """Whether it was closed, here or by a fork."""
        return self.descriptor < 0

    def try_lock(self) -> bool:
        """Take the lock if nobody holds it. Raises OSError, also where there are no locks."""
        try:
            self._flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        """Give the lock back."""
        self._flock(self.descriptor, fcntl.LOCK_UN)

    def is_where_it_was(self) -> bool:
        """Whether the path still leads to this file."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def write(self, holder: Holder) -> None:
        """Say in the file who holds it."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, msgspec.json.encode(holder), 0)

    def close(self) -> None:
        """Give back a lock and close the file. May be called again.

        The lock is given back by itself, because a child forked a moment ago may not have closed its
        copy of the descriptor yet.
        """
        with _forks:
            if self.descriptor >= 0:
                with suppress(OSError):  # there are no locks here, so none is held
                    self.unlock()
            self.close_in_child()

    def close_in_child(self) -> None:
        """Close the file; the caller holds the guard against forks."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        _open_files.discard(self)


def acquire_session(store: Path, session: SessionId) -> LockFile:
    """Take the session's lock.

    Raises:
        SessionInUse: somebody holds it; the message names the holder.
        OSError: the lock file cannot be made or locked.
    """
    path = session_lock_path(store, session)
    for look in range(LOOKS_MAX):
        if look:
            time.sleep(LOOK_MS / 1000)
        file = LockFile(path)
        if _taken(file):
            return file
        file.close()
    raise in_use(session, str(store), _named(path))


def session_holder(store: Path, session: SessionId) -> str | None:
    """Who holds the session's lock, in words; None: nobody, or nobody whom this user may see.

    Raises OSError.
    """
    path = session_lock_path(store, session)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _named(path)
    finally:
        os.close(descriptor)
    return None


def in_use(session: SessionId, store: str, holder: str) -> SessionInUse:
    """The error that refuses a second opener."""
    return SessionInUse(
        f"session {session!r} of {store} is in use by {holder}. "
        "Nothing was changed. Close it there, follow it read-only, or open another session."
    )


def require_locks(folder: Path, *, flock: Flock = fcntl.flock) -> None:
    """Show that locks in *folder* exclude: of two openers of one file only one gets it.

    Raises:
        NotSupported: both got it, or neither could ask.
        OSError: the file cannot be made.
    """
    path = folder / "probe.lock"
    first, second = LockFile(path, flock=flock), LockFile(path, flock=flock)
    try:
        # Where the first is refused, another process is probing at this moment: locks exclude.
        if first.try_lock() and second.try_lock():
            raise _no_locks(folder, "two openers of one file both got its lock")
    except OSError as error:
        if error.errno in {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}:
            raise _no_locks(folder, str(error)) from error
        raise
    finally:
        first.close()
        second.close()


class StoreLock:
    """Lets one writer at a time, of all threads and processes, write to a store: ``with lock: …``."""

    def __init__(self, path: Path, *, wait_s: float = STORE_LOCK_WAIT_S) -> None:
        """Open the lock file. ``wait_s``: how long entering waits. Raises OSError."""
        self._file = LockFile(path)
        self._wait_s = wait_s
        self._threads = threading.Lock()

    def __enter__(self) -> None:
        """Wait for the lock.

        Raises:
            StoreError: somebody has held it for too long, or this process is a forked child.
        """
        if self._file.closed:
            raise StoreError(
                f"{self._file.path} is closed: by its opener, or because this process was forked from it. "
                "Open the store again here."
            )
        if not self._threads.acquire(timeout=self._wait_s):
            raise self._too_long()
        try:
            self._wait()
        except BaseException:
            self._threads.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        try:
            if not self._file.closed:
                self._file.unlock()
        finally:
            self._threads.release()

    def close(self) -> None:
        """Close the lock file. May be called while the lock is held, and again."""
        self._file.close()

    def _wait(self) -> None:
        give_up = time.monotonic() + self._wait_s
        pause_s = 0.0001
        while not self._file.try_lock():
            if time.monotonic() > give_up:
                raise self._too_long()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.002)

    def _too_long(self) -> StoreError:
        return StoreError(
            f"another process has been writing to the store for more than {self._wait_s:g} s, holding "
            f"{self._file.path}; nothing was stored. Is it suspended? Let it go on, or end it."
        )


def _taken(file: LockFile) -> bool:
    try:
        if not (file.try_lock() and file.is_where_it_was()):
            return False
        file.write(this_process())
    except BaseException:
        file.close()
        raise
    return True


def _named(path: Path) -> str:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder).words
    except (OSError, msgspec.MsgspecError):
        return "another process"


def _no_locks(folder: Path, problem: str) -> NotSupported:
    return NotSupported(
        f"file locks do not exclude in {folder} ({problem}), so two processes could damage the store. "
        "Put it on a local file system."
    )


_open_files: set[LockFile] = set()
_forks = threading.Lock()


def _close_in_child() -> None:
    for file in list(_open_files):
        file.close_in_child()
    _forks.release()


os.register_at_fork(before=_forks.acquire, after_in_parent=_forks.release, after_in_child=_close_in_child)

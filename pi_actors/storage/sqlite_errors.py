"""What goes wrong with a database file, in this package's words. Foreign errors end here."""

import errno
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eventsourcing.persistence import PersistenceError

from pi_actors.core.errors import StoreError, StoreUnreadable

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NOT_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CONFLICTS: Final = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
        sqlite3.SQLITE_CONSTRAINT_ROWID,
        sqlite3.SQLITE_CONSTRAINT_UNIQUE,
    }
)


@contextmanager
def translated(store: Path) -> Generator[None]:
    """Raise what SQLite, the operating system or the recorder raises as StoreError or StoreUnreadable."""
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(error, store) from error
    except OSError as error:
        raise _of_system(error, store) from error
    except PersistenceError as error:
        cause = error.__cause__
        if isinstance(cause, sqlite3.Error):
            raise _of_sqlite(cause, store) from error
        raise StoreError(f"the store {store} failed: {error}. Close it and open it again.") from error


def is_conflict(error: sqlite3.IntegrityError) -> bool:
    """Whether a row was there already; any other refusal is an error of the store."""
    return error.sqlite_errorcode in _CONFLICTS


def _of_sqlite(error: sqlite3.Error, store: Path) -> StoreError:
    # Errors of the binding itself, such as a closed connection, carry no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return _disk_full(store, str(error))
        case primary if primary in _DAMAGED:
            return StoreUnreadable(
                f"{store} is damaged or no SQLite database ({error}); nothing was changed. "
                "Choose another file, or restore it from a backup, with its -wal file if there is one."
            )
        case primary if primary in _NOT_ALLOWED:
            return StoreUnreadable(
                f"SQLite may not open or write {store} ({error}). This user needs permission for the file, "
                "its -wal and -shm files and the folder they are in."
            )
        case primary if primary in _LOCKED:
            return StoreError(
                f"another program keeps {store} locked ({error}); nothing was stored. "
                "End what else has the database open, then open the store again."
            )
        case _:
            return StoreError(f"the store {store} failed: {error}. Close it and open it again.")


def _of_system(error: OSError, store: Path) -> StoreError:
    what = f"{error.strerror} ({error.filename or store})"
    match error.errno:
        case number if number in _FULL:
            return _disk_full(store, what)
        case errno.EACCES | errno.EPERM:
            return StoreUnreadable(
                f"the store {store} cannot be opened for writing: {what}. This user needs permission to read "
                "and write it and the folder it is in."
            )
        case errno.EROFS:
            return StoreUnreadable(
                f"the store {store} cannot be opened for writing: {what}. It can be read as it is; to go on "
                "with its sessions, copy it to a disk that can be written."
            )
        case errno.ENOENT | errno.ENOTDIR:
            return StoreUnreadable(f"the store {store} cannot be reached: {what}. Check its path and folder.")
        case _:
            return StoreError(f"the store {store} failed: {what}. Close it and open it again.")


def _disk_full(store: Path, what: str) -> StoreError:
    return StoreError(
        f"disk full: the store {store} could not be written ({what}). Free some room and open it again; "
        "what was acknowledged is kept."
    )

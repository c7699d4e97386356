"""Connections to an SQLite store: one that writes and checkpoints, all others read-only.

Never open the database file, or its -shm, by other means than SQLite while it may be open in this
process: closing any descriptor of a file drops all the locks that SQLite holds on it.
"""

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from pi_actors.core.errors import StoreError
from pi_actors.storage.locks import StoreLock
from pi_actors.storage.sqlite_room import give_back_at_close

Durability: TypeAlias = Literal["power", "process"]
"""What an acknowledged commit survives: the loss of power, or only the end of the process."""

CHECKPOINT_PAGES: Final = 4_000
"""About how many pages are written to the log between two checkpoints, which is 16 MiB.

Many sessions change the same pages of the indexes with every transaction; a checkpoint copies each once.
"""

PAGES_A_TRANSACTION: Final = 4
"""About how many pages a transaction writes whatever its size."""

TRUNCATE_BYTES: Final = 64 * 1024 * 1024
"""A -wal file that readers have let grow beyond this is cut; normally it is used again as it is."""

T = TypeVar("T")

_FULL: Final = "FULL"
"""Each commit waits until the write-ahead log is on the disk."""

_NORMAL: Final = "NORMAL"
"""Only checkpoints do."""

_BUSY_S: Final = 10.0
_IDLE_READERS_MAX: Final = 4


class Writer:
    """The connection that writes. Everything it does happens under the store's lock."""

    def __init__(self, store: Path, lock: StoreLock, durability: Durability) -> None:
        """Connect. The caller holds *lock*. Raises sqlite3.Error and OSError."""
        self.transactions = 0
        self._synced = durability == "power"
        self._store = store
        self._wal = wal_of(store)
        self._lock = lock
        self._identity = _identity(store)
        self._pages = 0
        self.connection = connect(
            store,
            "mode=rw",
            f"synchronous={_FULL if self._synced else _NORMAL}",
            "fullfsync=1",
            "checkpoint_fullfsync=1",
            "wal_autocheckpoint=0",
            "cache_size=-8000",
        )

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Cursor]:
        """A write transaction: committed at the end of the block, rolled back by an exception.

        Raises sqlite3.Error, OSError and StoreError.
        """
        with self._lock:
            with self._transaction() as cursor:
                yield cursor
            self.transactions += 1
            self._checkpoint_when_due()

    @contextmanager
    def unsynced_transaction(self) -> Generator[sqlite3.Cursor]:
        """A write transaction that waits for no disk: a power cut may undo it. Raises as ``transaction``.

        That harms nothing else. The write-ahead log is read up to its first incomplete transaction, so
        what goes is always its end: this transaction goes alone, or with later ones of its kind. A
        later one that was synced took all before it to the disk. A checkpoint syncs the log before it
        writes to the database, at NORMAL too.
        """
        with self._lock:
            with self._unsynced(), self._transaction() as cursor:
                yield cursor
            self._checkpoint_when_due()

    @contextmanager
    def _unsynced(self) -> Generator[None]:
        # Between transactions, as SQLite refuses it within one.
        self.connection.execute(f"PRAGMA synchronous={_NORMAL}")
        try:
            yield
        finally:
            if self._synced:
                self.connection.execute(f"PRAGMA synchronous={_FULL}")

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Cursor]:
        self._require_same_file()
        cursor = self.connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            self.connection.rollback()
            raise
        self._pages += PAGES_A_TRANSACTION

    def wrote(self, pages: int) -> None:
        """Count further *pages* of the running transaction towards the next checkpoint."""
        self._pages += pages

    def close(self, *, checkpoint: bool) -> None:
        """Close the connection; with *checkpoint*, give back free room and empty the log first.

        Raises StoreError.
        """
        with self._lock:
            if checkpoint:
                try:
                    with self._unsynced():
                        give_back_at_close(self.connection)
                    self._truncate(busy_ms=1_000)
                except sqlite3.Error:
                    # All that was acknowledged stands in the log, and the next opening reads it.
                    self.connection.rollback()
            self.connection.close()
        self._lock.close()

    def _require_same_file(self) -> None:
        if _identity(self._store) != self._identity:
            raise StoreError(
                f"{self._store} was removed or replaced while it was open. Nothing more is written; "
                "put the file back, or open what is there now."
            )

    def _checkpoint_when_due(self) -> None:
        if self._pages < CHECKPOINT_PAGES:
            return
        self._pages = 0
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if self._wal.stat().st_size > TRUNCATE_BYTES:
            self._truncate(busy_ms=20)

    def _truncate(self, *, busy_ms: int) -> None:
        self.connection.execute(f"PRAGMA busy_timeout={busy_ms}")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.connection.execute(f"PRAGMA busy_timeout={_BUSY_S * 1000:.0f}")


class Readers:
    """Read-only connections, each used by one thread at a time and kept for the next."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* makes of a connection. It leaves no statement or transaction open.

        Raises sqlite3.Error, and StoreError once closed.
        """
        with self.lent() as connection:
            return work(connection)

    @contextmanager
    def lent(self) -> Generator[sqlite3.Connection]:
        """A connection for the length of the block. Raises as ``run`` does."""
        connection = self._take()
        try:
            yield connection
        finally:
            self._give(connection)

    def close(self) -> None:
        """Close what is idle now and the rest when its work is done."""
        with self._guard:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _take(self) -> sqlite3.Connection:
        with self._guard:
            self._require_open()
            if self._idle:
                return self._idle.pop()
        return connect(self._store, "mode=ro", "query_only=1")

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self._store} is closed; open it again")

    def _give(self, connection: sqlite3.Connection) -> None:
        connection.rollback()
        with self._guard:
            if not self._closed and len(self._idle) < _IDLE_READERS_MAX:
                self._idle.append(connection)
                return
        connection.close()


class OutsideReaders(Readers):
    """Readers for those who own nothing of the store, and leave no file behind beside it.

    Where there is no write-ahead log, nobody writes and SQLite would make one to read: then the
    file is read as it is, and read again if it turns out to have changed meanwhile. No connection
    is kept: a writer that closes could not remove its log, and a file that was replaced would not
    be noticed.
    """

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._require_open()
        before = _stamp(self._store)
        if before is None:
            return super().run(work)
        connection = connect(self._store, "mode=ro&immutable=1", "query_only=1")
        try:
            result = work(connection)
        except sqlite3.Error:
            if _stamp(self._store) == before:
                raise
            return super().run(work)
        finally:
            connection.close()
        return result if _stamp(self._store) == before else super().run(work)

    def _give(self, connection: sqlite3.Connection) -> None:
        connection.close()


def connect(store: Path, parameters: str, *pragmas: str) -> sqlite3.Connection:
    """A connection without implicit transactions. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        f"{store.as_uri()}?{parameters}",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        for pragma in ("trusted_schema=0", *pragmas):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def wal_of(store: Path) -> Path:
    """Where SQLite keeps the write-ahead log of *store*."""
    return store.with_name(store.name + "-wal")


def _identity(store: Path) -> tuple[int, int] | None:
    try:
        found = store.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _stamp(store: Path) -> tuple[int, ...] | None:
    """What changes whenever the file does, or None where a log stands beside it."""
    if any(store.with_name(store.name + suffix).exists() for suffix in ("-wal", "-journal")):
        return None
    found = store.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

"""The log in an SQLite file, on eventsourcing's recorder: many sessions, one writer a process.

Several processes with different sessions may share the file. Whoever writes or checkpoints holds
the store's lock; whoever extends a session holds the session's lock, and the head row is the fence
behind it.
"""

import os
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar, get_args

from eventsourcing.sqlite import SQLiteApplicationRecorder

from pi_actors.core.errors import Fenced, NotSupported, StoreError, StoreUnreadable
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import IndexRows
from pi_actors.storage.fence import require_known_format, scavenger_fenced
from pi_actors.storage.folder import ensure_folder, open_private, require_session_id, spill_folder
from pi_actors.storage.locks import LockFile, StoreLock, acquire_session, require_locks
from pi_actors.storage.log import Batch, Head, Snapshot
from pi_actors.storage.sqlite_append import append_all, append_each, insert_index, pages_of
from pi_actors.storage.sqlite_connections import Durability, OutsideReaders, Readers, Writer
from pi_actors.storage.sqlite_errors import translated
from pi_actors.storage.sqlite_heads import MARKERS, head_of, make_head, number_of
from pi_actors.storage.sqlite_reads import SQLiteReader
from pi_actors.storage.sqlite_recorder import recorder_of
from pi_actors.storage.sqlite_room import ROWS_A_PAGE, give_back, scavenge, surplus_pages
from pi_actors.storage.sqlite_schema import Contents, contents, prepare, require_sqlite
from pi_actors.storage.sqlite_snapshots import save_snapshots, snapshot_pages

T = TypeVar("T")


def open_sqlite(path: Path, durability: Durability = "power") -> "SQLiteLog":
    """Open the store at *path* for writing, made where there is nothing yet.

    Raises:
        StoreUnreadable: there is something else, or no permission. Nothing was made or changed.
        NotSupported: SQLite is too old, or locks do not exclude here.
        StoreError: the disk is full or failing.
    """
    require_sqlite()
    if durability not in get_args(Durability):
        raise NotSupported(f'durability is {durability!r}; it must be "power" or "process"')
    with translated(path):
        store = _looked_at(path)
    with translated(store), ExitStack() as undo:
        folder = ensure_folder(store)
        require_locks(folder)
        lock = StoreLock(folder / "store.lock")
        undo.callback(lock.close)
        with lock:
            writer = _prepared(store, lock, durability)
        undo.pop_all()
    return SQLiteLog(store, writer)


def open_sqlite_reader(path: Path) -> SQLiteReader:
    """Open the store at *path* for reading, as somebody who owns nothing of it. Makes no file.

    Raises:
        StoreUnreadable: there is no store, or no permission to read it.
    """
    with translated(path):
        store = _real(path)
        if not store.exists():
            raise StoreUnreadable(
                f"there is no store {store}: check the path, or make it by opening a session in it"
            )
        found = _inspected(store)
    if found == "nothing":
        raise StoreUnreadable(f"{store} is empty: no session was ever opened in it; check the path")
    return SQLiteReader(store, OutsideReaders(store))


class SQLiteLog(SQLiteReader):
    """A store that this process writes."""

    def __init__(self, store: Path, writer: Writer) -> None:
        readers = Readers(store)
        super().__init__(store, readers)
        self.recorder: SQLiteApplicationRecorder = recorder_of(store, writer, readers)
        self._writer = writer
        self._numbers: dict[SessionId, int] = {}
        self._failure: StoreError | None = None
        self._closed = False

    @property
    def transactions(self) -> int:
        return self._writer.transactions

    def acquire(self, session: SessionId) -> LockFile:
        self._require_usable()
        with translated(self.store):
            return acquire_session(self.store, session)

    def spill_folder(self, session: SessionId) -> Path:
        return spill_folder(self.store, session)

    def claim(self, session: SessionId, *, now_us: int) -> Head:
        require_session_id(session)
        if found := self.head(session):
            last = self.read_at(session, [found.position])
            require_known_format(session, found, last[0].topic if last else "")
        with self._writing() as cursor:
            if found is None:
                make_head(cursor, session, now_us)
            cursor.execute("UPDATE sessions SET epoch=epoch+1 WHERE session=?", (session,))
            head = head_of(cursor, session)
            assert head is not None, f"session {session!r} has just got its head"
            if found is None and head.position == 0:
                insert_index(cursor, self._number(cursor, session), MARKERS)
        return head

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        if not batches:
            return []
        with self._writing() as cursor:
            for batch in batches:
                if batch.session not in self._numbers:
                    self._find_number(cursor, batch.session)
            outcomes = self._append(cursor, batches)
            self._writer.wrote(pages_of(batches))
        return outcomes

    def scavenge(
        self, session: SessionId, *, epoch: int, positions: Sequence[Position], through: Position
    ) -> Fenced | None:
        with self._writing(self._writer.unsynced_transaction) as cursor:
            self._writer.wrote(len(positions) // ROWS_A_PAGE)
            if scavenge(cursor, session, epoch=epoch, positions=positions, through=through):
                return None
            return scavenger_fenced(session, epoch, head_of(cursor, session))

    def give_back(self) -> bool:
        if not self._has_room_to_give():
            return False
        with self._writing(self._writer.unsynced_transaction) as cursor:
            pages = give_back(cursor)
            self._writer.wrote(2 * pages)
        return pages > 0

    def rebuild_index(self, session: SessionId, rows: IndexRows) -> None:
        with self._writing() as cursor:
            number = self._number(cursor, session)
            for table in ("request_ids", "settled_ids", "agent_entries"):
                cursor.execute(f"DELETE FROM {table} WHERE number=?", (number,))
            insert_index(cursor, number, rows)
            insert_index(cursor, number, MARKERS)

    def save_snapshot(self, session: SessionId, epoch: int, *snapshots: Snapshot) -> bool:
        with self._writing(self._writer.unsynced_transaction) as cursor:
            is_saved = save_snapshots(cursor, session, epoch, snapshots)
            self._writer.wrote(snapshot_pages(snapshots) if is_saved else 0)
        return is_saved

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        super().close()
        with translated(self.store):
            self._writer.close(checkpoint=self._failure is None)

    def _append(self, cursor: sqlite3.Cursor, batches: Sequence[Batch]) -> list[Fenced | None]:
        if append_all(cursor, batches, self._numbers):
            return [None] * len(batches)
        cursor.execute("ROLLBACK")
        cursor.execute("BEGIN IMMEDIATE")
        return append_each(cursor, batches, self._numbers)

    def _find_number(self, cursor: sqlite3.Cursor, session: SessionId) -> None:
        number = number_of(cursor, session)
        if number is not None:
            self._numbers[session] = number

    def _number(self, cursor: sqlite3.Cursor, session: SessionId) -> int:
        number = number_of(cursor, session)
        assert number is not None, f"session {session!r} was never claimed"
        return number

    def _has_room_to_give(self) -> bool:
        return self._run(lambda connection: surplus_pages(connection) > 0)

    @contextmanager
    def _writing(
        self, transaction: Callable[[], AbstractContextManager[sqlite3.Cursor]] | None = None
    ) -> Generator[sqlite3.Cursor]:
        """A write transaction. If it fails, nobody knows what is stored, and this log is done for."""
        self._require_usable()
        begin = transaction or self._writer.transaction
        try:
            with translated(self.store), begin() as cursor:
                yield cursor
        except StoreError as error:
            self._failure = error
            raise

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._require_usable()
        return super()._run(work)

    def _require_usable(self) -> None:
        if self._failure is not None:
            raise StoreError(
                f"the store {self.store} has failed; nothing is read or written until it is opened again: "
                f"{self._failure}"
            ) from self._failure
        if self._closed:
            raise StoreError(f"the store {self.store} is closed; open it again")


def _prepared(store: Path, lock: StoreLock, durability: Durability) -> Writer:
    """The writer of what is now a store. The caller holds *lock*."""
    if not store.exists():
        os.close(open_private(store))
    elif store.stat().st_size == 0:
        store.chmod(0o600)  # made by somebody else, to become a store now
    writer = Writer(store, lock, durability)
    try:
        prepare(writer.connection, store)
    except BaseException:
        # Here and not later: the last connection to close checkpoints, which needs the lock.
        writer.connection.close()
        raise
    return writer


def _looked_at(path: Path) -> Path:
    """The real path of what is a store, or may become one. Changes nothing."""
    store = _real(path)
    if store.exists():
        _inspected(store)
        _require_permission(store, os.R_OK | os.W_OK)
    elif not store.parent.is_dir():
        raise StoreUnreadable(
            f"there is no folder {store.parent} to make the store {store.name} in; make it first"
        )
    _require_permission(store.parent, os.W_OK | os.X_OK)
    return store


def _inspected(store: Path) -> Contents:
    """What the file is. Changes nothing."""
    if not store.is_file():
        kind = "a folder" if store.is_dir() else "no regular file"
        raise StoreUnreadable(f"{store} is {kind}, not a store; name the store's file")
    if store.stat().st_nlink > 1:
        raise StoreUnreadable(
            f"{store} has several names (hard links) and would get a log for each. Remove all but one."
        )
    with translated(store), closing(OutsideReaders(store)) as readers:
        return readers.run(lambda connection: contents(connection, store))


def _require_permission(path: Path, mode: int) -> None:
    if not os.access(path, mode):
        problem = (
            "its file system is read-only" if _is_on_read_only(path) else "this user lacks the permission"
        )
        raise StoreUnreadable(
            f"{path} cannot be written: {problem}. Allow writing, or copy the store elsewhere; "
            "to read it, nothing needs to be written."
        )


def _is_on_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _real(path: Path) -> Path:
    # One store has one name, so that its locks do not depend on how it was reached.
    return Path(os.path.realpath(path))

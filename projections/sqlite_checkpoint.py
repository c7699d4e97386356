"""Checkpoints in an SQLite file of their own."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from os import close
from pathlib import Path
from typing import Final, TypeVar

from pi_actors.core.errors import StoreUnreadable
from pi_actors.core.ids import SessionId
from pi_actors.storage.folder import open_private
from pi_actors.storage.sqlite_connections import connect
from pi_actors.storage.sqlite_errors import translated

T = TypeVar("T")

APPLICATION_ID: Final = 0x70694350
"""``piCP``, in the file's header."""

TABLE: Final = """CREATE TABLE IF NOT EXISTS checkpoints (
    name TEXT, session TEXT, saved BLOB NOT NULL, PRIMARY KEY (name, session))"""

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SQLiteCheckpoint:
    """Any number of projections and sessions in one file, also from several processes.

    The file is made when it is first needed, for its owner only. One that is damaged is kept beside
    as ``<name>.damaged``, and a new one made.

    Raises, in both methods:
        StoreUnreadable: the file is another program's, or there is no permission. It is as it was.
        StoreError: the disk is full or failing. What was saved before is still there.
    """

    blocks = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()

    def load(self, name: str, session: SessionId) -> bytes | None:
        query = "SELECT saved FROM checkpoints WHERE name=? AND session=?"
        found: tuple[bytes] | None = self._run(lambda to: to.execute(query, (name, session)).fetchone())
        return None if found is None else found[0]

    def save(self, name: str, session: SessionId, saved: bytes) -> None:
        self._run(lambda to: to.execute("REPLACE INTO checkpoints VALUES (?, ?, ?)", (name, session, saved)))

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self._path):
            try:
                return self._connected(work)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF not in _DAMAGED:
                    raise
            self._set_aside()
            return self._connected(work)

    def _connected(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._path.exists():
            close(open_private(self._path))
        with closing(connect(self._path, "mode=rw")) as connection:
            self._prepare(connection)
            return work(connection)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application == APPLICATION_ID and tables:
            return
        if application != APPLICATION_ID and (application or tables):
            raise StoreUnreadable(
                f"{self._path} is no file of checkpoints but the database of another program, or a store. "
                "Nothing was changed; choose another file."
            )
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(TABLE)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute("COMMIT")

    def _set_aside(self) -> None:
        """Move the file away, and with it what SQLite keeps beside it to repair it."""
        for suffix in ("-journal", ""):
            file = self._path.with_name(self._path.name + suffix)
            if file.exists():
                file.replace(file.with_name(f"{self._path.name}.damaged{suffix}"))

"""Reading an SQLite store: pages of rows, heads and look-ups, each a short transaction of its own."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.storage.locks import session_holder
from pi_actors.storage.log import PAGE_BYTES, PAGE_ROWS, REQUEST_KINDS, Head, RequestKind, Row, Snapshot
from pi_actors.storage.sqlite_connections import Readers
from pi_actors.storage.sqlite_errors import translated
from pi_actors.storage.sqlite_heads import HEAD_COLUMNS, head_from, head_of
from pi_actors.storage.sqlite_schema import IS_DISPLAY, MARKER
from pi_actors.storage.sqlite_snapshots import read_snapshots

T = TypeVar("T")

# Whatever a foreign hand put into the column: bytes come back, and the codec judges them.
_ROWS: Final = (
    "SELECT originator_version, topic, coalesce(CAST(state AS BLOB), x'')"
    " FROM stored_events WHERE originator_id=?"
)
_NUMBER: Final = "number=(SELECT number FROM sessions WHERE session=?)"


class SQLiteReader:
    """Reads a store that this process, another one or nobody is writing."""

    blocks = True

    def __init__(self, store: Path, readers: Readers) -> None:
        self.store = store
        self._readers = readers

    def holder(self, session: SessionId) -> str | None:
        with translated(self.store):
            return session_holder(self.store, session)

    def head(self, session: SessionId) -> Head | None:
        return self._run(lambda connection: head_of(connection.cursor(), session))

    def heads(self) -> list[Head]:
        query = f"SELECT {HEAD_COLUMNS} FROM sessions ORDER BY session"
        return self._run(lambda connection: [head_from(found) for found in connection.execute(query)])

    def size_bytes(self, session: SessionId) -> int:
        found = self._first("SELECT size_bytes FROM sessions WHERE session=?", session)
        return 0 if found is None else found[0]

    def read(
        self, session: SessionId, *, after: Position, through: Position, limit: int = PAGE_ROWS
    ) -> list[Row]:
        query = (
            f"{_ROWS} AND originator_version>? AND originator_version<=? ORDER BY originator_version LIMIT ?"
        )
        values = (session, after, through, limit)
        return self._run(lambda connection: _rows(connection, query, values))

    def read_at(self, session: SessionId, positions: Sequence[Position]) -> list[Row]:
        query = f"{_ROWS} AND originator_version=?"
        wanted = sorted(set(positions))
        return self._run(
            lambda connection: [
                row for position in wanted for row in _rows(connection, query, (session, position))
            ]
        )

    def read_display(self, session: SessionId, *, before: Position, limit: int = PAGE_ROWS) -> list[Row]:
        query = f"{_ROWS} AND originator_version<? AND {IS_DISPLAY} ORDER BY originator_version DESC LIMIT ?"
        return self._run(lambda connection: _rows(connection, query, (session, before, limit)))

    def find_request(
        self, session: SessionId, agent: ActorId, request_id: str
    ) -> tuple[Position, RequestKind] | None:
        query = f"SELECT submission, kind FROM request_ids WHERE {_NUMBER} AND agent=? AND request_id=?"
        found = self._first(query, session, agent, request_id)
        return None if found is None else (found[0], REQUEST_KINDS[found[1]])

    def find_settled(self, session: SessionId, id: Position) -> Position | None:
        found = self._first(f"SELECT position FROM settled_ids WHERE {_NUMBER} AND id=?", session, id)
        return None if found is None else found[0]

    def entries(
        self, session: SessionId, agent: ActorId, *, before: Position | None, limit: int
    ) -> list[Position]:
        query = (
            f"SELECT entry FROM agent_entries WHERE {_NUMBER} AND agent=? AND entry<?"
            " ORDER BY entry DESC LIMIT ?"
        )
        end = _NO_POSITION if before is None else before
        values = (session, agent, end, limit)
        newest_first = self._run(lambda connection: connection.execute(query, values).fetchall())
        return [entry for (entry,) in reversed(newest_first)]

    def needs_index(self, session: SessionId) -> bool:
        query = (
            "SELECT EXISTS (SELECT 1 FROM request_ids WHERE number=sessions.number AND agent=:marker)"
            " AND EXISTS (SELECT 1 FROM settled_ids WHERE number=sessions.number AND id=:marker)"
            " AND EXISTS (SELECT 1 FROM agent_entries WHERE number=sessions.number AND agent=:marker)"
            " FROM sessions WHERE session=:session"
        )
        values = {"marker": MARKER, "session": session}
        found = self._run(lambda connection: connection.execute(query, values).fetchone())
        return found is not None and not found[0]

    def snapshots(self, session: SessionId, name: str) -> list[Snapshot]:
        return self._run(lambda connection: read_snapshots(connection.cursor(), session, name))

    def close(self) -> None:
        self._readers.close()

    def _first(self, query: str, *values: int | str) -> tuple[int, str] | None:
        found: tuple[int, str] | None = self._run(
            lambda connection: connection.execute(query, values).fetchone()
        )
        return found

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self.store):
            return self._readers.run(work)


_ROWS_AT_ONCE: Final = 16
_NO_POSITION: Final = 2**63 - 1


def _rows(connection: sqlite3.Connection, query: str, values: tuple[int | str, ...]) -> list[Row]:
    try:
        return _fetched(connection.execute(query, values))
    except sqlite3.OperationalError as error:
        if "decode to UTF-8" not in str(error):
            raise
    # A damaged topic. Read it all the same: its row fails the checksum and is named by position.
    connection.text_factory = _lenient
    try:
        return _fetched(connection.execute(query, values))
    finally:
        connection.text_factory = str


def _fetched(cursor: sqlite3.Cursor) -> list[Row]:
    """The rows of *cursor*, or the first of them where they are large."""
    rows: list[Row] = []
    size = 0
    while size < PAGE_BYTES and (some := cursor.fetchmany(_ROWS_AT_ONCE)):
        rows += [Row(*columns) for columns in some]
        size += sum(len(state) for _, _, state in some)
    return rows


def _lenient(stored: bytes) -> str:
    return stored.decode(errors="replace")

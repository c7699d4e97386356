"""The tables of an SQLite store, and how one is told from any other database."""

import sqlite3
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pi_actors.core.errors import NotSupported, StoreUnreadable
from pi_actors.storage.codec import DISPLAY_START
from pi_actors.storage.log import FORMAT

APPLICATION_ID: Final = 0x70694143
"""``piAC``, in the file's header."""

SQLITE_PAGE_BYTES: Final = 4_096
"""SQLite's own default, which stores keep."""

SQLITE_VERSION_MIN: Final = (3, 35, 0)

Contents: TypeAlias = Literal["nothing", "a store"]

TABLES: Final = (
    # The recorder's own table, as eventsourcing makes it.
    """CREATE TABLE stored_events (
        originator_id TEXT, originator_version INTEGER, topic TEXT, state BLOB,
        PRIMARY KEY (originator_id, originator_version))""",
    # A number is never given to another session, so index rows cannot change hands.
    """CREATE TABLE sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL, position INTEGER NOT NULL, format INTEGER NOT NULL,
        scavenged_to INTEGER NOT NULL, live INTEGER NOT NULL, updated_us INTEGER NOT NULL,
        size_bytes INTEGER NOT NULL)""",
)

INDEX_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS request_ids (
        number INTEGER, agent INTEGER, request_id TEXT, submission INTEGER NOT NULL, kind TEXT NOT NULL,
        PRIMARY KEY (number, agent, request_id)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS settled_ids (
        number INTEGER, id INTEGER, position INTEGER NOT NULL,
        PRIMARY KEY (number, id)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS agent_entries (
        number INTEGER, agent INTEGER, entry INTEGER,
        PRIMARY KEY (number, agent, entry)) WITHOUT ROWID""",
)

SNAPSHOTS: Final = """CREATE TABLE IF NOT EXISTS snapshots (
    number INTEGER, name TEXT, position INTEGER, body BLOB NOT NULL,
    PRIMARY KEY (number, name, position))"""

_AFTER_DISPLAY: Final = DISPLAY_START[:-1] + bytes((DISPLAY_START[-1] + 1,))
IS_DISPLAY: Final = f"state>=x'{DISPLAY_START.hex()}' AND state<x'{_AFTER_DISPLAY.hex()}'"
"""Whether a row is only for display, told by its first bytes. Queries say it in these very words, so
that SQLite sees that the index has all that they ask for. Comparing costs every insert far less than
cutting the bytes out with ``substr``."""

DISPLAY_INDEX: Final = (
    "CREATE INDEX IF NOT EXISTS display_rows ON stored_events (originator_id, originator_version)"
    f" WHERE {IS_DISPLAY}"
)
"""Finds what may be scavenged without a look at the rest; rows of other kinds do not come into it."""

MARKER: Final = -1
"""An agent or id of no session's own: in each index table it marks a session as indexed."""


def contents(connection: sqlite3.Connection, store: Path) -> Contents:
    """What the open database is. Changes nothing.

    Raises:
        StoreUnreadable: somebody else's database, or a store of a newer version.
        sqlite3.Error: no database at all.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application == 0 and tables == 0:
        return "nothing"
    if application != APPLICATION_ID:
        raise StoreUnreadable(
            f"{store} is the SQLite database of another program, not a store of pi-actors. "
            "Nothing was changed; choose another file."
        )
    (written,) = connection.execute("PRAGMA user_version").fetchone()
    if written > FORMAT:
        raise StoreUnreadable(
            f"{store} was written by a newer pi-actors (store format {written}, this one knows {FORMAT}); "
            "nothing was changed. Upgrade pi-actors to open it."
        )
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type='table'")}
    if lost := {"stored_events", "sessions"} - names:
        raise StoreUnreadable(
            f"{store} has lost its table {' and '.join(sorted(lost))}; nothing was changed. "
            "Restore the store from a backup."
        )
    return "a store"


def prepare(connection: sqlite3.Connection, store: Path) -> None:
    """Make the open database a store, or make sure that it is one. The caller holds the store lock.

    Raises:
        StoreUnreadable: it is no store of this version.
        NotSupported: SQLite or the file system is not good enough.
        sqlite3.Error: it could not be written; the file is as it was, or empty.
    """
    found = contents(connection, store)
    if found == "nothing":
        # Has no effect once there is a table.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise NotSupported(
            f"SQLite cannot keep a write-ahead log for {store} (it says {mode!r}). "
            "Put the store on a local file system."
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        disposable = (*INDEX_TABLES, SNAPSHOTS, DISPLAY_INDEX)
        for statement in (*TABLES, *disposable) if found == "nothing" else disposable:
            connection.execute(statement)
        if found == "nothing":
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def require_sqlite() -> None:
    """Raise NotSupported where Python's SQLite is too old."""
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        least = ".".join(map(str, SQLITE_VERSION_MIN))
        raise NotSupported(
            f"this Python has SQLite {sqlite3.sqlite_version}; {least} or newer is needed: use another."
        )

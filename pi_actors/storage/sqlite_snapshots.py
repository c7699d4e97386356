"""Snapshots in an SQLite store: a table that anybody may empty or drop at any time."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from pi_actors.core.ids import SessionId
from pi_actors.storage.log import Snapshot
from pi_actors.storage.snapshots import SHRINK_MAX, SNAPSHOTS_KEPT, seal, usable
from pi_actors.storage.sqlite_schema import SNAPSHOTS, SQLITE_PAGE_BYTES


def read_snapshots(cursor: sqlite3.Cursor, session: SessionId, name: str) -> list[Snapshot]:
    """The session's usable snapshots of that name, newest first."""
    if not cursor.execute("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='snapshots'").fetchone():
        return []  # an old store that was not opened for writing since
    head = cursor.execute("SELECT number, position FROM sessions WHERE session=?", (session,)).fetchone()
    if head is None:
        return []
    number, through = head
    stored = cursor.execute(
        "SELECT position, CAST(body AS BLOB) FROM snapshots WHERE number=? AND name=? ORDER BY position DESC",
        (number, name),
    )
    return usable(session, name, through, stored.fetchall())


def save_snapshots(
    cursor: sqlite3.Cursor, session: SessionId, epoch: int, snapshots: Sequence[Snapshot]
) -> bool:
    """Keep *snapshots* unless the session is of another epoch, and forget what they replace."""
    head = cursor.execute(
        "SELECT number, position FROM sessions WHERE session=? AND epoch=?", (session, epoch)
    ).fetchone()
    if head is None:
        return False
    number, through = head
    cursor.execute(SNAPSHOTS)
    for snapshot in snapshots:
        name, position, body = snapshot.name, snapshot.position, seal(session, snapshot)
        cursor.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", (number, name, position, body))
        cursor.execute(_FORGET, (number, name, through, number, name, through))
        cursor.execute(_FORGET_LARGER, (number, name, position, len(body) + SHRINK_MAX))
    return True


def snapshot_pages(snapshots: Sequence[Snapshot]) -> int:
    """About how many pages of the write-ahead log *snapshots* take."""
    return len(snapshots) + sum(len(snapshot.body) for snapshot in snapshots) // SQLITE_PAGE_BYTES


_FORGET: Final = (
    "DELETE FROM snapshots WHERE number=? AND name=? AND (position>? OR position NOT IN"
    " (SELECT position FROM snapshots WHERE number=? AND name=? AND position<=?"
    f" ORDER BY position DESC LIMIT {SNAPSHOTS_KEPT}))"
)
_FORGET_LARGER: Final = "DELETE FROM snapshots WHERE number=? AND name=? AND position<? AND length(body)>?"

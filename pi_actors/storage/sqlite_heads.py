"""Head rows: a session's fence and its line in the directory of sessions."""

import sqlite3
from typing import Final

from pi_actors.core.ids import SessionId
from pi_actors.core.record import IndexRows
from pi_actors.storage.log import FORMAT, Head
from pi_actors.storage.sqlite_schema import MARKER

HEAD_COLUMNS: Final = "session, epoch, position, format, scavenged_to, live, updated_us"

MARKERS: Final = IndexRows(requests=((MARKER, "", 0, ""),), settled=((MARKER, 0),), entries=((MARKER, 0),))
"""Stand in the index tables for every session that is indexed, also where it has nothing else there."""


def make_head(cursor: sqlite3.Cursor, session: SessionId, now_us: int) -> None:
    """Make the session's head where it has none: of epoch 0, at the last position that is stored."""
    # A session whose head was deleted may have work to do; its next commit says. Where rows are missing
    # nobody can tell any more how far they were scavenged.
    cursor.execute(
        "INSERT INTO sessions (session, epoch, position, format, scavenged_to, live, updated_us, size_bytes)"
        " SELECT ?, 0, coalesce(max(originator_version), 0), ?,"
        " CASE WHEN count(*) < max(originator_version) THEN max(originator_version) ELSE 0 END,"
        " count(*) > 0, ?, coalesce(sum(length(state)), 0)"
        " FROM stored_events WHERE originator_id=?",
        (session, FORMAT, now_us, session),
    )


def number_of(cursor: sqlite3.Cursor, session: SessionId) -> int | None:
    """The number that stands for the session in the index tables."""
    found = cursor.execute("SELECT number FROM sessions WHERE session=?", (session,)).fetchone()
    return None if found is None else found[0]


def head_of(cursor: sqlite3.Cursor, session: SessionId) -> Head | None:
    """The session's head."""
    found = cursor.execute(f"SELECT {HEAD_COLUMNS} FROM sessions WHERE session=?", (session,)).fetchone()
    return None if found is None else head_from(found)


def head_from(columns: tuple[str, int, int, int, int, int, int]) -> Head:
    """A row of HEAD_COLUMNS as a head."""
    session, epoch, position, written, scavenged_to, live, updated_us = columns
    return Head(
        session=session,
        epoch=epoch,
        position=position,
        format=written,
        scavenged_to=scavenged_to,
        live=bool(live),
        updated_us=updated_us,
    )

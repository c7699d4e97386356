"""Deleting rows that are only for display, and giving the room they leave back to the file system.

A page that became empty is used again by whatever is stored next. So a file stops growing as soon as
rows go as fast as they come, and only what stays empty is worth giving back: SQLite then moves pages
from the end of the file into the gaps and cuts the file. A store that was made without
``auto_vacuum`` cannot do that; its room is used again, and that is all.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from pi_actors.core.ids import Position, SessionId
from pi_actors.storage.sqlite_schema import IS_DISPLAY

ROWS_A_PAGE: Final = 8
"""About how many rows stand on a page, with what the indexes say of them."""

STEP_PAGES: Final = 64
"""How many pages one step gives back."""

SPARE_PAGES: Final = 1_024
"""While the store is open this much stays free for what comes next, or a quarter of the file."""

SPARE_PAGES_CLOSED: Final = 16
"""What a closed store keeps, or a fiftieth of the file: less is not worth writing for."""

CLOSING_PAGES_MAX: Final = 16_384
"""A closing gives back no more, so that it does not take long; the next one goes on."""

_INCREMENTAL: Final = 2


def scavenge(
    cursor: sqlite3.Cursor,
    session: SessionId,
    *,
    epoch: int,
    positions: Sequence[Position],
    through: Position,
) -> bool:
    """Delete those rows at *positions* that are only for display; False where the epoch is another.

    Raises sqlite3.Error.
    """
    marks = ",".join("?" * len(positions))
    rows = f"FROM stored_events WHERE originator_id=? AND originator_version IN ({marks}) AND {IS_DISPLAY}"
    (size,) = cursor.execute(
        f"SELECT coalesce(sum(length(state)), 0) {rows}", (session, *positions)
    ).fetchone()
    cursor.execute(
        "UPDATE sessions SET scavenged_to=max(scavenged_to, ?), size_bytes=max(0, size_bytes-?)"
        " WHERE session=? AND epoch=?",
        (through, size, session, epoch),
    )
    if cursor.rowcount == 0:
        return False
    cursor.execute(f"DELETE {rows}", (session, *positions))
    return True


def surplus_pages(connection: sqlite3.Connection) -> int:
    """How many pages an open store can give back; it keeps some. Raises sqlite3.Error."""
    return _surplus(connection, spare=SPARE_PAGES, share=4)


def give_back(cursor: sqlite3.Cursor) -> int:
    """Give back a step's pages and return how many, in the running transaction. Raises sqlite3.Error."""
    return _give_back(cursor.connection, surplus_pages(cursor.connection))


def give_back_at_close(connection: sqlite3.Connection) -> None:
    """Give back what a closed store has no use for, in transactions of a step each. Raises sqlite3.Error."""
    surplus = min(_surplus(connection, spare=SPARE_PAGES_CLOSED, share=50), CLOSING_PAGES_MAX)
    while surplus > 0:
        connection.execute("BEGIN IMMEDIATE")
        surplus -= _give_back(connection, surplus)
        connection.execute("COMMIT")


def _surplus(connection: sqlite3.Connection, *, spare: int, share: int) -> int:
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    kept = max(spare, pages // share)
    return free if mode == _INCREMENTAL and free > kept else 0


def _give_back(connection: sqlite3.Connection, surplus: int) -> int:
    pages = min(surplus, STEP_PAGES)
    for _ in range(pages):
        # Python takes one step of a statement without columns, and a step gives back one page.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return pages

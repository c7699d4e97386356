"""How a group of batches gets into the tables within one transaction.

Nearly always all batches fit, so they are first written as one: a few statements for the whole
group, however many batches it has. (Each statement hands the interpreter's lock to another thread
and has to win it back, which under load takes far longer than the statement.) If anything does
not fit, that is undone and each batch is tried by itself, in a savepoint of its own.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from pi_actors.core.errors import Fenced
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import IndexRows
from pi_actors.storage.fence import conflicting, fenced, last_position
from pi_actors.storage.log import Batch
from pi_actors.storage.sqlite_errors import is_conflict
from pi_actors.storage.sqlite_heads import head_of
from pi_actors.storage.sqlite_schema import SQLITE_PAGE_BYTES

Value: TypeAlias = int | str | bytes


class Step(msgspec.Struct, gc=False):
    """How far one session's head moves: by one batch, or by several that follow each other."""

    number: int
    epoch: int
    after: Position
    last: Position
    live: bool = False
    updated_us: int = 0
    added_bytes: int = 0


def append_all(cursor: sqlite3.Cursor, batches: Sequence[Batch], numbers: dict[SessionId, int]) -> bool:
    """Write all batches, or return False where they do not all fit: then roll back.

    ``numbers``: of the sessions. Raises sqlite3.Error for what is no conflict.
    """
    steps = _steps(batches, numbers)
    if steps is None:
        return False
    try:
        moves = [value for step in steps for value in msgspec.structs.astuple(step)]
        if _many(cursor, _MOVE_HEADS, moves) < len(steps):
            return False
        _insert(cursor, batches, numbers)
    except sqlite3.IntegrityError as error:
        if is_conflict(error):
            return False
        raise
    return True


def append_each(
    cursor: sqlite3.Cursor, batches: Sequence[Batch], numbers: dict[SessionId, int]
) -> list[Fenced | None]:
    """Write each batch that fits and say of every other one why it does not.

    Raises sqlite3.Error for what is no conflict.
    """
    return [_append_one(cursor, batch, numbers) for batch in batches]


def insert_index(cursor: sqlite3.Cursor, number: int, rows: IndexRows) -> None:
    """Add a session's index rows. Raises sqlite3.IntegrityError where one is there already."""
    _insert_index(cursor, [(number, rows)])


def pages_of(batches: Sequence[Batch]) -> int:
    """About how many pages of the write-ahead log the batches take, beyond those of any transaction."""
    # A session has a place of its own in the key of each table; its batches share the pages there.
    places = 2 * len({batch.session for batch in batches})
    stored = sum(len(row.state) for batch in batches for row in batch.rows)
    return places + 2 * stored // SQLITE_PAGE_BYTES


def _append_one(cursor: sqlite3.Cursor, batch: Batch, numbers: dict[SessionId, int]) -> Fenced | None:
    cursor.execute("SAVEPOINT batch")
    if append_all(cursor, [batch], numbers):
        cursor.execute("RELEASE batch")
        return None
    cursor.execute("ROLLBACK TO batch")
    cursor.execute("RELEASE batch")
    head = head_of(cursor, batch.session)
    if head is None or (head.epoch, head.position) != (batch.epoch, batch.after):
        return fenced(batch, head)
    return conflicting(batch, "a row or an index row")


def _steps(batches: Sequence[Batch], numbers: dict[SessionId, int]) -> list[Step] | None:
    """One step a session; None where a session is unknown or its batches do not follow each other."""
    steps: dict[int, Step] = {}
    for batch in batches:
        number = numbers.get(batch.session)
        if number is None:
            return None
        step = steps.get(number)
        if step is None:
            step = steps[number] = Step(number, batch.epoch, batch.after, batch.after)
        elif (step.epoch, step.last) != (batch.epoch, batch.after):
            return None
        step.last, step.live, step.updated_us = last_position(batch), batch.live, batch.at_us
        for row in batch.rows:
            step.added_bytes += len(row.state)
    return list(steps.values())


def _insert(cursor: sqlite3.Cursor, batches: Sequence[Batch], numbers: dict[SessionId, int]) -> None:
    rows: list[Value] = [
        value
        for batch in batches
        for row in batch.rows
        for value in (batch.session, row.position, row.topic, row.state)
    ]
    _many(cursor, _INSERT_ROWS, rows)
    _insert_index(cursor, [(numbers[batch.session], batch.index) for batch in batches])


def _insert_index(cursor: sqlite3.Cursor, rows: Sequence[tuple[int, IndexRows]]) -> None:
    requests: list[Value] = []
    settled: list[Value] = []
    entries: list[Value] = []
    for number, added in rows:
        for request in added.requests:
            requests += (number, *request)
        for settlement in added.settled:
            settled += (number, *settlement)
        for entry in added.entries:
            entries += (number, *entry)
    _many(cursor, _INSERT_REQUESTS, requests)
    _many(cursor, _INSERT_SETTLED, settled)
    _many(cursor, _INSERT_ENTRIES, entries)


class _Bulk:
    """A statement for many rows at once: its text for each number of rows that is used."""

    def __init__(self, before: str, width: int, after: str = "") -> None:
        self.width = width
        row = f"({','.join('?' * width)})"
        self.texts = [(size, f"{before} VALUES {','.join([row] * size)}{after}") for size in _SIZES]


def _many(cursor: sqlite3.Cursor, bulk: _Bulk, values: Sequence[Value]) -> int:
    """Run the statement for all rows in *values*, laid end to end; return how many rows it changed."""
    changed = done = 0
    width = bulk.width
    for size, text in bulk.texts:
        while len(values) - done >= size * width:
            cursor.execute(text, values[done : done + size * width])
            changed += cursor.rowcount
            done += size * width
    return changed


# Few sizes, so that few texts are prepared and kept; the largest stays below 999 parameters.
_SIZES: Final = (128, 64, 32, 16, 8, 4, 2, 1)

_MOVE_HEADS: Final = _Bulk(
    "UPDATE sessions SET position=step.column4, live=step.column5, updated_us=step.column6,"
    " size_bytes=size_bytes+step.column7 FROM (",
    7,
    ") AS step WHERE sessions.number=step.column1 AND sessions.epoch=step.column2"
    " AND sessions.position=step.column3",
)
# OR FAIL leaves the rows before a conflict in place, and so need not keep a copy of every page that
# the statement changes; whoever meets a conflict undoes the transaction or the savepoint.
_INSERT_ROWS: Final = _Bulk("INSERT OR FAIL INTO stored_events", 4)
_INSERT_REQUESTS: Final = _Bulk("INSERT OR FAIL INTO request_ids", 5)
_INSERT_SETTLED: Final = _Bulk("INSERT OR FAIL INTO settled_ids", 3)
_INSERT_ENTRIES: Final = _Bulk("INSERT OR FAIL INTO agent_entries", 3)

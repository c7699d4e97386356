"""The floor: the least that a program written by hand on sqlite3 and msgspec needs to commit.

One writer thread, and everything that is queued goes into one transaction. It makes the same rows
durable as we do: the events under the same primary key, the head of each session, and the index that
lists each agent's entries. The bare one stores the events alone. It knows no actors, no fence, no
checksums and no transcript.
"""

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final, TypeAlias

import trio

Row: TypeAlias = tuple[str, int, str, bytes]
"""Session, position, topic, and the packed rest."""


ENTRY: Final = "EntryAppended"
"""The last event of a commit here, and the one that the index of entries lists."""


class FloorLog:
    """A log for one process. ``run`` must be running for ``commit`` to return."""

    def __init__(self, connection: sqlite3.Connection, *, bare: bool) -> None:
        self.transactions = 0
        self._bare = bare
        self._connection = connection
        self._queue: list[tuple[int, Sequence[Row], trio.Event]] = []
        self._wake = trio.Event()
        self._limiter = trio.CapacityLimiter(1)

    async def commit(self, rows: Sequence[Row], *, agent: int = 1) -> None:
        """Return once *rows*, events of *agent*, are durable."""
        stored = trio.Event()
        self._queue.append((agent, rows, stored))
        self._wake.set()
        await stored.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            taken, self._queue = self._queue, []
            commits = [(agent, rows) for agent, rows, _ in taken]
            await trio.to_thread.run_sync(self._write, commits, limiter=self._limiter)
            for _, _, stored in taken:
                stored.set()

    def read(self) -> list[Row]:
        """All rows, by session and position. Blocks."""
        query = "SELECT session, position, topic, state FROM events ORDER BY session, position"
        return self._connection.execute(query).fetchall()

    def _write(self, commits: Sequence[tuple[int, Sequence[Row]]]) -> None:
        rows = [row for _, commit in commits for row in commit]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
        if not self._bare:
            last = [(row[1], row[0]) for row in rows if row[2] == ENTRY]
            self._connection.executemany("UPDATE heads SET position = ? WHERE session = ?", last)
            entries = [
                (row[0], agent, row[1]) for agent, commit in commits for row in commit if row[2] == ENTRY
            ]
            self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", entries)
        self._connection.execute("COMMIT")
        self.transactions += 1


@asynccontextmanager
async def open_floor(
    path: Path, sessions: Sequence[str] = (), *, bare: bool = False
) -> AsyncGenerator[FloorLog]:
    """A floor with its writer running for the time of the body, and heads for *sessions*."""
    with closing(connected(path)) as connection:
        connection.executemany("INSERT INTO heads VALUES (?, 0)", [(session,) for session in sessions])
        async with trio.open_nursery() as nursery:
            log = FloorLog(connection, bare=bare)
            nursery.start_soon(log.run)
            yield log
            nursery.cancel_scope.cancel()


def connected(path: Path) -> sqlite3.Connection:
    """A connection to the floor's table, made where it is missing."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=1"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS events (session TEXT, position INTEGER, topic TEXT, state BLOB,"
        " PRIMARY KEY (session, position))"
    )
    connection.execute("CREATE TABLE IF NOT EXISTS heads (session TEXT PRIMARY KEY, position INTEGER)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS entries (session TEXT, agent INTEGER, position INTEGER,"
        " PRIMARY KEY (session, agent, position)) WITHOUT ROWID"
    )
    return connection

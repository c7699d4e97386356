"""A log that lives as long as the process, on eventsourcing's in-memory recorder."""

import threading
from bisect import bisect_left
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Final

from eventsourcing.persistence import IntegrityError, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder
from msgspec.structs import replace

from pi_actors.core.errors import Fenced, StoreError
from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.core.record import IndexRows
from pi_actors.storage.codec import DISPLAY_START
from pi_actors.storage.fence import conflicting, fenced, last_position, scavenger_fenced
from pi_actors.storage.folder import require_session_id
from pi_actors.storage.locks import in_use, this_process
from pi_actors.storage.log import FORMAT, PAGE_ROWS, REQUEST_KINDS, Batch, Head, RequestKind, Row, Snapshot
from pi_actors.storage.snapshots import SHRINK_MAX, SNAPSHOTS_KEPT, seal, usable

NAME: Final = "the store in memory"


class MemoryLog:
    """The log of one process; nothing of it outlives it."""

    blocks = False

    def __init__(self) -> None:
        self.recorder = PositionedRecorder()
        self.transactions = 0
        self._guard = threading.RLock()
        self._sessions: dict[SessionId, _Session] = {}
        self._held: dict[SessionId, str] = {}
        self._closed = False

    def acquire(self, session: SessionId) -> "_Held":
        require_session_id(session)
        with self._opened():
            if holder := self._held.get(session):
                raise in_use(session, NAME, holder)
            self._held[session] = this_process().words
            return _Held(self._held, session)

    def holder(self, session: SessionId) -> str | None:
        with self._opened():
            return self._held.get(session)

    def spill_folder(self, session: SessionId) -> Path | None:
        require_session_id(session)
        return None

    def claim(self, session: SessionId, *, now_us: int) -> Head:
        require_session_id(session)
        with self._opened():
            found = self._sessions.get(session)
            if found is None:
                found = self._sessions[session] = _Session(_first_head(session, now_us))
            found.head = replace(found.head, epoch=found.head.epoch + 1)
            self.transactions += 1
            return found.head

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        with self._opened():
            self.transactions += 1
            return [self._append(batch) for batch in batches]

    def _append(self, batch: Batch) -> Fenced | None:
        last = last_position(batch)
        found = self._sessions.get(batch.session)
        if found is None or (found.head.epoch, found.head.position) != (batch.epoch, batch.after):
            return fenced(batch, found.head if found else None)
        if problem := found.conflict(batch.index):
            return conflicting(batch, problem)
        try:
            self.recorder.insert_events([_stored(batch.session, row) for row in batch.rows])
        except IntegrityError as error:
            return conflicting(batch, str(error))
        found.head = replace(found.head, position=last, live=batch.live, updated_us=batch.at_us)
        found.store(batch.rows)
        found.index(batch.index)
        return None

    def scavenge(
        self, session: SessionId, *, epoch: int, positions: Sequence[Position], through: Position
    ) -> Fenced | None:
        with self._opened():
            found = self._sessions.get(session)
            if found is None or found.head.epoch != epoch:
                return scavenger_fenced(session, epoch, found.head if found else None)
            for position in found.display.intersection(positions):
                found.size_bytes -= self.recorder.forget(session, position)
                found.display.discard(position)
            found.head = replace(found.head, scavenged_to=max(found.head.scavenged_to, through))
            return None

    def give_back(self) -> bool:
        with self._opened():
            return False

    def head(self, session: SessionId) -> Head | None:
        with self._opened():
            found = self._sessions.get(session)
            return found.head if found else None

    def heads(self) -> list[Head]:
        with self._opened():
            return [self._sessions[session].head for session in sorted(self._sessions)]

    def size_bytes(self, session: SessionId) -> int:
        with self._opened():
            found = self._sessions.get(session)
            return found.size_bytes if found else 0

    def read(
        self, session: SessionId, *, after: Position, through: Position, limit: int = PAGE_ROWS
    ) -> list[Row]:
        with self._opened():
            head = self.head(session)
            end = min(through, head.position) if head else 0
            rows = (self.recorder.row_at(session, position) for position in range(after + 1, end + 1))
            return list(islice(filter(None, rows), limit))

    def read_at(self, session: SessionId, positions: Sequence[Position]) -> list[Row]:
        with self._opened():
            rows = (self.recorder.row_at(session, position) for position in sorted(set(positions)))
            return list(filter(None, rows))

    def read_display(self, session: SessionId, *, before: Position, limit: int = PAGE_ROWS) -> list[Row]:
        with self._opened():
            found = self._sessions.get(session)
            display = found.display if found else ()
            positions = nlargest(limit, (position for position in display if position < before))
            return list(filter(None, (self.recorder.row_at(session, position) for position in positions)))

    def find_request(
        self, session: SessionId, agent: ActorId, request_id: str
    ) -> tuple[Position, RequestKind] | None:
        with self._opened():
            found = self._sessions.get(session)
            return found.requests.get((agent, request_id)) if found else None

    def find_settled(self, session: SessionId, id: Position) -> Position | None:
        with self._opened():
            found = self._sessions.get(session)
            return found.settled.get(id) if found else None

    def entries(
        self, session: SessionId, agent: ActorId, *, before: Position | None, limit: int
    ) -> list[Position]:
        with self._opened():
            found = self._sessions.get(session)
            entries = found.entries.get(agent, []) if found else []
            end = len(entries) if before is None else bisect_left(entries, before)
            return entries[max(0, end - limit) : end]

    def needs_index(self, session: SessionId) -> bool:
        with self._opened():
            return False

    def rebuild_index(self, session: SessionId, rows: IndexRows) -> None:
        with self._opened():
            found = self._sessions[session]
            found.requests, found.settled, found.entries = {}, {}, {}
            found.index(rows)
            self.transactions += 1

    def snapshots(self, session: SessionId, name: str) -> list[Snapshot]:
        with self._opened():
            found = self._sessions.get(session)
            if found is None:
                return []
            return usable(session, name, found.head.position, reversed(found.snapshots.get(name, [])))

    def save_snapshot(self, session: SessionId, epoch: int, *snapshots: Snapshot) -> bool:
        with self._opened():
            found = self._sessions.get(session)
            if found is None or found.head.epoch != epoch:
                return False
            for snapshot in snapshots:
                found.keep(session, snapshot)
            return True

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def _opened(self) -> Generator[None]:
        with self._guard:
            if self._closed:
                raise StoreError(f"{NAME} is closed; what was in it is gone")
            yield


def _stored(session: SessionId, row: Row) -> StoredEvent:
    return StoredEvent(session, row.position, row.topic, row.state)


class PositionedRecorder(POPOApplicationRecorder):
    """eventsourcing's recorder, read by position instead of by walking the stream."""

    def row_at(self, session: SessionId, position: Position) -> Row | None:
        """The row at *position*, or None."""
        stream = self._stored_events_index.get(session)
        place = None if stream is None else stream.get(position)
        if place is None:
            return None
        stored = self._stored_events[place]
        return Row(stored.originator_version, stored.topic, stored.state)

    def forget(self, session: SessionId, position: Position) -> int:
        """Drop the row at *position* and return how many bytes it held.

        Its place stays, without content, as the library counts places.
        """
        place = self._stored_events_index[session].pop(position)
        stored = self._stored_events[place]
        self._stored_events[place] = StoredEvent(session, position, stored.topic, b"")
        return len(stored.state)


class _Session:
    """A session's head and what its commits have added to the index.

    ``display``: the positions of the rows that are only for display.
    """

    def __init__(self, head: Head) -> None:
        self.head = head
        self.size_bytes = 0
        self.display: set[Position] = set()
        self.requests: dict[tuple[ActorId, str], tuple[Position, RequestKind]] = {}
        self.settled: dict[Position, Position] = {}
        self.entries: dict[ActorId, list[Position]] = {}
        self.snapshots: dict[str, list[tuple[Position, bytes]]] = {}

    def keep(self, session: SessionId, snapshot: Snapshot) -> None:
        """Keep the snapshot, sealed as in any other store, and the one before it."""
        body, position = seal(session, snapshot), snapshot.position
        kept = {**dict(self.snapshots.get(snapshot.name, [])), position: body}
        within = sorted(item for item in kept.items() if item[0] <= self.head.position)
        self.snapshots[snapshot.name] = [
            item
            for item in within[-SNAPSHOTS_KEPT:]
            if item[0] >= position or len(item[1]) <= len(body) + SHRINK_MAX
        ]

    def conflict(self, rows: IndexRows) -> str | None:
        for agent, request_id, _, _ in rows.requests:
            if (agent, request_id) in self.requests:
                return f"request id {request_id!r} of agent {agent}"
        for id, _ in rows.settled:
            if id in self.settled:
                return f"what settled {id}"
        return None

    def store(self, rows: Sequence[Row]) -> None:
        self.size_bytes += sum(len(row.state) for row in rows)
        self.display.update(row.position for row in rows if row.state.startswith(DISPLAY_START))

    def index(self, rows: IndexRows) -> None:
        for agent, request_id, submission, kind in rows.requests:
            self.requests[agent, request_id] = (submission, REQUEST_KINDS[kind])
        self.settled.update(rows.settled)
        for agent, entry in rows.entries:
            self.entries.setdefault(agent, []).append(entry)


class _Held:
    """Ownership of a session, until closed."""

    def __init__(self, held: dict[SessionId, str], session: SessionId) -> None:
        self._held: dict[SessionId, str] | None = held
        self._session = session

    def close(self) -> None:
        if self._held is not None:
            del self._held[self._session]
            self._held = None


def _first_head(session: SessionId, now_us: int) -> Head:
    return Head(
        session=session, epoch=0, position=0, format=FORMAT, scavenged_to=0, live=False, updated_us=now_us
    )

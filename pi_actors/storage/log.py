"""What the runtime asks of an event log, whichever recorder keeps it.

Rows are only ever added, but for those that are only for display: they may be scavenged.

Every method may be called from any worker thread, several at once; ``append`` and ``claim`` are
called by one thread at a time within a process.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from pi_actors.core.errors import Fenced
from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.core.record import IndexRows

FORMAT: Final = 1
"""The major format of the rows, heads and tables that this version writes."""

PAGE_ROWS: Final = 2_000
"""How many rows one short read transaction returns at most."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""It returns no more rows once they take this much, so that a reader's memory is bounded, too."""

RequestKind: TypeAlias = Literal["input", "write", "agent", "compaction"]
REQUEST_KINDS: Final[dict[str, RequestKind]] = {
    "input": "input",
    "write": "write",
    "agent": "agent",
    "compaction": "compaction",
}


class Row(msgspec.Struct, frozen=True, gc=False):
    """One event as stored: its position, its topic and the packed rest."""

    position: Position
    topic: str
    state: bytes


class Snapshot(NamedTuple):
    """What the fold *name* had come to at ``position``, as bytes of its own making.

    It is disposable: deleting it loses nothing, and whoever reads it must be able to do without.
    """

    name: str
    position: Position
    body: bytes


class Batch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One commit of one session: stored wholly or not at all.

    ``epoch`` and ``after`` are what the session's head must still say. ``live``: after this commit
    the session has work to do by itself.
    """

    session: SessionId
    epoch: int
    after: Position
    rows: Sequence[Row]
    index: IndexRows
    live: bool
    at_us: int


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A session's head row: its fence and its line in the directory of sessions.

    ``scavenged_to``: below it rows that are only for display may be gone. A fold of what is left has
    the exact state at every commit's end from there on.
    """

    session: SessionId
    epoch: int
    position: Position
    format: int
    scavenged_to: Position
    live: bool
    updated_us: int


class Held(Protocol):
    """Ownership of a session, proven by the operating system until closed or the process dies."""

    def close(self) -> None: ...


class LogReader(Protocol):
    """Reads sessions, also those that somebody else is writing. Owns and changes nothing.

    Raises, in every method:
        StoreError: the store failed or is closed. StoreUnreadable says what is missing.
    """

    @property
    def blocks(self) -> bool:
        """Whether its methods may wait for a disk, so that an event loop calls them in threads."""
        ...

    def holder(self, session: SessionId) -> str | None:
        """Who holds the session, in words; None: nobody, or nobody whom this user may see. Takes nothing."""
        ...

    def head(self, session: SessionId) -> Head | None: ...

    def heads(self) -> list[Head]:
        """The heads of all sessions, by name."""
        ...

    def size_bytes(self, session: SessionId) -> int:
        """How many bytes the session's rows hold now."""
        ...

    def read(
        self, session: SessionId, *, after: Position, through: Position, limit: int = PAGE_ROWS
    ) -> list[Row]:
        """The next rows after *after* up to and including *through*, in order.

        There are at most *limit* of them, and fewer where they are large; none only where none is left.
        """
        ...

    def read_at(self, session: SessionId, positions: Sequence[Position]) -> list[Row]:
        """The rows at these positions, in ascending order; missing ones are left out."""
        ...

    def read_display(self, session: SessionId, *, before: Position, limit: int = PAGE_ROWS) -> list[Row]:
        """The newest *limit* rows before *before* that are only for display, newest first.

        It costs what it returns, however long the log is. There are fewer of them where they are large.
        """
        ...

    def find_request(
        self, session: SessionId, agent: ActorId, request_id: str
    ) -> tuple[Position, RequestKind] | None:
        """What used the request id within *agent* (0: the session): a submission, an agent, a compaction."""
        ...

    def find_settled(self, session: SessionId, id: Position) -> Position | None:
        """The position of the event that settled the submission or ended the actor *id*."""
        ...

    def entries(
        self, session: SessionId, agent: ActorId, *, before: Position | None, limit: int
    ) -> list[Position]:
        """The newest *limit* entries of *agent* before *before* (None: the end), in ascending order."""
        ...

    def needs_index(self, session: SessionId) -> bool:
        """Whether the index tables lack this session, because somebody deleted them."""
        ...

    def snapshots(self, session: SessionId, name: str) -> list[Snapshot]:
        """The snapshots of that name, newest first, without damaged ones and such beyond the head."""
        ...

    def close(self) -> None: ...


class Log(LogReader, Protocol):
    """An append-only store of sessions with heads, a fence and index tables."""

    @property
    def transactions(self) -> int:
        """How many write transactions this log has committed since it was opened.

        Those of ``save_snapshot``, ``scavenge`` and ``give_back`` are not counted: they wait for no disk.
        """
        ...

    def acquire(self, session: SessionId) -> Held:
        """Take the session's lock.

        Raises:
            SessionInUse: somebody holds it; the message names the holder. Nothing was changed.
            NotSupported: locks do not exclude here.
            InvalidValue: the name is not 1 to 200 printable characters.
        """
        ...

    def spill_folder(self, session: SessionId) -> Path | None:
        """Where the session's spilled tool output belongs; None where the store keeps no files.

        The folder need not exist yet; who makes it gives it mode 0700.
        """
        ...

    def claim(self, session: SessionId, *, now_us: int) -> Head:
        """Raise the session's epoch, making its head row if there is none, and return the head.

        Raises:
            LogTooNew: the session is of a newer major format.
        """
        ...

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        """Store every batch in one transaction; return, for each, None or why it was refused.

        A fenced batch changes nothing and never fails its neighbours. Returned means durable.
        Batches of one session are applied in the given order.

        Raises:
            StoreError: the transaction failed; nothing of it is stored, or nobody knows.
        """
        ...

    def scavenge(
        self, session: SessionId, *, epoch: int, positions: Sequence[Position], through: Position
    ) -> Fenced | None:
        """Delete the session's rows at *positions* and raise its ``scavenged_to`` to *through*.

        Both happen in one transaction, or nothing where the head is of another epoch, which is
        returned. Rows that are not only for display stay; a ``scavenged_to`` that is higher stays, too.
        *through*: the end of a commit from which on no state depends on these rows.

        It may be lost by a power cut, together with all that was written after it, and is then to be
        done again; what was acknowledged before is never lost by it.

        Raises:
            StoreError: as ``append``.
        """
        ...

    def give_back(self) -> bool:
        """Give some of the room that deleted rows have left back to the file system, a small step.

        Returns whether it did, so that there may be more. What is about to be used again stays. It is
        safe and may be lost as ``scavenge`` is. Closing the log gives back nearly all.

        Raises:
            StoreError: as ``append``.
        """
        ...

    def rebuild_index(self, session: SessionId, rows: IndexRows) -> None:
        """Replace the session's index rows. The caller owns the session."""
        ...

    def save_snapshot(self, session: SessionId, epoch: int, *snapshots: Snapshot) -> bool:
        """Keep *snapshots*, and of each name only the newest two; False where the session is lost.

        The older one goes, too, where it is far larger than the newest.

        They cover acknowledged commits only. Nothing is changed by a writer whose epoch is over.
        This waits for no disk: a power cut may lose the snapshots, but never a commit before them.
        Called while nothing is appended.
        """
        ...

"""A log that crashes before or after its n-th commit, and a sweep over every n.

A crash in the process stands for the end of the process: the commit in flight is not acknowledged,
nothing more is read or written, and the session fails. What was stored is in the log below, which
is opened again. With another *crash*, such as ``kill_this_process``, the end is a real one.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, cast

from pi_actors.core.errors import Fenced, SessionFailed, StoreError
from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.core.record import IndexRows
from pi_actors.session import Store, open_store
from pi_actors.storage.log import PAGE_ROWS, Batch, Head, Held, Log, RequestKind, Row, Snapshot
from pi_actors.storage.memory import MemoryLog

Side: TypeAlias = Literal["before", "after"]
SIDES: Final[tuple[Side, ...]] = ("before", "after")


class Crash(StoreError):
    """Stands for the end of the process: the store cannot be reached any more."""


class CrashPoint(NamedTuple):
    """Before or after commit number ``commit`` (from 1) of one opening of the log."""

    commit: int
    side: Side

    def __str__(self) -> str:
        return f"{self.side} commit {self.commit}"


def crash_here(point: CrashPoint) -> NoReturn:
    """End the process in appearance: raise Crash."""
    raise Crash(f"crashed {point}; open the log below again")


def kill_this_process(_: CrashPoint) -> NoReturn:
    """End the process in fact, as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process survived SIGKILL")


class CrashingLog:
    """*log*, until it crashes at *point* (None: never). Commits of one transaction count singly.

    Closing it leaves the log below open. ``crashed``: the point was met.
    """

    def __init__(
        self, log: Log, point: CrashPoint | None, *, crash: Callable[[CrashPoint], NoReturn] = crash_here
    ) -> None:
        self.log = log
        self.point = point
        self.commits = 0
        self.crashed = False
        self._crash = crash

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        self._require_running()
        first, self.commits = self.commits + 1, self.commits + len(batches)
        if self.point is None or not first <= self.point.commit <= self.commits:
            return self.log.append(batches)
        stored = self.point.commit - first + (self.point.side == "after")
        if stored:
            self.log.append(batches[:stored])
        self.crashed = True
        return self._crash(self.point)

    def crash_now(self) -> None:
        """Crash between two commits: from now on nothing is stored or read."""
        self.point = CrashPoint(self.commits, "after")
        self.crashed = True

    def _require_running(self) -> None:
        if self.crashed:
            assert self.point is not None, "a log without a point has crashed"
            crash_here(self.point)

    # Everything else is the log below.

    @property
    def blocks(self) -> bool:
        return self.log.blocks

    @property
    def transactions(self) -> int:
        return self.log.transactions

    def acquire(self, session: SessionId) -> Held:
        self._require_running()
        return self.log.acquire(session)

    def spill_folder(self, session: SessionId) -> Path | None:
        return self.log.spill_folder(session)

    def claim(self, session: SessionId, *, now_us: int) -> Head:
        self._require_running()
        return self.log.claim(session, now_us=now_us)

    def scavenge(
        self, session: SessionId, *, epoch: int, positions: Sequence[Position], through: Position
    ) -> Fenced | None:
        self._require_running()
        return self.log.scavenge(session, epoch=epoch, positions=positions, through=through)

    def give_back(self) -> bool:
        self._require_running()
        return self.log.give_back()

    def rebuild_index(self, session: SessionId, rows: IndexRows) -> None:
        self._require_running()
        self.log.rebuild_index(session, rows)

    def holder(self, session: SessionId) -> str | None:
        return self.log.holder(session)

    def head(self, session: SessionId) -> Head | None:
        self._require_running()
        return self.log.head(session)

    def heads(self) -> list[Head]:
        self._require_running()
        return self.log.heads()

    def size_bytes(self, session: SessionId) -> int:
        self._require_running()
        return self.log.size_bytes(session)

    def read(
        self, session: SessionId, *, after: Position, through: Position, limit: int = PAGE_ROWS
    ) -> list[Row]:
        self._require_running()
        return self.log.read(session, after=after, through=through, limit=limit)

    def read_at(self, session: SessionId, positions: Sequence[Position]) -> list[Row]:
        self._require_running()
        return self.log.read_at(session, positions)

    def read_display(self, session: SessionId, *, before: Position, limit: int = PAGE_ROWS) -> list[Row]:
        self._require_running()
        return self.log.read_display(session, before=before, limit=limit)

    def find_request(
        self, session: SessionId, agent: ActorId, request_id: str
    ) -> tuple[Position, RequestKind] | None:
        self._require_running()
        return self.log.find_request(session, agent, request_id)

    def find_settled(self, session: SessionId, id: Position) -> Position | None:
        self._require_running()
        return self.log.find_settled(session, id)

    def entries(
        self, session: SessionId, agent: ActorId, *, before: Position | None, limit: int
    ) -> list[Position]:
        self._require_running()
        return self.log.entries(session, agent, before=before, limit=limit)

    def needs_index(self, session: SessionId) -> bool:
        self._require_running()
        return self.log.needs_index(session)

    def snapshots(self, session: SessionId, name: str) -> list[Snapshot]:
        self._require_running()
        return self.log.snapshots(session, name)

    def save_snapshot(self, session: SessionId, epoch: int, *snapshots: Snapshot) -> bool:
        self._require_running()
        return self.log.save_snapshot(session, epoch, *snapshots)

    def close(self) -> None:
        """Leave the log below as it is."""


Scenario: TypeAlias = Callable[[Store], Awaitable[None]]
"""Opens sessions in the store and works in them. Run again after a crash, it must go on."""

Check: TypeAlias = Callable[[Log, CrashPoint | None], None]
"""Raises where the log, after the crash and the run that followed it, breaks a promise."""


async def run_until_crash(scenario: Scenario, log: Log, point: CrashPoint | None) -> bool:
    """Run *scenario* on *log* and return whether it crashed at *point*.

    Raises:
        SessionFailed: the store failed for another reason. What else *scenario* raises, too.
    """
    crashing = CrashingLog(log, point)
    try:
        async with open_store(crashing) as store:
            await scenario(store)
    except (SessionFailed, Crash, ExceptionGroup) as error:
        if not crashing.crashed or _means_more(error):
            raise
    return crashing.crashed


def _means_more(error: Exception) -> bool:
    """Whether *error* tells of anything but the crash: groups come from nurseries."""
    if not isinstance(error, ExceptionGroup):
        return False
    group = cast("ExceptionGroup[Exception]", error)
    return group.split((SessionFailed, Crash))[1] is not None


async def crash_sweep(
    scenario: Scenario, check: Check, *, make_log: Callable[[], Log] = MemoryLog, recoveries: int = 1
) -> int:
    """Crash *scenario* before and after its 1st, 2nd, … commit, until a run meets no crash.

    Each time the log is opened again and *scenario* run again, *recoveries* - 1 times with a crash
    at the same point once more, at last without, and then *check* is called. Returns how many
    commits the run without a crash took.
    """
    commit = 0
    while True:
        commit += 1
        for side in SIDES:
            point = CrashPoint(commit, side)
            log = make_log()
            crashed = await run_until_crash(scenario, log, point)
            for _ in range(recoveries - 1):
                await run_until_crash(scenario, log, point)
            await run_until_crash(scenario, log, None)
            check(log, point if crashed else None)
            log.close()
            if not crashed:
                return commit - 1

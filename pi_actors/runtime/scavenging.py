"""Deleting progress events once nothing depends on them any more.

A progress event is superseded by the commit after which its actor's state no longer holds what it said:
the attempt has its entry or is repeated, the call has its result, the actor has ended. That commit's
end is what ``scavenged_to`` of the head rises to with the deletion, so states from there on are exact.
Where the state still holds it, or cannot tell, the event stays.

Of each attempt the newest go first, so that what is left of it is always its beginning.
"""

import time
from array import array
from bisect import bisect_left
from collections import deque
from functools import partial
from typing import Final, NamedTuple

import trio

from pi_actors.actors.generation.round import InRound
from pi_actors.actors.generation.state import Compacting, Preparing, Requested, Retrying
from pi_actors.actors.tool.decider import Pending, Reconciling, Started
from pi_actors.actors.topics import ALL, PROGRESS
from pi_actors.core.decider import Event
from pi_actors.core.errors import Fenced, LogCorrupt, LogTooNew, SessionFailed
from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.core.record import Commit
from pi_actors.core.state import Actor, SessionState
from pi_actors.runtime.commit_line import CommitLine
from pi_actors.runtime.store import LiveStore
from pi_actors.storage.codec import decode_row

LINGER_S: Final = 1.0
"""What is superseded stays this long, so that whoever follows the log has read past it."""

PATIENCE_S: Final = 0.1
"""How long a deletion waits for a moment in which nothing is to be written."""

HURRY_ROWS: Final = 10_000
"""With more than this to delete it neither lingers nor waits, so that the log cannot outgrow it."""

ROWS_MIN: Final = 16
ROWS_MAX: Final = 256
"""How many rows one transaction deletes: fewer where they are large or the disk is slow."""

STEP_S: Final = 0.004
"""How long a transaction may take, about, before the next one deletes fewer rows."""

CLOSE_S: Final = 2.0
"""How long the closing of a session deletes what is left; the next opening finds the rest."""

_EVENTS: Final[frozenset[type[Event]]] = frozenset(ALL[topic] for topic in PROGRESS)


class Superseded(NamedTuple):
    """Positions in ascending order, by which commit's end they are superseded, and since when."""

    positions: "array[int]"
    through: Position
    since: float


class Scavenger:
    """Deletes what is superseded of one open session, also what a former opening has left."""

    def __init__(self, store: LiveStore, line: CommitLine, *, keep_all: bool) -> None:
        """*keep_all*: nothing is ever deleted."""
        self._store = store
        self._line = line
        self._held: dict[ActorId, array[int]] = {}
        self._superseded: deque[Superseded] = deque()
        self._waiting = 0
        self._rows = ROWS_MIN
        self._one_at_a_time = trio.Lock()
        self._arrived = trio.Event()
        self._left = _Left(line.shown)
        self._keep_all = keep_all
        if not keep_all:
            line.listen(self._follow)

    async def run(self) -> None:
        """Delete as there is something to delete, until cancelled or until the session has failed."""
        try:
            while not self._keep_all:
                # Before the look at what there is, so that nothing comes unnoticed in between.
                arrived = self._arrived = trio.Event()
                if self._superseded:
                    await self._hold_back()
                    await self._delete_some()
                elif not self._left.seen:
                    await self._look_back()
                elif not await self._give_back():
                    await arrived.wait()
        except SessionFailed:
            return

    async def finish(self) -> None:
        """Delete what is superseded by now, as far as that goes in the time for it."""
        with trio.move_on_after(CLOSE_S):
            try:
                while self._superseded:
                    await self._delete_some()
            except SessionFailed:
                return

    def _follow(self, commit: Commit, state: SessionState) -> None:
        """Note the progress in *commit*, and what it supersedes."""
        touched: set[ActorId] = set()
        for each in commit:
            if type(each.event) in _EVENTS:
                self._held.setdefault(each.actor, array("q")).append(each.position)
            elif each.actor in self._held or each.actor in self._left.held_from:
                touched.add(each.actor)
        for id in touched:
            self._judge(id, state.actors.get(id), commit[-1].end)

    def _judge(self, id: ActorId, actor: Actor | None, end: Position) -> None:
        """Queue what the state of *actor* no longer holds after the commit that ends at *end*."""
        since = held_from(actor)
        self._left.judge(id, since, end)
        positions = self._held.pop(id, array("q"))
        place = len(positions) if since is None else bisect_left(positions, since)
        self._queue(positions[:place], end)
        if actor is not None and not actor.ended and place < len(positions):
            self._held[id] = positions[place:]

    def _queue(self, positions: "array[int]", through: Position) -> None:
        if positions:
            self._superseded.append(Superseded(positions, through, trio.current_time()))
            self._waiting += len(positions)
            self._arrived.set()

    async def _hold_back(self) -> None:
        """Let followers go by, and commits go first, unless there is too much to delete."""
        first = self._superseded[0]
        while not self._must_hurry() and trio.current_time() < first.since + LINGER_S:
            with trio.move_on_at(first.since + LINGER_S):
                self._arrived = trio.Event()
                await self._arrived.wait()
        await self._store.group.lull(0 if self._must_hurry() else PATIENCE_S)

    def _must_hurry(self) -> bool:
        return self._waiting > HURRY_ROWS

    async def _delete_some(self) -> None:
        """Delete the next rows in one transaction.

        Raises:
            SessionFailed: the store failed, or somebody else has taken over the session.
        """
        async with self._one_at_a_time:
            taken = self._next()
            if not taken:
                return
            newest_first = [position for each, count in taken for position in each.positions[-count:][::-1]]
            through = max(each.through for each, _ in taken)
            await self._scavenge(newest_first, through)
            for each, count in taken:
                del each.positions[-count:]
                self._waiting -= count
            while self._superseded and not self._superseded[0].positions:
                self._superseded.popleft()

    def _next(self) -> list[tuple[Superseded, int]]:
        """What is superseded for the longest, and how many of each are deleted next."""
        taken: list[tuple[Superseded, int]] = []
        room = self._rows
        for each in self._superseded:
            count = min(room, len(each.positions))
            taken.append((each, count))
            room -= count
            if room == 0:
                break
        return taken

    async def _scavenge(self, positions: list[Position], through: Position) -> None:
        delete = partial(
            self._store.log.scavenge,
            self._line.session_id,
            epoch=self._line.epoch,
            positions=positions,
            through=through,
        )

        def timed() -> tuple[Fenced | None, float]:
            started = time.perf_counter()
            return delete(), time.perf_counter() - started

        with self._line.reading():
            fenced, seconds = await self._store.write(timed)
        if fenced is not None:
            self._line.fail(fenced)
            self._line.check_not_failed()
        rows = self._rows // 2 if seconds > STEP_S else self._rows * 2
        self._rows = max(ROWS_MIN, min(rows, ROWS_MAX))

    async def _look_back(self) -> None:
        """Look at the next page of progress that was there at opening, newest first."""
        look = partial(_progress, self._store, self._line.session_id, self._left.before)
        with self._line.reading():
            page = await self._store.read(look)
        leftover, held = self._left.sort(page)
        for id, positions in held.items():
            self._held[id] = positions + self._held.get(id, array("q"))
        self._queue(leftover, self._left.through)

    async def _give_back(self) -> bool:
        """Give back a little of the room that was freed, in a quiet moment."""
        if not await self._store.group.lull(PATIENCE_S):
            return False
        with self._line.reading():
            return await self._store.write(self._store.log.give_back)


def held_from(actor: Actor | None) -> Position | None:
    """From which position on the state of *actor* may hold what progress events said; None: from none on.

    An ended actor that is still in the tree counts as well: its state is part of the fold.
    """
    match None if actor is None else actor.state:
        case None | Preparing() | Compacting() | Retrying() | InRound() | Pending():
            return None
        case Requested(partial=()):
            return None
        case Requested(request=request):
            return request
        case Started(started=started) | Reconciling(interrupted=Started(started=started)):
            return started
        case _:
            return 0


class _Page(NamedTuple):
    """Progress events (position, actor), newest first. ``before``: where the next page begins, 0: nowhere."""

    events: list[tuple[Position, ActorId]]
    before: Position


class _Left:
    """The progress that was there at opening, as far as it was not looked at yet.

    ``held_from``: the actors whose state holds some of it, and from which position on. ``through``: by
    which commit's end all other of it is superseded.
    """

    def __init__(self, state: SessionState) -> None:
        self.before: Position = state.position + 1
        self.through: Position = state.position
        self.held_from: dict[ActorId, Position] = {}
        for actor in state.actors.values():
            since = held_from(actor)
            if since is not None and not actor.is_agent:
                self.held_from[actor.id] = since

    @property
    def seen(self) -> bool:
        """Whether all of it was looked at."""
        return self.before == 0

    def judge(self, id: ActorId, since: Position | None, end: Position) -> None:
        """After the commit that ends at *end*, the state of *id* holds what came from *since* on."""
        before = self.held_from.get(id)
        if before is None or before == since:
            return
        self.through = max(self.through, end)
        if since is None:
            del self.held_from[id]
        else:
            self.held_from[id] = since

    def sort(self, page: _Page) -> "tuple[array[int], dict[ActorId, array[int]]]":
        """What of *page* is superseded, and what still is held, by actor; in ascending order."""
        leftover: array[int] = array("q")
        held: dict[ActorId, array[int]] = {}
        for position, id in reversed(page.events):
            since = self.held_from.get(id)
            if since is not None and position >= since:
                held.setdefault(id, array("q")).append(position)
            elif position < self.through:  # the last event of the log stays, whatever it is
                leftover.append(position)
        self.before = page.before
        if self.seen:
            self.held_from.clear()
        return leftover, held


def _progress(store: LiveStore, session: SessionId, before: Position) -> _Page:
    """The newest progress events before *before*. A damaged row is left to whoever needs it. Blocks."""
    rows = store.log.read_display(session, before=before)
    events: list[tuple[Position, ActorId]] = []
    for row in rows:
        if row.topic in PROGRESS:
            try:
                events.append((row.position, decode_row(session, row, store.topics).actor))
            except (LogCorrupt, LogTooNew):
                continue
    return _Page(events, rows[-1].position if rows else 0)

"""The one path on which anything comes to be true in a session.

    caller or errand ──▶ 1 decide ──▶ 2 encode ──▶ 3 evolve ``ahead`` ──▶ 4 queue
                                                                           │ group commit
    effects owed ◀── 8 waiters ◀── 7 publish ◀── 6 ``shown`` ◀── 5 acknowledged

Steps 1 to 4 happen without a pause, so commands are decided one after another, each on the state
that the one before has left, while earlier commits are still on their way to the disk. Nothing is
shown, answered or run before step 5.
"""

import random
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec
import trio

from pi_actors.actors.topics import index_of
from pi_actors.core.catalog import Catalog
from pi_actors.core.commit import Asleep, Circumstances, Settled, run_to_rest, spawn_agent
from pi_actors.core.decider import Send
from pi_actors.core.errors import CommandRefused, PiActorsError, SessionClosed, SessionFailed, StoreError
from pi_actors.core.ids import NO_CAUSE, ActorId, Position, SessionId
from pi_actors.core.instants import microseconds
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.record import Commit, Recorded
from pi_actors.core.settings import Settings
from pi_actors.core.state import Kinds, SessionState
from pi_actors.runtime.clock import Clock
from pi_actors.runtime.group_commit import GroupCommit
from pi_actors.storage.codec import Topics, encode_row
from pi_actors.storage.log import Batch, Row

Listener: TypeAlias = Callable[[Commit, SessionState], None]
"""Called with each acknowledged commit and the state that is shown from then on. Never blocks."""


class Committed(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a command came to. ``events`` is empty where nothing followed from it."""

    position: Position
    events: Commit
    reply: msgspec.Struct | None


class CommitLine:
    """Decides, stores and shows, in that order, for one open session.

    ``before``: what was shown before the commit that listeners are being called with.
    ``substitutions``: how often ``substitute`` was called.
    """

    def __init__(
        self,
        session_id: SessionId,
        epoch: int,
        state: SessionState,
        *,
        topics: Topics,
        kinds: Kinds,
        catalog: Callable[[], Catalog],
        settings: Settings,
        clock: Clock,
        group: GroupCommit,
        wake: Callable[[ActorId], Awaitable[None]],
    ) -> None:
        """*wake*: puts back a passive agent that must decide; see ``substitute``."""
        self.session_id = session_id
        self.ahead = state
        self.shown = state
        self.before = state
        self.substitutions = 0
        self.failure: PiActorsError | None = None
        self.failed = trio.Event()
        self.closed = False
        self.epoch = epoch
        self._topics = topics
        self._kinds = kinds
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._group = group
        self._wake = wake
        self._pending: deque[_Pending] = deque()
        self._listeners: list[Listener] = []

    async def commit(self, *commands: Send, cause: Position = NO_CAUSE) -> Committed:
        """Carry out *commands* as one commit and return once it is durable and shown.

        Cancellation: ends the wait only; the commit is stored all the same.

        Raises:
            CommandRefused: an addressed actor refused; nothing was stored. Raised only after all
                that the refusal was based on is durable.
            InvalidValue: something in it cannot be stored; nothing was.
            SessionClosed, SessionFailed: nothing more is stored in this opening.
        """
        while True:
            self.check_open()
            try:
                settled = run_to_rest(self.ahead, commands, self._circumstances(), cause=cause)  # 1
                break
            except Asleep as asleep:
                await self._wake(asleep.agent)
            except CommandRefused:
                await self.settle_down()
                raise
            except Exception as error:  # an agent's decider broke: nobody can say what follows from what
                self.fail(SessionFailed(f"the decider of an agent raised {type(error).__name__}: {error}"))
                self.check_not_failed()
                raise
        return await self._store(settled)

    async def spawn(self, event: AgentSpawned) -> Committed:
        """Spawn an agent that nobody owns; its id is the commit's position. Raises as ``commit``."""
        self.check_open()
        return await self._store(spawn_agent(self.ahead, event, self._circumstances()))

    async def settle_down(self) -> None:
        """Return once everything decided so far is durable and shown."""
        if self._pending:
            newest = self._pending[-1]
            await newest.decided.wait()
            newest.check_stored()
        else:
            await trio.lowlevel.checkpoint()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call *listener* with every commit from now on; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def check_open(self) -> None:
        """Raise SessionFailed or SessionClosed where nothing more can be stored or shown."""
        self.check_not_failed()
        if self.closed:
            raise SessionClosed(f"session {self.session_id!r} is closed; open it again")

    def check_not_failed(self) -> None:
        """Raise SessionFailed where the store has failed under the session."""
        if self.failure is not None:
            raise SessionFailed(f"session {self.session_id!r} has failed: {self.failure}") from self.failure

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read the store in the body. A read that fails ends the session, as a write that fails does.

        Raises:
            SessionFailed: the store failed in the body.
        """
        try:
            yield
        except StoreError as error:
            self.fail(error)
            self.check_not_failed()

    def fail(self, error: PiActorsError) -> None:
        """Stop for good: nobody knows any more what the store holds."""
        if self.failure is None:
            self.failure = error
            self.failed.set()

    async def _store(self, settled: Settled) -> Committed:
        if not settled.drafts:
            await self.settle_down()
            return Committed(position=self.shown.position, events=(), reply=settled.reply)
        pending = self._encode(settled)  # 2
        self.ahead = settled.state  # 3
        self._pending.append(pending)
        pending.decided = self._group.put(pending)  # 4
        await pending.decided.wait()
        pending.check_stored()
        return Committed(position=pending.state.position, events=pending.events, reply=settled.reply)

    def _encode(self, settled: Settled) -> "_Pending":
        """The commit as rows. What cannot be encoded is refused here, before any state moves."""
        session, topics, state = self.session_id, self._topics, settled.state
        events: list[Recorded] = []
        rows: list[Row] = []
        for draft in settled.drafts:
            recorded = Recorded(
                position=draft.position,
                end=state.position,
                at_us=state.at_us,
                actor=draft.actor,
                cause=draft.cause,
                topic=topics.topic_of(draft.event),
                event=draft.event,
            )
            events.append(recorded)
            rows.append(encode_row(session, recorded, topics))
        batch = Batch(
            session=session,
            epoch=self.epoch,
            after=self.ahead.position,
            rows=rows,
            index=index_of(events),
            live=state.busy_agents > 0,
            at_us=state.at_us,
        )
        return _Pending(batch, tuple(events), state, self)

    def _circumstances(self) -> Circumstances:
        return Circumstances(
            now_us=max(microseconds(self._clock.now()), self.ahead.at_us),
            chance=random.random(),  # noqa: S311 - jitter, not a secret
            settings=self._settings,
            catalog=self._catalog(),
            kinds=self._kinds,
        )

    def show(self, pending: "_Pending") -> None:
        """An acknowledged commit becomes the truth for everyone."""
        shown = self._pending.popleft()
        assert shown is pending, "commits are acknowledged in their order"
        self.shown = pending.state  # 6
        for listener in tuple(self._listeners):  # 7 and 8
            listener(pending.events, pending.state)
        self.before = pending.state

    def substitute(self, change: Callable[[SessionState], SessionState]) -> None:
        """Put *change* of every state in its place: of what is shown, what is ahead and all between.

        For what no event tells of: nobody who folds the log may see a difference.
        """
        self.substitutions += 1
        self.shown = self.before = change(self.shown)
        for pending in self._pending:
            pending.state = change(pending.state)
        self.ahead = self._pending[-1].state if self._pending else self.shown


class _Pending:
    """A commit between decision and acknowledgement. ``decided``: set when its outcome is known."""

    __slots__ = ("_line", "_stored", "batch", "decided", "events", "state")

    decided: trio.Event

    def __init__(self, batch: Batch, events: Commit, state: SessionState, line: CommitLine) -> None:
        self.batch = batch
        self.events = events
        self.state = state
        self._line = line
        self._stored = False

    def acknowledge(self) -> None:  # 5
        self._stored = self._line.failure is None
        if self._stored:
            self._line.show(self)

    def fail(self, error: StoreError) -> None:
        self._line.fail(error)

    def check_stored(self) -> None:
        """Once decided: raise SessionFailed or SessionClosed where it was not stored."""
        if not self._stored:
            self._line.check_open()

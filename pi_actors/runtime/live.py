"""One open session, from the lock to the lock: claim, fold, take up, run, close."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar, TypeVarTuple
from uuid import uuid4

import trio

from pi_actors.actors.agent.decider import KIND as AGENT
from pi_actors.actors.agent.messages import PlaceInbox
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.compaction.decider import KIND as COMPACTION
from pi_actors.actors.compaction.messages import RepeatAt, Summarise
from pi_actors.actors.custom.decider import KIND as CUSTOM
from pi_actors.actors.custom.messages import RunStep
from pi_actors.actors.generation.decider import KIND as GENERATION
from pi_actors.actors.generation.messages import CallModel, PrepareRequest, WakeAt
from pi_actors.actors.tool.decider import KIND as TOOL
from pi_actors.actors.tool.messages import ReconcileTool, RunTool
from pi_actors.core.decider import AbortWork, Effect, Passive, Quarantined
from pi_actors.core.errors import NotFound, SessionClosed, SessionFailed
from pi_actors.core.ids import ActorId, EntryId, Position, SessionId
from pi_actors.core.instants import microseconds
from pi_actors.core.lifecycle import AgentSpawned, Outcome, WorkEnded
from pi_actors.core.record import Commit, Recorded
from pi_actors.core.settings import Settings
from pi_actors.core.state import Actor, Kinds, SessionState, owed
from pi_actors.core.tree import below
from pi_actors.runtime.asking import call_model, prepare_request, wake_at
from pi_actors.runtime.bodies import Bodies
from pi_actors.runtime.clock import Clock
from pi_actors.runtime.commit_line import CommitLine
from pi_actors.runtime.errands import Errand, Errands, Handler
from pi_actors.runtime.executing import reconcile_tool, run_tool
from pi_actors.runtime.kept import Kept
from pi_actors.runtime.opening import Folded, fold_log, fold_to
from pi_actors.runtime.passivation import Passivation
from pi_actors.runtime.recovery import FoundRuns
from pi_actors.runtime.registry import Registry
from pi_actors.runtime.scavenging import Scavenger
from pi_actors.runtime.scopes import background
from pi_actors.runtime.shell import Handles, Shell
from pi_actors.runtime.snapshots import Snapshots
from pi_actors.runtime.state_codec import StateCodec
from pi_actors.runtime.stepping import abort_step, run_step, why_blocked
from pi_actors.runtime.store import TOPICS, LiveStore
from pi_actors.runtime.summarising import repeat_at, summarise
from pi_actors.runtime.waiting import Waits
from pi_actors.storage.codec import decode_row
from pi_actors.tools.environment import EnvFactory

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

KINDS: Kinds = {kind.name: kind for kind in (AGENT, GENERATION, TOOL, COMPACTION, CUSTOM)}
CODEC: Final = StateCodec(KINDS, TOPICS)


class LiveSession:
    """An open session's parts, put together."""

    def __init__(
        self,
        store: LiveStore,
        session_id: SessionId,
        epoch: int,
        folded: Folded,
        *,
        registry: Registry,
        settings: Settings,
        clock: Clock,
        env: EnvFactory,
        handles: Handles,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.registry = registry
        state = folded.state
        self.line = CommitLine(
            session_id,
            epoch,
            state,
            topics=store.topics,
            kinds=KINDS,
            catalog=lambda: registry.facts,
            settings=settings,
            clock=clock,
            group=store.group,
            wake=self._wake,
        )
        self.kept = kept_of(store, session_id)
        self.snapshots = Snapshots(self.line, store, self.kept, folded.snapshot)
        self.passivation = Passivation(self.line, store, self.kept, clock, settings.passivate_ms)
        self.waits = Waits(self.line)
        self.bodies = Bodies(self.recorded_at)
        self.line.listen(self.bodies.follow)
        self.found = FoundRuns(state, KINDS)
        self.scavenger = Scavenger(store, self.line, keep_all=settings.keep_progress)
        self._nursery: trio.Nursery | None = None
        self.line.listen(self._follow)
        self.resumed = trio.Event()
        self.shell = Shell(
            line=self.line,
            registry=registry,
            bodies=self.bodies,
            found=self.found,
            settings=settings,
            clock=clock,
            env=env,
            handles=handles,
            outcome_of=self.outcome_of,
            spill_dir=store.spill_dir(session_id),
            opened_at=state.position,
        )
        self.errands = Errands(
            self.line, KINDS, _handlers(self), may_start=self._may_start, close_ms=settings.close_ms
        )

    def blocked(self, actor: Actor) -> str | None:
        """Why *actor* cannot go on in this process, None where it can."""
        if isinstance(actor.state, Quarantined):
            what = f"event {actor.state.event} at position {actor.state.position}"
            return f"quarantined: {what} does not fit its state"
        return why_blocked(self.shell, actor)

    async def outcome_of(self, actor_id: ActorId) -> Outcome:
        """The outcome of a work actor, as soon as it is stored.

        Raises:
            NotFound: there is no such work actor.
        """
        while True:
            with self.waits.settling(actor_id) as event:
                self.line.check_open()
                actor = self.line.shown.actors.get(actor_id)
                if actor is None or not actor.live:
                    return await self._stored_outcome(actor_id)
                await event.wait()

    async def _stored_outcome(self, actor_id: ActorId) -> Outcome:
        session = self.line.session_id
        position = await self.read(self.store.log.find_settled, session, actor_id)
        recorded = None if position is None else await self.recorded(position)
        if recorded is None or not isinstance(recorded.event, WorkEnded):
            raise NotFound(f"there is no work actor {actor_id} in session {session!r}")
        return recorded.event.outcome

    async def _wake(self, agent: ActorId) -> None:
        await self.passivation.wake(agent)

    def _may_start(self, actor: Actor, effect: Effect) -> bool:
        if not self.found.may_start(self.line.shown, actor, effect):
            return False
        return not isinstance(effect, RunStep) or self._can_run(actor)

    def _can_run(self, actor: Actor) -> bool:
        return why_blocked(self.shell, actor) is None

    async def recorded(self, position: Position) -> Recorded | None:
        """The acknowledged event at *position*, None where there is none."""
        found = await self.recorded_at([position])
        return found[0] if found else None

    async def recorded_at(self, positions: Sequence[Position]) -> list[Recorded]:
        """The acknowledged events at *positions*, in ascending order; missing ones are left out."""
        return await self.read(_read_at, self.store, self.line.session_id, positions)

    async def state_at(self, position: Position) -> SessionState:
        """The state just after the acknowledged event at *position*, folded from the log."""
        return await self.read(fold_to, self.kept, position)

    async def entry_ids(self, agent: ActorId, *, before: EntryId | None, limit: int) -> list[EntryId]:
        """The newest *limit* entries of *agent* before *before* (None: the end), oldest first.

        Those that a fork goes on from belong to it, too.
        """
        found: list[EntryId] = []
        while True:
            wanted = limit - len(found)
            entries = partial(
                self.store.log.entries, self.line.session_id, agent, before=before, limit=wanted
            )
            found = [*await self.read(entries), *found]
            state = self.line.shown.actors[agent].state
            forked = state.forked if isinstance(state, AgentState | Passive) else None
            if forked is None or len(found) == limit:
                return found
            agent, last = forked
            before = last + 1 if before is None else min(before, last + 1)

    async def read(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Run a function that reads the log.

        Raises:
            SessionFailed: the store failed, or what it holds is damaged.
        """
        self.line.check_open()
        with self.line.reading():
            return await self.store.read(function, *arguments)

    def refresh(self) -> None:
        """Look again at what every actor owes, after the catalog has grown."""
        self.errands.refresh(list(self.line.shown.actors))
        self._take_up_ready()

    def next_wake_us(self) -> int | None:
        """The earliest stored deadline, in UTC microseconds."""
        deadlines = [
            effect.due_us
            for actor in self.line.shown.actors.values()
            for effect in owed(actor, KINDS)
            if isinstance(effect, WakeAt | RepeatAt | RunStep) and self._may_start(actor, effect)
        ]
        return min((due_us for due_us in deadlines if due_us is not None), default=None)

    async def run(self) -> None:
        """Once resumed: take up what was found unfinished, and run what is owed, until cancelled."""
        await self.resumed.wait()
        async with trio.open_nursery() as nursery:
            await nursery.start(self.errands.run)
            self._nursery = nursery
            self._take_up_ready()

    def _take_up_ready(self, changed: Iterable[ActorId] | None = None) -> None:
        """Take up the found runs that no longer only wait; *changed*: of these actors' agents."""
        if self._nursery is not None:
            for agent in self.found.ready(self.line.shown, self._can_run, changed):
                self._nursery.start_soon(self._take_up, agent)

    def _follow(self, commit: Commit, state: SessionState) -> None:
        if self.found:
            for agent in self.found.follow(commit, state):
                # Taken up by whichever errand had waited long enough; the others have waited for this.
                self.errands.refresh([actor.id for actor in below(state, agent)])
            self._take_up_ready(each.actor for each in commit)

    async def _take_up(self, agent: ActorId) -> None:
        try:
            await self.shell.take_up(agent)
        except (SessionFailed, SessionClosed):
            return
        self.errands.refresh([actor.id for actor in below(self.line.shown, agent)])

    async def close(self) -> None:
        """Stop what runs, note the orderly close, see everything stored. Decides no outcome."""
        self._nursery = None
        with trio.CancelScope(shield=True):
            await self.errands.stop()
            try:
                self.line.check_open()
                releases = self.found.release(self.line.ahead) if self.resumed.is_set() else []
                await self.line.commit(*releases)
                await self.snapshots.take()
                await self.scavenger.finish()
            except SessionFailed:
                pass
            self.line.closed = True
            self.waits.end()


@asynccontextmanager
async def open_live(
    store: LiveStore, session_id: SessionId, *, make: Callable[[int, Folded], LiveSession], clock: Clock
) -> AsyncGenerator[LiveSession]:
    """Own the session for the time of the body.

    An exception of the body leaves as it is. If the store fails, the body is cancelled and
    SessionFailed is raised.

    Raises:
        SessionInUse, LogCorrupt, LogTooNew, StoreError: the session cannot be opened.
    """
    held = await store.read(store.log.acquire, session_id)
    try:
        head = await store.write(partial(store.log.claim, session_id, now_us=microseconds(clock.now())))
        live = make(head.epoch, await store.read(fold_log, head, kept_of(store, session_id)))
        if live.line.shown.position == 0:
            await live.line.spawn(AgentSpawned(session_uuid=uuid4().hex))
        await live.registry.reach_known(_named_models(live))
        body = trio.CancelScope()
        running = (live.run, live.snapshots.run, live.passivation.run, live.scavenger.run)
        async with background(partial(_watch, live, body), *running):
            try:
                with body:
                    yield live
            finally:
                await live.close()
        live.line.check_not_failed()
    finally:
        held.close()


def kept_of(store: LiveStore, session_id: SessionId) -> Kept:
    """How the session's state is read from the log and its snapshots."""
    return Kept(store.log, session_id, store.topics, KINDS, CODEC)


def _read_at(store: LiveStore, session: SessionId, positions: Sequence[Position]) -> list[Recorded]:
    return [decode_row(session, row, store.topics) for row in store.log.read_at(session, positions)]


async def _watch(live: LiveSession, body: trio.CancelScope) -> None:
    """Stop everything when the store fails: handlers first, then whoever waits."""
    await live.line.failed.wait()
    await live.errands.stop()
    live.waits.end()
    body.cancel()


def _named_models(live: LiveSession) -> set[str]:
    """The models that agents have chosen, and the one that writes summaries."""
    chosen = (chosen_model(actor) for actor in live.line.shown.actors.values())
    return {name for name in (live.settings.compaction.model, *chosen) if name is not None}


def chosen_model(actor: Actor) -> str | None:
    """The model that the agent chose, also while it is passive."""
    match actor.state:
        case AgentState(choices=choices):
            return choices.model
        case Passive(model=model):
            return model
        case _:
            return None


def _handlers(live: LiveSession) -> dict[type[Effect], Handler]:
    async def place_inbox(errand: Errand) -> None:
        await errand.report(PlaceInbox())

    async def abort(errand: Errand) -> None:
        quiet = await live.errands.quiet(errand.actor)
        await live.line.settle_down()  # what the cancelled errands reported on their way out
        await abort_step(shell, errand, still_running=not quiet)

    shell = live.shell
    return {
        PlaceInbox: place_inbox,
        AbortWork: abort,
        PrepareRequest: partial(prepare_request, shell),
        WakeAt: partial(wake_at, shell),
        CallModel: partial(call_model, shell),
        RunTool: partial(run_tool, shell),
        ReconcileTool: partial(reconcile_tool, shell),
        Summarise: partial(summarise, shell),
        RepeatAt: partial(repeat_at, shell),
        RunStep: partial(run_step, shell),
    }

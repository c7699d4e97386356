"""The commit that runs messages to rest: one command in, all its consequences out, or none.

1. The addressed actor decides; only here may a caller be refused.
2. Its events are recorded and evolve the state at once.
3. The messages it sends are delivered to their recipients' own deciders, in order, until none is
   left. Finishing, holding, marking and notifying are the kernel's part of the same cascade.
4. If a recipient's code raises, the attempt is dropped and run again with that recipient faulted.

Everything here is pure: the caller stores the result, or forgets it.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pi_actors.core.catalog import Catalog
from pi_actors.core.decider import (
    Abort,
    AbortedAbove,
    At,
    Command,
    Decision,
    Ended,
    Event,
    Fault,
    Mark,
    Quarantined,
    Send,
)
from pi_actors.core.errors import CommandRefused, NotFound
from pi_actors.core.ids import NOBODY, ActorId, Position
from pi_actors.core.lifecycle import (
    AbortMarked,
    AgentSpawned,
    Outcome,
    OutcomeHeld,
    WorkEnded,
    WorkSpawned,
)
from pi_actors.core.settings import Settings
from pi_actors.core.state import Actor, Blocked, Kinds, SessionState, above, below, evolve, is_cancelled


class Drafted(NamedTuple):
    """An event of the commit: its place, whom it changes, what caused it."""

    position: Position
    actor: ActorId
    cause: Position
    event: Event


class Settled(NamedTuple):
    """A cascade at rest. ``reply`` is the addressed actor's answer to the caller, if it gave one."""

    state: SessionState
    drafts: list[Drafted]
    reply: msgspec.Struct | None


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every decision of one commit."""

    now_us: int
    chance: float
    settings: Settings
    catalog: Catalog
    kinds: Kinds


def run_to_rest(
    session: SessionState, commands: Sequence[Send], given: Circumstances, *, cause: Position = NOBODY
) -> Settled:
    """Decide *commands* in order, and all that follows from them, as one commit.

    Raises:
        CommandRefused: an addressed actor refused. Nothing has happened.
        NotFound: an addressed agent does not exist.
    """
    faulted: dict[ActorId, str] = {}
    while True:
        cascade = _Cascade(session, given, faulted)
        try:
            return cascade.run(commands, cause)
        except _Broke as broke:
            assert broke.actor not in faulted, broke.detail
            faulted[broke.actor] = broke.detail


def spawn_agent(session: SessionState, event: AgentSpawned, given: Circumstances) -> Settled:
    """An agent that nobody owns, as a commit of its own. Its id is the state's new position."""
    cascade = _Cascade(session, given, {})
    return cascade.run_spawn(event)


class KernelRuleBroken(Exception):
    """A decision that the kernel cannot carry out; the actor that made it is faulted."""


class _Broke(Exception):
    def __init__(self, actor: ActorId, detail: str) -> None:
        super().__init__(detail)
        self.actor = actor
        self.detail = detail


class _Delivery(NamedTuple):
    to: ActorId
    command: Command
    cause: Position
    addressed: bool


class _Finish(NamedTuple):
    actor: ActorId
    outcome: Outcome
    cause: Position


class _Cascade:
    """One attempt. Mutable, and forgotten afterwards."""

    def __init__(self, session: SessionState, given: Circumstances, faulted: dict[ActorId, str]) -> None:
        self.session = session
        self.given = given
        self.faulted = faulted
        self.drafts: list[Drafted] = []
        self.queue: deque[_Delivery | _Finish] = deque()
        self.reply: msgspec.Struct | None = None

    def run(self, commands: Sequence[Send], cause: Position) -> Settled:
        for command in commands:
            self.queue.append(_Delivery(command.to, command.command, cause, addressed=True))
            while self.queue:
                step = self.queue.popleft()
                match step:
                    case _Delivery():
                        self._deliver(step)
                    case _Finish():
                        self._finish(step.actor, step.outcome, step.cause)
        return Settled(self.session, self.drafts, self.reply)

    def run_spawn(self, event: AgentSpawned) -> Settled:
        self._spawn(event, NOBODY)
        return Settled(self.session, self.drafts, None)

    # Delivering

    def _deliver(self, step: _Delivery) -> None:
        actor = self.session.actors.get(step.to)
        if actor is None or actor.ended:
            return
        if isinstance(step.command, Mark):
            self._mark(actor, step.cause)
        elif actor.held is None and not self._delivered_by_kernel(actor, step):
            decision = self._decide(actor, step)
            self._carry_out(actor, decision, step)

    def _delivered_by_kernel(self, actor: Actor, step: _Delivery) -> bool:
        """Whether the kernel answers itself: for broken actors, missing code and faults."""
        if step.to in self.faulted and not actor.is_agent:
            self._finish(actor.id, Outcome(status="faulted", detail=self.faulted[step.to]), step.cause)
            return True
        if isinstance(step.command, Fault):
            self._finish(actor.id, Outcome(status="faulted", detail=step.command.detail), step.cause)
            return True
        match actor.state:
            case Quarantined() as broken:
                self._deliver_to_quarantined(actor, broken, step)
                return True
            case Blocked():
                if isinstance(step.command, Abort):
                    self._finish(
                        actor.id, Outcome(status="orphaned", detail=f"no kind {actor.kind!r}"), step.cause
                    )
                return True
            case _:
                return False

    def _deliver_to_quarantined(self, actor: Actor, broken: Quarantined, step: _Delivery) -> None:
        what = f"event {broken.topic} at position {broken.position} does not fit its state"
        if actor.is_agent:
            if step.addressed:
                raise CommandRefused(f"agent {actor.id} is quarantined: {what}. Start another agent.")
        elif isinstance(step.command, Abort):
            self._finish(actor.id, Outcome(status="faulted", reason="quarantined", detail=what), step.cause)

    def _decide(self, actor: Actor, step: _Delivery) -> Decision:
        at = At(
            now_us=self.given.now_us,
            chance=self.given.chance,
            position=self.session.position + 1,
            marked=actor.marked,
            settings=self.given.settings,
            catalog=self.given.catalog,
        )
        try:
            return self.given.kinds[actor.kind].decide(actor.state, step.command, at)
        except CommandRefused:
            if step.addressed:
                raise
            return Decision()
        except Exception as error:
            if actor.is_agent:
                raise
            raise _Broke(actor.id, f"{type(error).__name__} in decide: {error}") from error

    def _carry_out(self, actor: Actor, decision: Decision, step: _Delivery) -> None:
        cause = step.cause
        try:
            for event in decision.events:
                cause = self._record(actor, event, step.cause)
        except KernelRuleBroken as broken:
            detail = f"{broken}; it was deciding {type(step.command).__name__}"
            raise _Broke(actor.id, detail) from broken
        if step.addressed and decision.reply is not None:
            self.reply = decision.reply
        if decision.abort_below:
            self._mark_below(actor.id, cause)
        for message in decision.messages:
            self.queue.append(_Delivery(message.to, message.command, cause, addressed=False))
        if decision.finish is not None:
            self.queue.append(_Finish(actor.id, decision.finish, cause))

    # Recording

    def _record(self, actor: Actor, event: Event, cause: Position) -> Position:
        match event:
            case WorkSpawned() | AgentSpawned():
                return self._spawn(event, cause)
            case _:
                position = self._append(actor.id, event, cause)
                now = self.session.actors[actor.id].state
                if isinstance(now, Quarantined):
                    raise KernelRuleBroken(f"{type(event).__name__} does not fit the actor's state")
                return position

    def _append(self, actor: ActorId, event: Event, cause: Position) -> Position:
        position = self.session.position + 1
        self.session = evolve(
            self.session,
            self.given.kinds,
            position=position,
            at_us=self.given.now_us,
            actor=actor or position,
            event=event,
        )
        self.drafts.append(Drafted(position, actor or position, cause, event))
        return position

    def _spawn(self, event: WorkSpawned | AgentSpawned, cause: Position) -> Position:
        self._check_owner(event)
        position = self._append(NOBODY, event, cause)
        born = self.session.actors[position]
        if born.live and any(is_cancelled(node) for node in above(self.session, born)):
            self._append(position, AbortMarked(), position)
        return position

    def _check_owner(self, event: WorkSpawned | AgentSpawned) -> None:
        if event.owner == NOBODY:
            return
        owner = self.session.actors.get(event.owner)
        if owner is None or not owner.live:
            raise KernelRuleBroken(f"owner {event.owner} of new work is not a live work actor")
        if owner.held is not None or owner.marked:
            raise KernelRuleBroken(f"owner {event.owner} of new work is completing or marked for abort")
        if isinstance(event, WorkSpawned) and owner.agent != event.agent:
            raise KernelRuleBroken(f"owner {event.owner} of new work belongs to another agent")
        if isinstance(event, WorkSpawned) and event.background:
            raise KernelRuleBroken("only work that an agent owns directly may be background")

    # Ending

    def _finish(self, id: ActorId, outcome: Outcome, cause: Position) -> None:
        actor = self.session.actors.get(id)
        if actor is None or actor.ended or actor.held is not None:
            return
        if actor.busy_below == 0:
            self._end(actor, outcome, cause)
            return
        held = self._append(id, OutcomeHeld(outcome=outcome), cause)
        if outcome.status != "completed":
            self._mark_below(id, held)

    def _end(self, actor: Actor, outcome: Outcome, cause: Position) -> None:
        position = self._append(actor.id, WorkEnded(outcome=outcome), cause)
        self._notify_parent(actor, outcome, position)
        self._end_drained_above(actor, position)

    def _notify_parent(self, actor: Actor, outcome: Outcome, cause: Position) -> None:
        parent = self.session.actors.get(actor.parent)
        if parent is not None and not parent.marked and parent.held is None:
            drained = parent.busy_below == 0
            ended = Ended(actor=actor.id, kind=actor.kind, outcome=outcome, drained=drained)
            self.queue.append(_Delivery(parent.id, ended, cause, addressed=False))

    def _end_drained_above(self, actor: Actor, cause: Position) -> None:
        """End the nearest completing actor above that waited only for *actor*."""
        for node in above(self.session, actor):
            if node.busy_below > 0:
                return
            if node.held is not None and not node.ended:
                self._end(node, node.held, cause)
                return
            if node.live:
                return

    # Marking

    def _mark(self, actor: Actor, cause: Position) -> None:
        if not actor.marked:
            self._mark_below(actor.id, self._append(actor.id, AbortMarked(), cause))

    def _mark_below(self, id: ActorId, cause: Position) -> None:
        for node in list(below(self.session, id)):
            if node.is_agent:
                self.queue.append(_Delivery(node.id, AbortedAbove(), cause, addressed=False))
            elif node.live and not node.marked:
                self._append(node.id, AbortMarked(), cause)


def require(session: SessionState, id: ActorId) -> Actor:
    """The agent *id*.

    Raises:
        NotFound: there is none in this session.
    """
    actor = session.actors.get(id)
    if actor is None or not actor.is_agent:
        raise NotFound(f"there is no agent {id} in this session")
    return actor

"""What a commit does to the actors: record, spawn, wait, mark, end, and who hears of it.

The rules of ownership are here: new work needs a live owner, finishing waits for what is below,
an abort flows down in the same commit and never up, nobody waits in a circle.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from pi_actors.core.decider import (
    AbortedAbove,
    Command,
    Drained,
    Ended,
    Event,
    Memo,
    Quarantined,
    SpawnAgent,
    Spawned,
    SpawnWork,
    WaitOver,
    WriteMemo,
)
from pi_actors.core.errors import CommandRefused, NotLive
from pi_actors.core.ids import NOBODY, ActorId, Position
from pi_actors.core.lifecycle import (
    AbortMarked,
    AgentSpawned,
    MemoWritten,
    Outcome,
    OutcomeHeld,
    WaitStarted,
    WorkEnded,
    WorkSpawned,
)
from pi_actors.core.state import KERNEL_EVENTS, Actor, Kinds, SessionState, Waiting, evolve, evolve_own
from pi_actors.core.tree import above, below, is_cancelled, would_wait_in_a_circle


class Drafted(msgspec.Struct, frozen=True, gc=False):
    """An event of the commit: its place, whom it changes, what caused it."""

    position: Position
    actor: ActorId
    cause: Position
    event: Event


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message on its way. ``addressed``: it came from outside, so its recipient may refuse it."""

    to: ActorId
    command: Command
    cause: Position
    addressed: bool


class Finish(msgspec.Struct, frozen=True, gc=False):
    """An actor whose messages are delivered is about to end, or to hold its outcome."""

    actor: ActorId
    outcome: Outcome
    cause: Position


class Drain(msgspec.Struct, frozen=True, gc=False):
    """*ended* was perhaps the last thing that the nearest live owner above it waited for."""

    ended: Actor
    cause: Position


class KernelRuleBroken(Exception):
    """A decision that the kernel cannot carry out; the actor that made it is faulted."""


class Ledger:
    """The events of one attempt at a commit, and the state as they have left it.

    ``steps`` is what remains to be done, in order; the kernel adds its own messages to it.
    ``drains`` come when no step is left: an agent below may go on with its next run until then.
    """

    __slots__ = ("drafts", "drains", "kinds", "now_us", "session", "steps")

    def __init__(self, session: SessionState, kinds: Kinds, now_us: int) -> None:
        self.session = session
        self.kinds = kinds
        self.now_us = now_us
        self.drafts: list[Drafted] = []
        self.steps: deque[Delivery | Finish] = deque()
        self.drains: deque[Drain] = deque()

    # Recording

    def record(self, actor: ActorId, events: Sequence[Event], cause: Position) -> Position:
        """Record the events that *actor* decided, in order, and return the position of the last.

        Raises:
            KernelRuleBroken: an event does not fit the actor, or breaks a rule of ownership.
            NotLive: it waits for an actor that has ended, without telling its outcome.
        """
        position = self.session.position
        if KERNEL_EVENTS.isdisjoint(map(type, events)):
            # Nearly always. They change nobody else, so one state is made for all of them.
            self.session = evolve_own(
                self.session, self.kinds, position=position + 1, at_us=self.now_us, actor=actor, events=events
            )
            for event in events:
                position += 1
                self.drafts.append(Drafted(position, actor, cause, event))
        else:
            for event in events:
                position = self._record_one(actor, event, cause)
        state = self.session.actors[actor].state
        if type(state) is Quarantined:
            raise KernelRuleBroken(f"{state.event} does not fit the actor's state")
        return position

    def _record_one(self, actor: ActorId, event: Event, cause: Position) -> Position:
        match event:
            case WorkSpawned() | AgentSpawned():
                return self.spawn(event, cause)
            case WaitStarted():
                return self._wait(actor, event, cause)
            case _:
                return self._append(actor, event, cause)

    def _append(self, actor: ActorId, event: Event, cause: Position) -> Position:
        position = self.session.position + 1
        self.session = evolve(
            self.session,
            self.kinds,
            position=position,
            at_us=self.now_us,
            actor=actor or position,
            event=event,
        )
        self.drafts.append(Drafted(position, actor or position, cause, event))
        return position

    def spawn(self, event: WorkSpawned | AgentSpawned, cause: Position) -> Position:
        """Let an actor be born; below a cancelled one it is marked at once. Raises as ``record``."""
        self._check_owner(event)
        position = self._append(NOBODY, event, cause)
        born = self.session.actors[position]
        if isinstance(born.state, Quarantined):
            raise KernelRuleBroken(f"{event} fits neither its kind nor its agent")
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

    def spawn_below(self, actor: Actor, command: SpawnWork | SpawnAgent, cause: Position) -> Spawned:
        """Spawn once per name; the memo that remembers it is part of the same commit."""
        key = spawn_key(command)
        known = actor.memos.get(key) if command.name else None
        if known is not None:
            return Spawned(id=msgspec.json.decode(known, type=int), is_new=False)
        try:
            born = self.spawn(_birth_of(actor, command), cause)
        except KernelRuleBroken as broken:
            raise CommandRefused(str(broken)) from broken
        if command.name:
            self._append(actor.id, MemoWritten(name=key, value=msgspec.json.encode(born)), born)
        return Spawned(id=born, is_new=True)

    def write_memo(self, actor: Actor, command: WriteMemo, cause: Position) -> Memo:
        """The first writer of a name wins."""
        known = actor.memos.get(command.name)
        if known is None:
            self._append(actor.id, MemoWritten(name=command.name, value=command.value), cause)
        return Memo(value=command.value if known is None else known)

    # Waiting

    def _wait(self, id: ActorId, event: WaitStarted, cause: Position) -> Position:
        known = dict(event.known)
        for target in event.on:
            if target not in known:
                self._check_target(id, target, event)
        position = self._append(id, event, cause)
        if self.session.actors[id].wait is None:
            everything = Waiting(on=event.on, fail_fast=False, outcomes=event.known)
            over = WaitOver(outcomes=everything.in_order())
            self.steps.append(Delivery(id, over, position, addressed=False))
        elif event.fail_fast and (
            any(outcome.status != "completed" for outcome in known.values())
            or any(_has_failed(self.session.actors.get(target)) for target in event.on)
        ):
            self._mark_rest(event.on, position)
        return position

    def _check_target(self, id: ActorId, target: ActorId, event: WaitStarted) -> None:
        actor = self.session.actors.get(target)
        if actor is None or not actor.live:
            raise NotLive(f"actor {target} is not live; wait_actor({target}) gives its outcome")
        if event.fail_fast and actor.parent != id:
            raise KernelRuleBroken(f"actor {id} waits fail_fast for {target}, which it does not own")
        if would_wait_in_a_circle(self.session, id, target):
            raise KernelRuleBroken(f"actor {id} would wait for {target}, which waits for it")

    def _mark_rest(self, targets: Sequence[ActorId], cause: Position) -> None:
        for target in targets:
            actor = self.session.actors.get(target)
            if actor is not None and actor.live and not _has_failed(actor):
                self.mark(actor, cause)

    # Ending

    def finish(self, id: ActorId, outcome: Outcome, cause: Position) -> None:
        """End the actor, or hold its outcome while something ordinary lives below it."""
        actor = self.session.actors.get(id)
        if actor is None or actor.ended or actor.held is not None:
            return
        if actor.busy_below == 0:
            self._end(actor, outcome, cause)
            return
        held = self._append(id, OutcomeHeld(outcome=outcome), cause)
        if outcome.status != "completed":
            self.mark_below(id, held)
            self._fail_fast(self._waits_on(id), held)

    def _end(self, actor: Actor, outcome: Outcome, cause: Position) -> None:
        waits = self._waits_on(actor.id)
        position = self._append(actor.id, WorkEnded(outcome=outcome), cause)
        if outcome.status != "completed":
            self._fail_fast(waits, position)
        self._notify_waiters(waits, actor.id, outcome, position)
        self._notify_parent(actor, outcome, position)
        self.drains.append(Drain(actor, position))

    def _waits_on(self, target: ActorId) -> list[tuple[ActorId, Waiting]]:
        waiters = (self.session.actors[id] for id in self.session.waiters.get(target, ()))
        return [(actor.id, actor.wait) for actor in waiters if actor.wait is not None]

    def _fail_fast(self, waits: Sequence[tuple[ActorId, Waiting]], cause: Position) -> None:
        for _, wait in waits:
            if wait.fail_fast:
                self._mark_rest(wait.on, cause)

    def _notify_waiters(
        self, waits: Sequence[tuple[ActorId, Waiting]], id: ActorId, outcome: Outcome, cause: Position
    ) -> None:
        for waiter, wait in waits:
            complete = msgspec.structs.replace(wait, outcomes=(*wait.outcomes, (id, outcome)))
            if complete.is_over:
                over = WaitOver(outcomes=complete.in_order())
                self.steps.append(Delivery(waiter, over, cause, addressed=False))

    def _notify_parent(self, actor: Actor, outcome: Outcome, cause: Position) -> None:
        parent = self.session.actors.get(actor.parent)
        if parent is not None and not parent.marked and parent.held is None:
            ended = Ended(actor=actor.id, kind=actor.kind, outcome=outcome)
            self.steps.append(Delivery(parent.id, ended, cause, addressed=False))

    def drain(self, step: Drain) -> None:
        """End the nearest live owner above if it is completing, else tell it that it has drained."""
        for node in above(self.session, step.ended):
            if node.busy_below > 0:
                return
            if node.live:
                if node.held is not None:
                    self._end(node, node.held, step.cause)
                elif not node.marked:
                    self.steps.append(Delivery(node.id, Drained(), step.cause, addressed=False))
                return

    # Marking

    def mark(self, actor: Actor, cause: Position) -> None:
        """Ask the actor, and everything ordinary below it, to stop."""
        if not actor.marked:
            self.mark_below(actor.id, self._append(actor.id, AbortMarked(), cause))

    def mark_below(self, id: ActorId, cause: Position, *, background: bool = False) -> None:
        """Ask everything ordinary below to stop; *background*: what is below boundaries too."""
        for node in list(below(self.session, id, background=background)):
            if node.is_agent:
                self.steps.append(Delivery(node.id, AbortedAbove(), cause, addressed=False))
            elif node.live and not node.marked:
                self._append(node.id, AbortMarked(), cause)


def _has_failed(actor: Actor | None) -> bool:
    """Whether its outcome is decided, held and other than completed."""
    return actor is not None and actor.held is not None and actor.held.status != "completed"


def spawn_key(command: SpawnWork | SpawnAgent) -> str:
    """The name of the memo that remembers who was spawned under the command's name."""
    return f"{'agent' if isinstance(command, SpawnAgent) else 'actor'}:{command.name}"


def _birth_of(actor: Actor, command: SpawnWork | SpawnAgent) -> WorkSpawned | AgentSpawned:
    if isinstance(command, SpawnAgent):
        return AgentSpawned(owner=actor.id, choices=command.choices)
    return WorkSpawned(
        kind=command.kind,
        agent=actor.agent,
        owner=NOBODY if actor.is_agent else actor.id,
        background=command.background,
        version=command.version,
        input=command.input,
    )

"""The commit that runs messages to rest: one command in, all its consequences out, or none.

1. The addressed actor decides; only here may a caller be refused.
2. Its events are recorded and evolve the state at once.
3. The messages it sends are delivered to their recipients' own deciders, in order, until none is
   left. Finishing, holding, marking and notifying are the kernel's part of the same cascade.
4. Owners below which nothing lives any more end, if they are completing, or are told so.
5. If a recipient's code raises, the attempt is dropped and run again with that recipient faulted.

Everything here is pure: the caller stores the result, or forgets it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pi_actors.core.catalog import Catalog
from pi_actors.core.decider import (
    Abort,
    AbortedAbove,
    At,
    Decision,
    Event,
    Fault,
    Mark,
    Orphan,
    Passive,
    Quarantined,
    Send,
    SpawnAgent,
    SpawnWork,
    WriteMemo,
)
from pi_actors.core.errors import CommandRefused, NotFound
from pi_actors.core.ids import NO_CAUSE, ActorId, Position
from pi_actors.core.ledger import Delivery, Drafted, Finish, KernelRuleBroken, Ledger
from pi_actors.core.lifecycle import AgentSpawned, Outcome, WorkSpawned
from pi_actors.core.settings import Settings
from pi_actors.core.state import Actor, Kinds, SessionState, kind_of


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A cascade at rest. ``reply`` is the addressed actor's answer to the caller, if it gave one."""

    state: SessionState
    drafts: list[Drafted]
    reply: msgspec.Struct | None


class Circumstances(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is the same for every decision of one commit."""

    now_us: int
    chance: float
    settings: Settings
    catalog: Catalog
    kinds: Kinds


def run_to_rest(
    session: SessionState, commands: Sequence[Send], given: Circumstances, *, cause: Position = NO_CAUSE
) -> Settled:
    """Decide *commands* in order, and all that follows from them, as one commit.

    Raises:
        CommandRefused: an addressed actor refused. Nothing has happened.
        Asleep: the agent that it names must be put back into *session* first. Nothing has happened.

    A command to an actor that is not there, or has ended, is a no-op; callers look with ``require``.
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


class Asleep(Exception):
    """The agent would have to decide and is passive: put back what it was, and try again."""

    def __init__(self, agent: ActorId) -> None:
        super().__init__(f"agent {agent} is passive")
        self.agent = agent


class _Broke(Exception):
    def __init__(self, actor: ActorId, detail: str) -> None:
        super().__init__(detail)
        self.actor = actor
        self.detail = detail


class _Cascade:
    """One attempt. Mutable, and forgotten afterwards."""

    __slots__ = ("faulted", "given", "ledger", "reply")

    def __init__(self, session: SessionState, given: Circumstances, faulted: dict[ActorId, str]) -> None:
        self.ledger = Ledger(session, given.kinds, given.now_us)
        self.given = given
        self.faulted = faulted
        self.reply: msgspec.Struct | None = None

    def run(self, commands: Sequence[Send], cause: Position) -> Settled:
        ledger = self.ledger
        for command in commands:
            ledger.steps.append(Delivery(command.to, command.command, cause, addressed=True))
            while ledger.steps or ledger.drains:
                if not ledger.steps:
                    ledger.drain(ledger.drains.popleft())
                    continue
                step = ledger.steps.popleft()
                if isinstance(step, Delivery):
                    self._deliver(step)
                else:
                    ledger.finish(step.actor, step.outcome, step.cause)
        return Settled(self.ledger.session, self.ledger.drafts, self.reply)

    def run_spawn(self, event: AgentSpawned) -> Settled:
        self.ledger.spawn(event, NO_CAUSE)
        return Settled(self.ledger.session, self.ledger.drafts, None)

    def _deliver(self, step: Delivery) -> None:
        """Let the recipient decide, unless the kernel answers in its place."""
        actor = self.ledger.session.actors.get(step.to)
        if actor is None or actor.ended:
            return
        if type(step.command) is Mark:
            self._mark(actor, step)
        elif type(actor.state) is Passive:
            self._deliver_to_passive(actor, step)
        elif actor.held is None and not self._answered_by_kernel(actor, step):
            self._carry_out(actor, self._decide(actor, step), step)

    def _mark(self, actor: Actor, step: Delivery) -> None:
        if not actor.is_agent:
            self.ledger.mark(actor, step.cause)
        elif step.addressed:
            raise CommandRefused(f"{actor.id} is an agent, which is never live itself; send it AbortAgent")

    def _answered_by_kernel(self, actor: Actor, step: Delivery) -> bool:
        """Faults, missing code, broken actors, and what every actor's code may ask for."""
        command = step.command
        if type(command) not in _TO_KERNEL and type(actor.state) is not Quarantined and not self.faulted:
            return False
        if step.to in self.faulted and not actor.is_agent:
            outcome = Outcome(status="faulted", detail=self.faulted[step.to])
            self.ledger.finish(actor.id, outcome, step.cause)
        elif isinstance(command, Fault):
            self.ledger.finish(actor.id, Outcome(status="faulted", detail=command.detail), step.cause)
        elif isinstance(command, Orphan):
            self.ledger.finish(actor.id, Outcome(status="orphaned", detail=command.detail), step.cause)
        elif isinstance(actor.state, Quarantined):
            self._deliver_to_quarantined(actor, actor.state, step)
        elif isinstance(command, WriteMemo):
            self.reply = self.ledger.write_memo(actor, command, step.cause)
        elif isinstance(command, SpawnWork | SpawnAgent):
            self.reply = self.ledger.spawn_below(actor, command, step.cause)
        else:
            return False
        return True

    def _deliver_to_passive(self, actor: Actor, step: Delivery) -> None:
        if not isinstance(step.command, AbortedAbove):  # nothing is queued, so there is nothing to withdraw
            raise Asleep(actor.id)

    def _deliver_to_quarantined(self, actor: Actor, broken: Quarantined, step: Delivery) -> None:
        what = f"event {broken.event} at position {broken.position} does not fit its state"
        if actor.is_agent:
            if step.addressed:
                raise CommandRefused(f"agent {actor.id} is quarantined: {what}. Start another agent.")
        elif isinstance(step.command, Abort):
            outcome = Outcome(status="faulted", reason="quarantined", detail=what)
            self.ledger.finish(actor.id, outcome, step.cause)

    def _decide(self, actor: Actor, step: Delivery) -> Decision:
        at = At(
            now_us=self.given.now_us,
            chance=self.given.chance,
            position=self.ledger.session.position + 1,
            marked=actor.marked,
            settings=self.given.settings,
            catalog=self.given.catalog,
        )
        try:
            return kind_of(self.given.kinds, actor.kind).decide(actor.state, step.command, at)
        except CommandRefused:
            if step.addressed:
                raise
            return Decision()
        except Exception as error:
            if actor.is_agent:
                raise
            detail = f"{type(error).__name__} in decide: {error}"
            raise _Broke(actor.id, f"{detail}; {_what_it_decided(step)}") from error

    def _carry_out(self, actor: Actor, decision: Decision, step: Delivery) -> None:
        cause = step.cause
        try:
            if decision.events:
                cause = self.ledger.record(actor.id, decision.events, step.cause)
            if decision.finish is not None and any(_is_birth_below(actor, each) for each in decision.events):
                raise KernelRuleBroken("it gave itself new work and finished, both at once")
        except KernelRuleBroken as broken:
            raise _Broke(actor.id, f"{broken}; {_what_it_decided(step)}") from broken
        if step.addressed and decision.reply is not None:
            self.reply = decision.reply
        if decision.abort_below:
            self.ledger.mark_below(actor.id, cause, background=decision.abort_background)
        steps = self.ledger.steps
        for message in decision.messages:
            steps.append(Delivery(message.to, message.command, cause, addressed=False))
        if decision.finish is not None:
            steps.append(Finish(actor.id, decision.finish, cause))


_TO_KERNEL: Final = frozenset({Fault, Orphan, WriteMemo, SpawnWork, SpawnAgent})
"""Commands that the kernel answers, whoever they are addressed to."""


def _is_birth_below(actor: Actor, event: Event) -> bool:
    return isinstance(event, WorkSpawned | AgentSpawned) and event.owner == actor.id


def _what_it_decided(step: Delivery) -> str:
    """The report that is lost with the decision, so that a person can still find it."""
    return f"it was deciding {step.command!r}"[:REPORT_CHARACTERS_MAX]


REPORT_CHARACTERS_MAX: Final = 2_000


def require(session: SessionState, id: ActorId) -> Actor:
    """The agent *id*.

    Raises:
        NotFound: there is none in this session.
    """
    actor = session.actors.get(id)
    if actor is None or not actor.is_agent:
        raise NotFound(f"there is no agent {id} in this session")
    return actor

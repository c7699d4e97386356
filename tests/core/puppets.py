"""A session at rest in memory, and actors that decide whatever a test tells them to."""

from typing import Final

import msgspec

from pi_actors.actors.agent.decider import KIND as AGENT
from pi_actors.actors.custom.decider import KIND as CUSTOM
from pi_actors.actors.generation.decider import KIND as GENERATION
from pi_actors.actors.tool.decider import KIND as TOOL
from pi_actors.core.catalog import Catalog, ToolFacts
from pi_actors.core.commit import Circumstances, run_to_rest, spawn_agent
from pi_actors.core.decider import (
    NOTHING,
    Abort,
    AbortWork,
    At,
    Birth,
    Command,
    Decision,
    Drained,
    Effect,
    Ended,
    Event,
    Kind,
    Quarantined,
    Send,
    SpawnAgent,
    Spawned,
    SpawnWork,
    WaitOver,
)
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import ROOT, ActorId, Position
from pi_actors.core.ledger import Drafted
from pi_actors.core.lifecycle import (
    AbortMarked,
    AgentSpawned,
    Choices,
    Outcome,
    OutcomeHeld,
    WaitStarted,
    WorkEnded,
    WorkSpawned,
)
from pi_actors.core.settings import Settings
from pi_actors.core.state import EMPTY, Actor, Kinds, SessionState, evolve, owed

PUPPET: Final = "test.puppet"


class Noted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The puppet has noted something."""

    what: str


class Misfit(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An event that no puppet can have had."""


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """Decide exactly this, or refuse, or break."""

    decision: Decision = NOTHING
    refuses: bool = False
    breaks: bool = False


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """What a puppet has noted."""

    notes: tuple[str, ...] = ()


def _decide(_: Notes, command: Command, at: At) -> Decision:
    match command:
        case Play(refuses=True):
            raise CommandRefused("no")
        case Play(breaks=True):
            raise ZeroDivisionError("the puppet broke")
        case Play():
            return command.decision
        case WaitOver():
            return note("over " + " ".join(each.status for each in command.outcomes))
        case Ended():
            return note(f"ended {command.actor}")
        case Drained():
            return note("drained")
        case Abort():
            return Decision(finish=Outcome(status="aborted"))
        case _:
            raise AssertionError(command)


def _evolve(state: Notes, position: Position, event: Event) -> Notes | Quarantined:
    if isinstance(event, Noted):
        return Notes(notes=(*state.notes, event.what))
    return Quarantined(position=position, event=type(event).__name__)


def _initial(birth: Birth) -> Notes:
    return Notes()


def _owed(_: Notes) -> tuple[Effect, ...]:
    return ()


def note(what: str) -> Decision:
    """The decision to note something."""
    return Decision(events=(Noted(what=what),))


KINDS: Final[Kinds] = {
    kind.name: kind
    for kind in (
        AGENT,
        GENERATION,
        TOOL,
        CUSTOM,
        Kind(name=PUPPET, initial=_initial, decide=_decide, evolve=_evolve, owed=_owed),
    )
}
GIVEN: Final = Circumstances(
    now_us=1,
    chance=0.5,
    settings=Settings(),
    catalog=Catalog(
        models=frozenset({"m"}),
        default_model="m",
        tools={"look": ToolFacts(name="look", replay="safe"), "push": ToolFacts(name="push")},
        default_tools=("look", "push"),
    ),
    kinds=KINDS,
)


class Stage:
    """A session with its root agent. Every commit must fold to what the deciders had."""

    def __init__(self) -> None:
        self.state = EMPTY
        self.log: list[Drafted] = []
        self._keep(spawn_agent(EMPTY, AgentSpawned(session_uuid="u"), GIVEN).drafts)

    def do(self, to: ActorId, command: Command, *more: Send) -> list[tuple[ActorId, Event]]:
        """Commit the command (and *more* with it); who met which event."""
        settled = run_to_rest(self.state, [Send(to, command), *more], GIVEN)
        self._keep(settled.drafts)
        assert self.state == settled.state
        self.reply = settled.reply
        return [(each.actor, each.event) for each in settled.drafts]

    def play(self, to: ActorId, *events: Event, **rest: object) -> list[tuple[ActorId, Event]]:
        """Let the puppet decide these events, and whatever else a Decision has."""
        decision = msgspec.structs.replace(NOTHING, events=events, **rest)
        return self.do(to, Play(decision=decision))

    def finish(self, *actors: ActorId, status: str = "completed") -> list[tuple[ActorId, Event]]:
        """Let puppets decide their outcomes, in one commit."""
        finish = Decision(finish=msgspec.convert({"status": status}, Outcome))
        first, *rest = (Send(actor, Play(decision=finish)) for actor in actors)
        return self.do(first.to, first.command, *rest)

    def work(
        self, above: ActorId = ROOT, *, kind: str = PUPPET, background: bool = False, name: str = ""
    ) -> ActorId:
        """A puppet below an agent or a work actor."""
        self.do(above, SpawnWork(name=name, kind=kind, version=1, input=b"", background=background))
        return self._spawned()

    def agent(self, owner: ActorId, name: str = "") -> ActorId:
        """An agent that a work actor owns."""
        self.do(owner, SpawnAgent(name=name or f"agent {self.state.position}", choices=Choices()))
        return self._spawned()

    def wait(self, waiter: ActorId, *on: ActorId, fail_fast: bool = False) -> list[tuple[ActorId, Event]]:
        """Let the puppet wait for live actors."""
        return self.play(waiter, WaitStarted(on=on, fail_fast=fail_fast))

    def meet(self, actor: ActorId, event: Event) -> None:
        """Fold an event that nobody decided, as a damaged log may hold it."""
        position = self.state.position + 1
        self._keep([Drafted(position, actor, 0, event)])

    def __getitem__(self, id: ActorId) -> Actor:
        """A live actor or an agent."""
        return self.state.actors[id]

    def lives(self, id: ActorId) -> bool:
        """Whether the work actor is not terminal."""
        return id in self.state.actors and self.state.actors[id].live

    def held(self, id: ActorId) -> str | None:
        """The status that the actor holds while it is completing."""
        held = self[id].held
        return None if held is None else held.status

    def marked(self) -> set[ActorId]:
        """Every live actor that must stop."""
        return {actor.id for actor in self.state.actors.values() if actor.live and actor.marked}

    def to_abort(self) -> set[ActorId]:
        """Whose abort step may run now."""
        return {actor.id for actor in self.state.actors.values() if AbortWork() in owed(actor, KINDS)}

    def notes(self, id: ActorId) -> tuple[str, ...]:
        """What a puppet has noted."""
        state = self[id].state
        assert isinstance(state, Notes), state
        return state.notes

    def _spawned(self) -> ActorId:
        assert isinstance(self.reply, Spawned), self.reply
        return self.reply.id

    def _keep(self, drafts: list[Drafted]) -> None:
        self.state = folded(drafts, self.state)
        self.log += drafts


def folded(log: list[Drafted], state: SessionState = EMPTY) -> SessionState:
    """The state that *log* leads to from *state*."""
    for each in log:
        state = evolve(state, KINDS, position=each.position, at_us=1, actor=each.actor, event=each.event)
    return state


def ended(events: list[tuple[ActorId, Event]]) -> dict[ActorId, str]:
    """Who has ended in a commit, and how."""
    return {actor: each.outcome.status for actor, each in events if isinstance(each, WorkEnded)}


def marks(events: list[tuple[ActorId, Event]]) -> list[ActorId]:
    """Who was marked in a commit."""
    return [actor for actor, each in events if isinstance(each, AbortMarked)]


def holds(events: list[tuple[ActorId, Event]]) -> dict[ActorId, str]:
    """Who holds an outcome since a commit."""
    return {actor: each.outcome.status for actor, each in events if isinstance(each, OutcomeHeld)}


def child_of(agent: ActorId, owner: ActorId, *, background: bool = False) -> WorkSpawned:
    """The birth of a puppet."""
    return WorkSpawned(kind=PUPPET, agent=agent, owner=owner, background=background)

"""A session's state: every actor that still matters, and the ownership tree between them.

The state is one immutable value; folding the log gives it. Finished work actors leave it, unless
they own an agent: agents never end. So the cost of a commit follows what is live, queued and in
context, never what has been.

Each node counts the ordinary children that are *busy* (live, or with something live below). A
count that reaches zero is all that idleness, completing actors and bottom-up aborts wait for,
so no commit ever walks the tree to find out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args

import immutables
import msgspec

from pi_actors.core.decider import AbortWork, Birth, Effect, Event, Kind, Passive, Quarantined
from pi_actors.core.ids import NOBODY, ActorId, Position
from pi_actors.core.lifecycle import (
    AbortMarked,
    AgentSpawned,
    KernelEvent,
    MemoWritten,
    Outcome,
    OutcomeHeld,
    WaitStarted,
    WorkEnded,
    WorkSpawned,
)

AGENT_KIND = "pi.agent"
Kinds: TypeAlias = Mapping[str, Kind[Any]]


NO_MEMOS: Final["immutables.Map[str, bytes]"] = immutables.Map()


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor waits for: the actors ``on``, of which ``outcomes`` are known."""

    on: tuple[ActorId, ...]
    fail_fast: bool
    outcomes: tuple[tuple[ActorId, Outcome], ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether all of them are terminal."""
        known = {id for id, _ in self.outcomes}
        return all(id in known for id in self.on)

    def in_order(self) -> tuple[Outcome, ...]:
        """The outcomes in the order of ``on``."""
        known = dict(self.outcomes)
        return tuple(known[id] for id in self.on)


class Actor(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One node. ``parent``: its owner, or its agent where a work actor has no other owner.

    ``held``: the outcome is decided and waits for the work below. ``marked``: it must stop.
    ``wait``: other actors it waits for. ``memos``: names and JSON values it remembers.
    ``busy_below``: ordinary children that are live or have something live below them.
    """

    id: ActorId
    kind: str
    agent: ActorId
    owner: ActorId
    parent: ActorId
    state: msgspec.Struct
    background: bool = False
    held: Outcome | None = None
    marked: bool = False
    ended: bool = False
    wait: Waiting | None = None
    memos: "immutables.Map[str, bytes]" = NO_MEMOS
    busy_below: int = 0

    @property
    def is_agent(self) -> bool:
        """Agents own work but are never live themselves."""
        return self.kind == AGENT_KIND

    @property
    def live(self) -> bool:
        """A work actor that is not terminal."""
        return not self.ended and self.kind != AGENT_KIND

    @property
    def busy(self) -> bool:
        """Live, or with something ordinary that is live below."""
        return self.busy_below > 0 or self.live


class Over(msgspec.Struct, frozen=True):
    """The state of an actor that has ended and stays as an owner: whatever it was, it is past."""


Actors: TypeAlias = "immutables.Map[ActorId, Actor]"
Children: TypeAlias = "immutables.Map[ActorId, immutables.Map[ActorId, None]]"


class SessionState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything deciders may look at, as of ``position``.

    ``busy_agents``: ownerless agents with something ordinary that is live below them; the session
    is idle when there is none.
    """

    position: Position = 0
    at_us: int = 0
    uuid: str = ""
    busy_agents: int = 0
    actors: Actors = immutables.Map()
    children: Children = immutables.Map()
    waiters: Children = immutables.Map()


EMPTY = SessionState()
OVER: Final = Over()
NO_ACTORS: Actors = immutables.Map()
NONE: "immutables.Map[ActorId, None]" = immutables.Map()

STATE_VERSION: Final = 1
"""Rises whenever the structs here, or what ``evolve`` makes of an event, change; see ``Kind.version``."""

KERNEL_EVENTS: Final = frozenset(get_args(KernelEvent))
"""The types of the events that the kernel evolves; all others are their actor's own."""

ANY_KIND: Final = "*"
"""Under this name ``Kinds`` holds the kind of every actor whose own kind it does not hold."""


def evolve(
    session: SessionState, kinds: Kinds, *, position: Position, at_us: int, actor: ActorId, event: Event
) -> SessionState:
    """The state after *event* at *position* changed *actor*. Never raises.

    An event that its actor cannot have had quarantines that actor and nobody else.
    """
    if type(event) not in KERNEL_EVENTS:
        return evolve_own(session, kinds, position=position, at_us=at_us, actor=actor, events=(event,))
    growth = _Growth(session)
    match event:
        case AgentSpawned() | WorkSpawned():
            growth.spawn(_born(session.actors, kinds, position, event))
        case AbortMarked() | OutcomeHeld() | WaitStarted() | WorkEnded() if growth.is_agent(actor):
            growth.quarantine(actor, position, event)
        case AbortMarked():
            growth.change(actor, marked=True)
        case OutcomeHeld():
            growth.change(actor, held=event.outcome)
        case WaitStarted():
            growth.wait(actor, event)
        case MemoWritten():
            growth.remember(actor, event)
        case WorkEnded():
            growth.end(actor, event.outcome)
        case _:
            raise AssertionError(f"{type(event).__name__} is no event of the kernel")
    return SessionState(
        position=position,
        at_us=at_us,
        uuid=_uuid(session, event),
        busy_agents=growth.busy_agents,
        actors=growth.actors,
        children=growth.children,
        waiters=growth.waiters,
    )


def evolve_own(
    session: SessionState,
    kinds: Kinds,
    *,
    position: Position,
    at_us: int,
    actor: ActorId,
    events: Sequence[Event],
) -> SessionState:
    """The state after *events* from *position* on, none of the kernel's: they change *actor* alone."""
    node, actors = session.actors.get(actor), session.actors
    if node is not None and not node.ended and type(node.state) is not Quarantined:
        state, evolve_state = node.state, kind_of(kinds, node.kind).evolve
        for place, event in enumerate(events, position):
            state = evolve_state(state, place, event)
            if type(state) is Quarantined:
                break
        actors = actors.set(actor, msgspec.structs.replace(node, state=state))
    return SessionState(
        position=position + len(events) - 1,
        at_us=at_us,
        uuid=session.uuid,
        busy_agents=session.busy_agents,
        actors=actors,
        children=session.children,
        waiters=session.waiters,
    )


def owed(actor: Actor, kinds: Kinds) -> tuple[Effect, ...]:
    """What the shell must be doing for *actor* now."""
    if actor.ended or actor.held is not None:
        return ()
    if actor.marked:
        return () if actor.busy_below else (AbortWork(),)
    if actor.wait is not None or type(actor.state) in _OWING_NOTHING:
        return ()
    return kind_of(kinds, actor.kind).owed(actor.state)


_OWING_NOTHING: Final = frozenset({Quarantined, Passive})


def kind_of(kinds: Kinds, name: str) -> Kind[Any]:
    """The kind of that name, or the one that stands for all kinds of users."""
    return kinds.get(name) or kinds[ANY_KIND]


class _Growth:
    """The next state in the making, for one event."""

    def __init__(self, session: SessionState) -> None:
        self.busy_agents = session.busy_agents
        self.actors = session.actors
        self.children = session.children
        self.waiters = session.waiters

    def change(self, id: ActorId, **changes: object) -> None:
        actor = self.actors.get(id)
        if actor is not None and not actor.ended:
            self.actors = self.actors.set(id, msgspec.structs.replace(actor, **changes))

    def is_agent(self, id: ActorId) -> bool:
        actor = self.actors.get(id)
        return actor is not None and actor.is_agent

    def quarantine(self, id: ActorId, position: Position, event: Event) -> None:
        if not isinstance(self.actors[id].state, Quarantined):
            self.change(id, state=Quarantined(position=position, event=type(event).__name__))

    def spawn(self, node: Actor) -> None:
        self.actors = self.actors.set(node.id, node)
        if node.parent != NOBODY:
            siblings = self.children.get(node.parent, NONE)
            self.children = self.children.set(node.parent, siblings.set(node.id, None))
        if node.live and not node.background:
            self._count(node.parent, +1)

    def end(self, id: ActorId, outcome: Outcome) -> None:
        actor = self.actors.get(id)
        if actor is None or not actor.live:
            return
        self._stop_waiting(actor)
        ended = msgspec.structs.replace(
            actor, state=OVER, ended=True, held=None, marked=False, wait=None, memos=NO_MEMOS
        )
        self.actors = self.actors.set(id, ended)
        if not actor.background and actor.busy_below == 0:
            self._count(actor.parent, -1)
        self._tell_waiters(id, outcome)
        self._prune(id)

    def wait(self, id: ActorId, event: WaitStarted) -> None:
        actor = self.actors.get(id)
        if actor is None or not actor.live:
            return
        wait = Waiting(on=event.on, fail_fast=event.fail_fast, outcomes=event.known)
        known = {each for each, _ in event.known}
        for target in event.on:
            if target not in known:
                self.waiters = self.waiters.set(target, self.waiters.get(target, NONE).set(id, None))
        self.change(id, wait=None if wait.is_over else wait)

    def remember(self, id: ActorId, event: MemoWritten) -> None:
        actor = self.actors.get(id)
        if actor is not None and event.name not in actor.memos:
            self.change(id, memos=actor.memos.set(event.name, event.value))

    def _count(self, id: ActorId, change: int) -> None:
        """Tell *id* and whoever is above that one more (or less) ordinary child is busy."""
        while id != NOBODY:
            actor = self.actors.get(id)
            if actor is None:
                return
            counted = msgspec.structs.replace(actor, busy_below=actor.busy_below + change)
            self.actors = self.actors.set(id, counted)
            if actor.busy == counted.busy or actor.background:
                return
            id = actor.parent
        self.busy_agents += change

    def _tell_waiters(self, id: ActorId, outcome: Outcome) -> None:
        for waiter in self.waiters.get(id, ()):
            actor = self.actors.get(waiter)
            if actor is not None and actor.wait is not None:
                outcomes = (*actor.wait.outcomes, (id, outcome))
                wait = msgspec.structs.replace(actor.wait, outcomes=outcomes)
                self.change(waiter, wait=None if wait.is_over else wait)
        if id in self.waiters:
            self.waiters = self.waiters.delete(id)

    def _stop_waiting(self, actor: Actor) -> None:
        for target in () if actor.wait is None else actor.wait.on:
            others = self.waiters.get(target, NONE)
            if actor.id in others:
                others = others.delete(actor.id)
                self.waiters = self.waiters.set(target, others) if others else self.waiters.delete(target)

    def _prune(self, id: ActorId) -> None:
        """Forget terminal actors that own nothing any more, upwards."""
        while id != NOBODY:
            actor = self.actors.get(id)
            if actor is None or not actor.ended or id in self.children:
                return
            self.actors = self.actors.delete(id)
            if actor.parent == NOBODY:
                return
            siblings = self.children[actor.parent].delete(id)
            if siblings:
                self.children = self.children.set(actor.parent, siblings)
            else:
                self.children = self.children.delete(actor.parent)
            id = actor.parent


def _born(actors: Actors, kinds: Kinds, id: Position, event: AgentSpawned | WorkSpawned) -> Actor:
    """The new actor; one that cannot have been born so is quarantined and belongs to nobody."""
    if isinstance(event, AgentSpawned):
        kind, agent, parent, background = AGENT_KIND, id, event.owner, False
    else:
        kind, agent, background = event.kind, event.agent, event.background
        parent = event.owner or event.agent
    birth = Birth(id=id, agent=agent, owner=event.owner, event=event)
    fits = _has_place(actors, event)
    return Actor(
        id=id,
        kind=kind,
        agent=agent,
        owner=event.owner,
        parent=parent if fits else NOBODY,
        state=_first_state(kind_of(kinds, kind), birth) if fits else _impossible(birth),
        background=background,
    )


def _has_place(actors: Actors, event: AgentSpawned | WorkSpawned) -> bool:
    """Whether the owner is there, and is what may own this."""
    owner = actors.get(event.owner)
    if event.owner != NOBODY and (owner is None or not owner.live):
        return False
    if isinstance(event, AgentSpawned):
        return True
    agent = actors.get(event.agent)
    is_work_of_agent = agent is not None and agent.is_agent and event.kind != AGENT_KIND
    return is_work_of_agent and (owner is None or owner.agent == event.agent)


def _first_state(kind: Kind[Any], birth: Birth) -> msgspec.Struct:
    """The state the actor is born with; an input that is no input of its kind quarantines it."""
    try:
        state: msgspec.Struct = kind.initial(birth)
    except msgspec.MsgspecError:
        return _impossible(birth)
    return state


def _impossible(birth: Birth) -> Quarantined:
    return Quarantined(position=birth.id, event=type(birth.event).__name__)


def _uuid(session: SessionState, event: Event) -> str:
    if isinstance(event, AgentSpawned) and event.session_uuid is not None:
        return event.session_uuid
    return session.uuid

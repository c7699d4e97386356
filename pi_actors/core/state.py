"""A session's state: every actor that still matters, and the ownership tree between them.

The state is one immutable value; folding the log gives it. Finished actors leave it, so its size
and the cost of a commit follow what is live, queued and in context, never what has been.

Each node counts the ordinary children that are *busy* (live, or with something live below). A
count that reaches zero is all that idleness, completing actors and bottom-up aborts wait for,
so no commit ever walks the tree to find out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import immutables
import msgspec

from pi_actors.core.decider import AbortWork, Birth, Effect, Event, Kind, Quarantined
from pi_actors.core.ids import NOBODY, ActorId, Position
from pi_actors.core.lifecycle import (
    AbortMarked,
    AgentSpawned,
    Outcome,
    OutcomeHeld,
    WorkEnded,
    WorkSpawned,
)

AGENT_KIND = "pi.agent"
Kinds: TypeAlias = Mapping[str, Kind[Any]]
V = TypeVar("V")


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """Stands for the state of an actor whose kind this process does not have."""

    kind: str


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """One node. ``parent``: its owner, or its agent where a work actor has no other owner.

    ``held``: the outcome is decided and waits for the work below. ``marked``: it must stop.
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


Actors: TypeAlias = "immutables.Map[ActorId, Actor]"
Children: TypeAlias = "immutables.Map[ActorId, immutables.Map[ActorId, None]]"


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
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


EMPTY = SessionState()
NO_CHILDREN: "immutables.Map[ActorId, None]" = immutables.Map()


def evolve(
    session: SessionState, kinds: Kinds, *, position: Position, at_us: int, actor: ActorId, event: Event
) -> SessionState:
    """The state after *event* at *position* changed *actor*. Never raises.

    An event that its actor cannot have had quarantines that actor and nobody else.
    """
    actors, children, uuid, change = session.actors, session.children, session.uuid, 0
    match event:
        case AgentSpawned() | WorkSpawned():
            actors, children, change = _spawn(actors, children, kinds, position, event)
            if isinstance(event, AgentSpawned) and event.session_uuid is not None:
                uuid = event.session_uuid
        case AbortMarked():
            actors = _change(actors, actor, marked=True)
        case OutcomeHeld():
            actors = _change(actors, actor, held=event.outcome)
        case WorkEnded():
            actors, children, change = _end(actors, children, actor)
        case _:
            actors = _advance(actors, kinds, position, actor, event)
    return SessionState(
        position=position,
        at_us=at_us,
        uuid=uuid,
        busy_agents=session.busy_agents + change,
        actors=actors,
        children=children,
    )


def owed(actor: Actor, kinds: Kinds) -> tuple[Effect, ...]:
    """What the shell must be doing for *actor* now."""
    if actor.ended or actor.held is not None:
        return ()
    if actor.marked:
        return () if actor.busy_below else (AbortWork(),)
    kind = kinds.get(actor.kind)
    if kind is None or isinstance(actor.state, Quarantined | Blocked):
        return ()
    return kind.owed(actor.state)


def below(session: SessionState, actor: ActorId) -> Iterator[Actor]:
    """Everything ordinary below *actor*, parents first, through terminal owners too."""
    waiting = [actor]
    while waiting:
        for child in session.children.get(waiting.pop(), ()):
            node = session.actors[child]
            if not node.background:
                yield node
                waiting.append(child)


def above(session: SessionState, actor: Actor) -> Iterator[Actor]:
    """The actors above *actor* on the ordinary path, nearest first, up to a background boundary."""
    node: Actor | None = actor
    while node is not None and not node.background:
        node = session.actors.get(node.parent)
        if node is not None:
            yield node


def is_cancelled(actor: Actor) -> bool:
    """Whether a live actor's mark or held outcome asks everything ordinary below it to stop."""
    return actor.live and (actor.marked or (actor.held is not None and actor.held.status != "completed"))


def _change(actors: Actors, id: ActorId, **changes: object) -> Actors:
    actor = actors.get(id)
    return actors if actor is None else actors.set(id, msgspec.structs.replace(actor, **changes))


def _advance(actors: Actors, kinds: Kinds, position: Position, id: ActorId, event: Event) -> Actors:
    actor = actors.get(id)
    if actor is None or isinstance(actor.state, Quarantined | Blocked):
        return actors
    state = kinds[actor.kind].evolve(actor.state, position, event)
    return actors.set(
        id,
        Actor(
            id=actor.id,
            kind=actor.kind,
            agent=actor.agent,
            owner=actor.owner,
            parent=actor.parent,
            state=state,
            background=actor.background,
            held=actor.held,
            marked=actor.marked,
            ended=actor.ended,
            busy_below=actor.busy_below,
        ),
    )


def _spawn(
    actors: Actors, children: Children, kinds: Kinds, id: Position, event: AgentSpawned | WorkSpawned
) -> tuple[Actors, Children, int]:
    node = _node(kinds, id, event)
    parent, change = node.parent, 0
    actors = actors.set(id, node)
    if parent != NOBODY:
        siblings = children.get(parent, NO_CHILDREN)
        children = children.set(parent, siblings.set(id, None))
    if node.live and not node.background:
        actors, change = _count(actors, parent, +1)
    return actors, children, change


def _node(kinds: Kinds, id: ActorId, event: AgentSpawned | WorkSpawned) -> Actor:
    if isinstance(event, AgentSpawned):
        kind, agent, parent, background = AGENT_KIND, id, event.owner, False
    else:
        kind, agent, background = event.kind, event.agent, event.background
        parent = event.owner or event.agent
    born = kinds.get(kind)
    birth = Birth(id=id, agent=agent, owner=event.owner, event=event)
    return Actor(
        id=id,
        kind=kind,
        agent=agent,
        owner=event.owner,
        parent=parent,
        state=Blocked(kind=kind) if born is None else born.initial(birth),
        background=background,
    )


def _end(actors: Actors, children: Children, id: ActorId) -> tuple[Actors, Children, int]:
    actor, change = actors.get(id), 0
    if actor is None or actor.ended:
        return actors, children, change
    actors = actors.set(id, msgspec.structs.replace(actor, ended=True, held=None, marked=False))
    if actor.busy_below == 0 and not actor.background:
        actors, change = _count(actors, actor.parent, -1)
    actors, children = _prune(actors, children, id)
    return actors, children, change


def _count(actors: Actors, id: ActorId, change: int) -> tuple[Actors, int]:
    """Tell *id* and whoever is above that one more (or less) ordinary child is busy.

    Returns also by how much the number of busy ownerless agents changed.
    """
    while id != NOBODY:
        actor = actors.get(id)
        if actor is None:
            return actors, 0
        counted = msgspec.structs.replace(actor, busy_below=actor.busy_below + change)
        actors = actors.set(id, counted)
        if actor.busy == counted.busy or actor.background:
            return actors, 0
        id = actor.parent
    return actors, change


def _prune(actors: Actors, children: Children, id: ActorId) -> tuple[Actors, Children]:
    """Forget terminal actors that own nothing any more, upwards."""
    while id != NOBODY:
        actor = actors.get(id)
        if actor is None or not actor.ended or id in children:
            break
        actors = actors.delete(id)
        siblings = children[actor.parent].delete(id)
        children = children.set(actor.parent, siblings) if siblings else children.delete(actor.parent)
        id = actor.parent
    return actors, children

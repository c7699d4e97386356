"""The ownership tree: every agent and every work actor that has not ended.

A node appears with the commit that spawns its actor; a work actor's vanishes with the commit that
ends it. What depends on this process (blocked kinds) is not told by the log and not here.
"""

from collections.abc import Iterator
from typing import Final, Literal

import immutables
import msgspec

from pi_actors.actors.agent.entries import fork_of
from pi_actors.actors.agent.messages import KIND, TOPICS, RunEnded, RunStarted
from pi_actors.core.ids import NOBODY, ActorId, EntryId, Position
from pi_actors.core.lifecycle import AbortMarked, AgentSpawned, OutcomeHeld, WorkEnded, WorkSpawned
from pi_actors.core.record import Recorded
from projections.fold import Document, Projection, as_json


class ForkedFrom(msgspec.Struct, frozen=True, kw_only=True):
    """Whose history an agent goes on from, and the last entry of it."""

    agent: ActorId
    entry: EntryId


class WorkNode(msgspec.Struct, frozen=True, kw_only=True):
    """A live work actor. ``owner`` is the work actor it belongs to, or 0: then it is its agent's."""

    id: ActorId
    kind: str
    agent: ActorId
    owner: ActorId
    background: bool
    completing: bool = False
    abort_requested: bool = False


class AgentNode(msgspec.Struct, frozen=True, kw_only=True):
    """An agent. ``above``: who has it below them on ordinary traversal, nearest first.

    Owners never change, so ``above`` is fixed at birth and outlives owners that have ended.
    ``parent``: the agent whose work owns it, also across a boundary; 0 where nobody does.
    ``forked_from``: None for an agent that began with nothing.
    """

    id: ActorId
    owner: ActorId
    parent: ActorId = NOBODY
    above: tuple[ActorId, ...] = ()
    run: Position | None = None
    forked_from: ForkedFrom | None = None


class TreeState(msgspec.Struct, frozen=True, kw_only=True):
    """All agents and all live work actors, by id."""

    agents: "immutables.Map[ActorId, AgentNode]" = immutables.Map()
    work: "immutables.Map[ActorId, WorkNode]" = immutables.Map()


class ActorNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as shown.

    A work actor is pending, or completing: its outcome waits for what is below. An agent is busy
    in a run, waiting where only ordinary work below it lives, idle otherwise. ``waiting_on``: what
    a completing or marked actor waits for, directly below it. ``blocked``: why the actor cannot go
    on in this process; the log does not tell, so only an open session says it.
    """

    id: ActorId
    kind: str
    agent: ActorId
    owner: ActorId
    background: bool = False
    state: Literal["pending", "completing", "busy", "waiting", "idle"]
    waiting_on: tuple[ActorId, ...] = ()
    abort_requested: bool = False
    blocked: str | None = None
    forked_from: ForkedFrom | None = None


def evolve(state: TreeState, recorded: Recorded) -> TreeState:
    """The tree after *recorded*."""
    id = recorded.actor
    match recorded.event:
        case AgentSpawned() as event:
            return TreeState(agents=state.agents.set(id, _born(state, id, event)), work=state.work)
        case WorkSpawned() as event if event.agent in state.agents:
            node = WorkNode(
                id=id, kind=event.kind, agent=event.agent, owner=event.owner, background=event.background
            )
            return TreeState(agents=state.agents, work=state.work.set(id, node))
        case AbortMarked():
            return _change(state, id, abort_requested=True)
        case OutcomeHeld():
            return _change(state, id, completing=True)
        case WorkEnded() if id in state.work:
            return TreeState(agents=state.agents, work=state.work.delete(id))
        case RunStarted():
            return _run(state, id, recorded.position)
        case RunEnded():
            return _run(state, id, None)
        case _:
            return state


def agent_of(state: TreeState, recorded: Recorded) -> ActorId | None:
    """The agent whose folds *recorded* is for: its own or one of its live work actors' event.

    *state* is the tree before the event. None: nobody can have had it.
    """
    event, id = recorded.event, recorded.actor
    match event:
        case AgentSpawned():
            return id
        case WorkSpawned():
            return event.agent if event.agent in state.agents else None
        case _ if type(event) in _OF_AGENTS:
            return id if id in state.agents else None
        case _:
            node = state.work.get(id)
            return None if node is None else node.agent


def subtree_of(state: TreeState, agent: ActorId) -> set[ActorId]:
    """The agent and every agent below it, in the background too, however long ago."""
    children: dict[ActorId, list[ActorId]] = {}
    for node in state.agents.values():
        children.setdefault(node.parent, []).append(node.id)
    found, waiting = set[ActorId](), [agent]
    while waiting:
        id = waiting.pop()
        if id not in found:
            found.add(id)
            waiting.extend(children.get(id, ()))
    return found


def nodes(state: TreeState) -> list[ActorNode]:
    """The tree's nodes, oldest first."""
    busy_below = {id for node in state.work.values() for id in _ordinary_above(state, node)}
    shown = [_agent_node(node, busy_below) for node in state.agents.values()]
    children = _children(state, busy_below)
    shown += [_work_node(node, children.get(node.id, [])) for node in state.work.values()]
    return sorted(shown, key=lambda node: node.id)


def document(state: TreeState) -> Document:
    """The tree as JSON."""
    return {"nodes": [as_json(node) for node in nodes(state)]}


TREE: Final = Projection(name="tree", version=2, initial=TreeState(), evolve=evolve, document=document)

_OF_AGENTS: Final = frozenset(TOPICS.values())


def _born(state: TreeState, id: ActorId, event: AgentSpawned) -> AgentNode:
    above, parent = tuple(_ancestors(state, event.owner)), state.work.get(event.owner)
    return AgentNode(
        id=id,
        owner=event.owner,
        parent=NOBODY if parent is None else parent.agent,
        above=above,
        forked_from=_forked_from(event),
    )


def _forked_from(event: AgentSpawned) -> ForkedFrom | None:
    try:
        fork = fork_of(event)
    except msgspec.MsgspecError:
        return None
    return None if fork is None else ForkedFrom(agent=fork.parent, entry=fork.at)


def _change(state: TreeState, id: ActorId, **changes: bool) -> TreeState:
    node = state.work.get(id)
    if node is None:
        return state
    work = state.work.set(id, msgspec.structs.replace(node, **changes))
    return TreeState(agents=state.agents, work=work)


def _run(state: TreeState, id: ActorId, run: Position | None) -> TreeState:
    agent = state.agents.get(id)
    if agent is None:
        return state
    agents = state.agents.set(id, msgspec.structs.replace(agent, run=run))
    return TreeState(agents=agents, work=state.work)


def _ordinary_above(state: TreeState, node: WorkNode) -> Iterator[ActorId]:
    if not node.background:
        yield from _ancestors(state, node.owner or node.agent)


def _ancestors(state: TreeState, id: ActorId) -> Iterator[ActorId]:
    """*id* and everything above it, up to a background boundary or an ownerless agent.

    Ids fall on the way up; an owner that is no older than what it owns ends it.
    """
    while id != NOBODY:
        yield id
        if id in state.agents:
            yield from state.agents[id].above
            return
        node = state.work.get(id)
        above = NOBODY if node is None or node.background else node.owner or node.agent
        id = above if above < id else NOBODY


def _children(state: TreeState, busy_below: set[ActorId]) -> dict[ActorId, list[ActorId]]:
    """What each work actor has directly below it that its end must wait for."""
    children: dict[ActorId, list[ActorId]] = {}
    for node in state.work.values():
        children.setdefault(node.owner, []).append(node.id)
    for agent in state.agents.values():
        if agent.id in busy_below:
            children.setdefault(_nearest_owner(state, agent), []).append(agent.id)
    return children


def _nearest_owner(state: TreeState, agent: AgentNode) -> ActorId:
    """The live work actor nearest above *agent* within the agent above it, 0 where there is none."""
    for id in agent.above:
        if id in state.work:
            return id
        if id in state.agents:
            break
    return NOBODY


def _agent_node(node: AgentNode, busy_below: set[ActorId]) -> ActorNode:
    state: Literal["busy", "waiting", "idle"] = "waiting" if node.id in busy_below else "idle"
    return ActorNode(
        id=node.id,
        kind=KIND,
        agent=node.id,
        owner=node.owner,
        state="busy" if node.run is not None else state,
        forked_from=node.forked_from,
    )


def _work_node(node: WorkNode, children: list[ActorId]) -> ActorNode:
    stopping = node.completing or node.abort_requested
    return ActorNode(
        id=node.id,
        kind=node.kind,
        agent=node.agent,
        owner=node.owner,
        background=node.background,
        state="completing" if node.completing else "pending",
        waiting_on=tuple(sorted(children)) if stopping else (),
        abort_requested=node.abort_requested,
    )

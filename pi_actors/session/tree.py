"""The ownership tree as an open session shows it."""

from typing import Literal

from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Passive
from pi_actors.core.state import Actor, SessionState
from pi_actors.runtime.live import LiveSession
from projections.tree import ActorNode, ForkedFrom


def nodes_of(live: LiveSession) -> list[ActorNode]:
    """Every agent and every live work actor of the shown state, oldest first."""
    state = live.line.shown
    shown = (actor for actor in state.actors.values() if not actor.ended)
    nodes = (_node(state, actor, live.blocked(actor)) for actor in shown)
    return sorted(nodes, key=lambda node: node.id)


def _node(state: SessionState, actor: Actor, blocked: str | None) -> ActorNode:
    stopping = actor.held is not None or actor.marked
    return ActorNode(
        id=actor.id,
        kind=actor.kind,
        agent=actor.agent,
        owner=actor.owner,
        background=actor.background,
        state=_condition(actor),
        waiting_on=_busy_children(state, actor) if stopping else _waited_for(actor),
        abort_requested=actor.marked,
        blocked=blocked,
        forked_from=_forked_from(actor),
    )


def _condition(actor: Actor) -> Literal["pending", "completing", "busy", "waiting", "idle"]:
    if not actor.is_agent:
        return "pending" if actor.held is None else "completing"
    if isinstance(actor.state, AgentState) and actor.state.run is not None:
        return "busy"
    return "waiting" if actor.busy else "idle"


def _forked_from(actor: Actor) -> ForkedFrom | None:
    match actor.state:
        case AgentState(forked=(agent, entry)) | Passive(forked=(agent, entry)):
            return ForkedFrom(agent=agent, entry=entry)
        case _:
            return None


def _waited_for(actor: Actor) -> tuple[int, ...]:
    if actor.wait is None:
        return ()
    known = {id for id, _ in actor.wait.outcomes}
    return tuple(id for id in actor.wait.on if id not in known)


def _busy_children(state: SessionState, actor: Actor) -> tuple[int, ...]:
    children = (state.actors[id] for id in state.children.get(actor.id, ()))
    return tuple(sorted(child.id for child in children if child.busy and not child.background))

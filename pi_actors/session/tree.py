"""The ownership tree as an open session shows it."""

from typing import Literal

from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Quarantined
from pi_actors.core.state import Actor, Blocked, SessionState
from projections.tree import ActorNode


def nodes_of(state: SessionState) -> list[ActorNode]:
    """Every agent and every live work actor of *state*, oldest first."""
    shown = (actor for actor in state.actors.values() if not actor.ended)
    return sorted((_node(state, actor) for actor in shown), key=lambda node: node.id)


def _node(state: SessionState, actor: Actor) -> ActorNode:
    stopping = actor.held is not None or actor.marked
    return ActorNode(
        id=actor.id,
        kind=actor.kind,
        agent=actor.agent,
        owner=actor.owner,
        background=actor.background,
        state=_condition(actor),
        waiting_on=_busy_children(state, actor) if stopping else (),
        abort_requested=actor.marked,
        blocked=_blocked(actor),
    )


def _condition(actor: Actor) -> Literal["pending", "completing", "busy", "waiting", "idle"]:
    if not actor.is_agent:
        return "pending" if actor.held is None else "completing"
    if isinstance(actor.state, AgentState) and actor.state.run is not None:
        return "busy"
    return "waiting" if actor.busy else "idle"


def _blocked(actor: Actor) -> str | None:
    match actor.state:
        case Blocked(kind=kind):
            return f"this process has no kind {kind!r}"
        case Quarantined(position=position, topic=topic):
            return f"quarantined: event {topic} at position {position} does not fit its state"
        case _:
            return None


def _busy_children(state: SessionState, actor: Actor) -> tuple[int, ...]:
    children = (state.actors[id] for id in state.children.get(actor.id, ()))
    return tuple(sorted(child.id for child in children if child.busy and not child.background))

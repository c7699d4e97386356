"""The ownership tree as the network sees it: of the whole session, or what is below one agent."""

from collections.abc import Sequence

from pi_actors.core.errors import NotFound
from pi_actors.core.ids import NOBODY, ActorId
from pi_actors.core.text import Json
from pi_actors.server.feed import Feed
from pi_actors.server.served import Served
from projections.fold import as_json, iso
from projections.tree import ActorNode


async def tree_of(served: Served, feed: Feed, agent: ActorId | None = None) -> Json:
    """``{"position", "at", "tree": [NODE, ...]}``, of *agent* and what is below it, or of all.

    Only a session that this process owns tells what is ``blocked``, as the log does not know.

    Raises:
        NotFound: the session has no such agent.
    """
    if served.session is not None:
        nodes, shown = served.session.tree(), served.session.live.line.shown
        position, at_us = shown.position, shown.at_us
    else:
        state = await feed.state()
        nodes, position, at_us = state.tree(), state.position, state.at_us
    chosen = nodes if agent is None else below(nodes, agent)
    return {"position": position, "at": iso(at_us), "tree": as_json(chosen)}


def below(nodes: Sequence[ActorNode], agent: ActorId) -> list[ActorNode]:
    """*agent*'s node and all that live below it. Owners are older than what they own.

    Raises:
        NotFound: there is no such agent.
    """
    if not any(node.id == agent and node.agent == agent for node in nodes):
        known = ", ".join(str(node.id) for node in nodes if node.id == node.agent)
        raise NotFound(f"no agent {agent}; the session's agents are: {known}")
    found: dict[ActorId, ActorNode] = {}
    for node in nodes:
        above = node.owner if node.owner != NOBODY or node.id == node.agent else node.agent
        if node.id == agent or above in found:
            found[node.id] = node
    return list(found.values())

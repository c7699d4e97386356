"""Forks: an agent that goes on from an earlier entry of another, by reference and without copying."""

import msgspec

from pi_actors.actors.agent.state import AgentState, as_of, fork_input
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import ActorId, EntryId
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.runtime.live import LiveSession


async def fork_event(live: LiveSession, agent: ActorId, at: EntryId, request_id: str | None) -> AgentSpawned:
    """The birth of an agent that goes on from the entry *at* of *agent*'s history.

    Raises:
        CommandRefused: there is no such entry in it.
    """
    parent = await _parent(live, agent, at)
    await live.passivation.wake(parent)
    state = as_of(live.shell.agent_state(parent), at) or await _read(live, parent, at)
    inherited = msgspec.msgpack.encode(fork_input(state, at))
    return AgentSpawned(choices=state.choices, request_id=request_id, input=inherited)


async def _parent(live: LiveSession, agent: ActorId, at: EntryId) -> ActorId:
    """The agent that the entry *at* is of: *agent*, or one that it goes on from."""
    found = await live.entry_ids(agent, before=at + 1, limit=1)
    recorded = await live.recorded(at) if found == [at] else None
    if recorded is None:
        raise CommandRefused(
            f"entry {at} is not in the history of agent {agent}; take one of agent.history()"
        )
    return recorded.actor


async def _read(live: LiveSession, agent: ActorId, at: EntryId) -> AgentState:
    """The agent's state just after its entry *at*, folded from the log."""
    actor = (await live.state_at(at)).actors[agent]
    assert isinstance(actor.state, AgentState), actor
    return actor.state

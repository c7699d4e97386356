"""The whole session folded: every agent's documents, which entries it has in context, the ownership tree.

An event touches the tree and the folds of one agent. Documents are made from the state when somebody
asks for them, so folding pays for nothing that is not looked at. The state holds what is live, queued
or in context, and of entries the ids only: it does not grow with what is over.
"""

from collections.abc import Iterable
from typing import Final

import immutables
import msgspec

from pi_actors.core.errors import NotFound
from pi_actors.core.ids import ActorId, EntryId, Position
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.messages import Usage
from pi_actors.core.record import Recorded
from projections import usage
from projections.agent import AGENT, AgentDocumentState
from projections.fold import Document
from projections.inbox import INBOX, InboxState
from projections.live import LIVE, LiveState
from projections.provider import PROVIDER, ProviderState
from projections.transcript import TRANSCRIPT, TranscriptState, active_ids
from projections.tree import TREE, ActorNode, TreeState, agent_of, nodes, subtree_of
from projections.usage import USAGE, UsageState

VERSION: Final = 1
"""Of how the folds are put together here; each has a version of its own."""


class AgentState(msgspec.Struct, frozen=True, kw_only=True):
    """The folds of one agent, which all see the same events."""

    live: LiveState = LIVE.initial
    inbox: InboxState = INBOX.initial
    usage: UsageState = USAGE.initial
    agent: AgentDocumentState = AGENT.initial
    provider: ProviderState = PROVIDER.initial
    transcript: TranscriptState = TRANSCRIPT.initial


class FoldedState(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of a session as of the commit that ends at ``position``.

    Equal positions of a session have equal states, whoever folded them and whether they began with the
    log or with a snapshot. ``at_us``: when that commit was made, in UTC microseconds.
    """

    position: Position = 0
    at_us: int = 0
    uuid: str = ""
    tree_state: TreeState = TREE.initial
    folds: "immutables.Map[ActorId, AgentState]" = immutables.Map()

    @property
    def agents(self) -> tuple[ActorId, ...]:
        """The ids of all agents, oldest first."""
        return tuple(sorted(self.folds))

    def documents(self, agent_id: ActorId) -> dict[str, Document]:
        """The agent's documents by name, as fresh JSON.

        Raises:
            NotFound: the session has no such agent at this position.
        """
        state = self.agent(agent_id)
        return {
            LIVE.name: LIVE.document(state.live),
            INBOX.name: INBOX.document(state.inbox),
            USAGE.name: USAGE.document(state.usage),
            AGENT.name: AGENT.document(state.agent),
            PROVIDER.name: PROVIDER.document(state.provider),
        }

    def entry_ids(self, agent_id: ActorId) -> tuple[EntryId, ...]:
        """The agent's active transcript, in order.

        Raises:
            NotFound: the session has no such agent at this position.
        """
        return active_ids(self.agent(agent_id).transcript)

    def tree(self) -> list[ActorNode]:
        """Every agent and every live work actor, oldest first."""
        return nodes(self.tree_state)

    def usage(self, agent_id: ActorId | None = None, *, subtree: bool = False) -> Usage:
        """What one agent has used, with *subtree* also all agents below it; or (None) the session.

        Each response counts once, for the agent that asked.

        Raises:
            NotFound: the session has no such agent at this position.
        """
        if agent_id is None:
            return usage.combine(state.usage for state in self.folds.values())
        ids = subtree_of(self.tree_state, agent_id) if subtree else {agent_id}
        return usage.combine(self.agent(id).usage for id in sorted(ids))

    def agent(self, agent_id: ActorId) -> AgentState:
        """The folds of the agent.

        Raises:
            NotFound: the session has no such agent at this position.
        """
        state = self.folds.get(agent_id)
        if state is None:
            known = ", ".join(map(str, self.agents)) or "none"
            raise NotFound(f"no agent {agent_id} at position {self.position}; its agents are: {known}")
        return state


EMPTY = FoldedState()


def fold_commit(state: FoldedState, commit: Iterable[Recorded]) -> FoldedState:
    """The state after *commit*. Never raises.

    Events at or before the state's position are known already and left out, so a feed that
    overlaps what was read from the log does no harm.
    """
    start = state.position
    for recorded in commit:
        if recorded.position > start:
            state = _fold(state, recorded)
    return state


def _fold(state: FoldedState, recorded: Recorded) -> FoldedState:
    uuid = state.uuid
    if isinstance(recorded.event, AgentSpawned) and not state.folds:
        uuid = recorded.event.session_uuid or ""
    return FoldedState(
        position=max(state.position, recorded.end),
        at_us=recorded.at_us,
        uuid=uuid,
        tree_state=TREE.evolve(state.tree_state, recorded),
        folds=_fold_agent(state.folds, uuid, agent_of(state.tree_state, recorded), recorded),
    )


def _fold_agent(
    folds: "immutables.Map[ActorId, AgentState]", uuid: str, agent: ActorId | None, recorded: Recorded
) -> "immutables.Map[ActorId, AgentState]":
    """Show *recorded* to its agent's folds; those of a new agent know the session's *uuid* before."""
    if agent is None:
        return folds
    state = folds.get(agent)
    if isinstance(recorded.event, AgentSpawned):
        state = AgentState(provider=ProviderState(session_uuid=uuid))
    return folds if state is None else folds.set(agent, _evolve(state, recorded))


def _evolve(state: AgentState, recorded: Recorded) -> AgentState:
    return AgentState(
        live=LIVE.evolve(state.live, recorded),
        inbox=INBOX.evolve(state.inbox, recorded),
        usage=USAGE.evolve(state.usage, recorded),
        agent=AGENT.evolve(state.agent, recorded),
        provider=PROVIDER.evolve(state.provider, recorded),
        transcript=TRANSCRIPT.evolve(state.transcript, recorded),
    )

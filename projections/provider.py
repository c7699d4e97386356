"""pi.provider: the name under which a provider knows the agent, for its prompt caches.

``{"session_id": "<session uuid>:<agent>"}``. It never changes: not by turns, models, resets,
compactions or restarts. The uuid is what the session's first event says, so an agent's fold begins
with that.
"""

from typing import Final

import msgspec

from pi_actors.core.ids import NOBODY, ActorId
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.record import Recorded
from projections.fold import Document, Projection


class ProviderState(msgspec.Struct, frozen=True, kw_only=True):
    """Whose uuid, which agent."""

    session_uuid: str = ""
    agent: ActorId = NOBODY


def evolve(state: ProviderState, recorded: Recorded) -> ProviderState:
    """The provider-facing identity after *recorded*."""
    match recorded.event:
        case AgentSpawned(session_uuid=uuid):
            return ProviderState(session_uuid=uuid or state.session_uuid, agent=recorded.actor)
        case _:
            return state


def document(state: ProviderState) -> Document:
    """The identity as JSON."""
    return {"session_id": f"{state.session_uuid}:{state.agent}"}


PROVIDER: Final = Projection(
    name="pi.provider", version=1, initial=ProviderState(), evolve=evolve, document=document
)

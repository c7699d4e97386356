"""pi.agent: who the agent is, what was chosen for it and what its last request used.

``{"id", "owner", "chosen": {"model", "thinking", "tools", "instructions", "cwd"},
"resolved": None | {"model", "thinking", "tools", "digest"}, "busy", "run", "live_work"}``.
An unset choice is null and follows the session's default, which is no part of the log: what it
came to stands in ``resolved``. ``busy`` speaks of the run; ``live_work`` counts the agent's own
work actors that have not ended, those in the background included.
"""

from typing import Final

import msgspec

from pi_actors.actors.agent.messages import AgentConfigured, RunEnded, RunStarted
from pi_actors.actors.generation.messages import RequestStarted
from pi_actors.core.ids import NOBODY, ActorId, Position
from pi_actors.core.lifecycle import AgentSpawned, Choices, WorkEnded, WorkSpawned
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from projections.fold import Document, Projection, as_json


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest request was pinned to; ``digest`` identifies the tools' schemas."""

    model: str
    thinking: str | None
    tools: tuple[str, ...]
    digest: str


class AgentDocumentState(msgspec.Struct, frozen=True, kw_only=True):
    """The agent as its log tells it."""

    id: ActorId = NOBODY
    owner: ActorId = NOBODY
    chosen: Choices = Choices()
    resolved: Resolved | None = None
    run: Position | None = None
    live: frozenset[ActorId] = frozenset()


def evolve(state: AgentDocumentState, recorded: Recorded) -> AgentDocumentState:
    """The agent after *recorded*."""
    match recorded.event:
        case AgentSpawned(owner=owner, choices=choices):
            return AgentDocumentState(id=recorded.actor, owner=owner, chosen=choices)
        case AgentConfigured(choices=choices):
            return msgspec.structs.replace(state, chosen=choices)
        case RequestStarted() as event:
            resolved = Resolved(
                model=event.model, thinking=event.thinking, tools=event.tools, digest=event.digest
            )
            return msgspec.structs.replace(state, resolved=resolved)
        case RunStarted():
            return msgspec.structs.replace(state, run=recorded.position)
        case RunEnded(run=run) if run == state.run:
            return msgspec.structs.replace(state, run=None)
        case WorkSpawned():
            return msgspec.structs.replace(state, live=state.live | {recorded.actor})
        case WorkEnded():
            return msgspec.structs.replace(state, live=state.live - {recorded.actor})
        case _:
            return state


def document(state: AgentDocumentState) -> Document:
    """The agent as JSON."""
    return {
        "id": state.id,
        "owner": state.owner,
        "chosen": _chosen_document(state.chosen),
        "resolved": None if state.resolved is None else as_json(state.resolved),
        "busy": state.run is not None,
        "run": state.run,
        "live_work": len(state.live),
    }


AGENT: Final = Projection(
    name="pi.agent", version=1, initial=AgentDocumentState(), evolve=evolve, document=document
)


def _chosen_document(chosen: Choices) -> Json:
    return {
        "model": chosen.model,
        "thinking": chosen.thinking,
        "tools": None if chosen.tools is None else list(chosen.tools),
        "instructions": chosen.instructions,
        "cwd": chosen.cwd,
    }

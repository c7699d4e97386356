"""The generation attempt: which request is out, what has arrived of it, when the next one is due."""

import msgspec

from pi_actors.actors.agent.messages import ResponseSettled
from pi_actors.actors.generation.messages import (
    KIND,
    CompactionAwaited,
    PartialStreamed,
    RequestRepeated,
    RequestStarted,
    RetryScheduled,
)
from pi_actors.core.ids import ActorId
from pi_actors.core.lifecycle import WorkEnded, WorkSpawned
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from projections.fold import iso
from projections.partial import Partial, grow, partial_document


class Request(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """A request that is out, and what has arrived."""

    attempt: int
    model: str
    turn: int
    partial: Partial = ()


class Retry(msgspec.Struct, frozen=True, kw_only=True, tag="retry"):
    """The next attempt is due at ``due_us``."""

    attempt: int
    due_us: int
    error: str


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A live generation. ``asking`` is None while it prepares and while tools run."""

    actor: ActorId
    asking: Request | Retry | None = None


def evolve_generation(generation: Generation | None, recorded: Recorded) -> Generation | None:
    """The agent's live generation after *recorded*."""
    match recorded.event:
        case WorkSpawned(kind=kind):
            return Generation(actor=recorded.actor) if kind == KIND else generation
        case ResponseSettled() if generation is not None:
            return Generation(actor=generation.actor)
        case _ if generation is None or recorded.actor != generation.actor:
            return generation
        case WorkEnded():
            return None
        case RequestStarted(attempt=attempt, model=model, turn=turn):
            return Generation(actor=generation.actor, asking=Request(attempt=attempt, model=model, turn=turn))
        case CompactionAwaited():
            return Generation(actor=generation.actor)
        case RetryScheduled() as event:
            retry = Retry(attempt=event.attempt, due_us=event.due_us, error=event.error)
            return Generation(actor=generation.actor, asking=retry)
        case _:
            return _stream(generation, recorded)


def generation_document(generation: Generation | None) -> Json:
    """The attempt as JSON; null without a live generation."""
    match generation:
        case None:
            return None
        case Generation(actor=actor, asking=Request() as request):
            return {
                "actor": actor,
                "attempt": request.attempt,
                "model": request.model,
                "turn": request.turn,
                "partial": partial_document(request.partial),
            }
        case Generation(actor=actor):
            return {"actor": actor, "attempt": None, "model": None, "turn": None, "partial": []}


def retry_document(generation: Generation | None) -> Json:
    """The scheduled retry as JSON, or null."""
    match generation:
        case Generation(asking=Retry() as retry):
            return {"attempt": retry.attempt, "due": iso(retry.due_us), "error": retry.error}
        case _:
            return None


def _stream(generation: Generation, recorded: Recorded) -> Generation:
    """What arrives belongs to the request that is out; sent again, it starts from nothing."""
    request = generation.asking
    if not isinstance(request, Request):
        return generation
    match recorded.event:
        case PartialStreamed(deltas=deltas):
            partial = grow(request.partial, deltas)
        case RequestRepeated():
            partial = ()
        case _:
            return generation
    return Generation(actor=generation.actor, asking=msgspec.structs.replace(request, partial=partial))

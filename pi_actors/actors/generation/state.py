"""What a generation remembers: how far its turn is."""

from typing import TypeAlias

import msgspec

from pi_actors.actors.generation.messages import (
    CallModel,
    CompactionAwaited,
    CompactionReturned,
    GenerationEffect,
    GenerationEvent,
    PartialStreamed,
    PrepareRequest,
    RequestRepeated,
    RequestStarted,
    RetryScheduled,
    ToolRoundAdvanced,
    ToolRoundStarted,
    WakeAt,
)
from pi_actors.actors.generation.partial import Partial, grow
from pi_actors.actors.generation.round import InRound, continue_round, start_round
from pi_actors.core.decider import Birth, Quarantined
from pi_actors.core.ids import ActorId, Position


class Relief(msgspec.Struct, frozen=True, kw_only=True):
    """What this turn has done about the size of its context.

    ``waited``: for a compaction, so the size is not looked at again. ``overflowed``: a request was
    refused as too large and compacted for; the next refusal ends the turn.
    """

    waited: bool = False
    overflowed: bool = False


class Preparing(msgspec.Struct, frozen=True, kw_only=True, tag="preparing"):
    """Nothing was asked yet."""

    id: ActorId
    agent: ActorId
    attempt: int = 1
    relief: Relief = Relief()


class Compacting(msgspec.Struct, frozen=True, kw_only=True, tag="compacting"):
    """The context is being made smaller, by the actor ``compaction``, before attempt ``attempt``.

    ``overflow``: what the provider said, where it had refused the request.
    """

    id: ActorId
    agent: ActorId
    attempt: int
    compaction: ActorId
    overflow: str | None


class Requested(msgspec.Struct, frozen=True, kw_only=True, tag="requested"):
    """The request stored at ``request`` has no response yet."""

    id: ActorId
    agent: ActorId
    request: Position
    pinned: RequestStarted
    repeated: int = 0
    partial: Partial = ()
    relief: Relief = Relief()


class Retrying(msgspec.Struct, frozen=True, kw_only=True, tag="retrying"):
    """Attempt number ``attempt`` is due at ``due_us``."""

    id: ActorId
    agent: ActorId
    attempt: int
    due_us: int
    relief: Relief = Relief()


GenerationState: TypeAlias = Preparing | Compacting | Requested | Retrying | InRound


def evolve(
    state: GenerationState, position: Position, event: GenerationEvent
) -> GenerationState | Quarantined:
    """The state after *event*."""
    match event, state:
        case RequestStarted(), Preparing() | Retrying():
            return Requested(
                id=state.id, agent=state.agent, request=position, pinned=event, relief=state.relief
            )
        case PartialStreamed(), Requested():
            return msgspec.structs.replace(state, partial=grow(state.partial, event.deltas))
        case RequestRepeated(), Requested():
            return msgspec.structs.replace(state, partial=(), repeated=state.repeated + 1)
        case RetryScheduled(), Requested():
            return Retrying(
                id=state.id,
                agent=state.agent,
                attempt=event.attempt,
                due_us=event.due_us,
                relief=state.relief,
            )
        case CompactionAwaited(), Preparing() | Retrying() | Requested():
            return Compacting(
                id=state.id,
                agent=state.agent,
                attempt=state.pinned.attempt if isinstance(state, Requested) else state.attempt,
                compaction=event.compaction,
                overflow=event.overflow,
            )
        case CompactionReturned(), Compacting():
            relief = Relief(waited=True, overflowed=state.overflow is not None)
            return Preparing(id=state.id, agent=state.agent, attempt=state.attempt, relief=relief)
        case ToolRoundStarted(), Requested():
            return start_round(state.id, state.agent, position, event)
        case ToolRoundAdvanced(), InRound() if 0 <= event.next < len(state.calls):
            return continue_round(state, position, event)
        case _:
            return Quarantined(position=position, event=type(event).__name__)


def owed(state: GenerationState) -> tuple[GenerationEffect, ...]:
    """Prepare, ask, or wait for a deadline; who waits for what is below owes nothing itself."""
    match state:
        case Preparing():
            return (PrepareRequest(compacted=state.relief.waited),)
        case Requested():
            return (CallModel(request=state.request, repeated=state.repeated),)
        case Retrying():
            return (WakeAt(due_us=state.due_us),)
        case Compacting() | InRound():
            return ()


def initial(birth: Birth) -> GenerationState:
    """A turn that has not begun."""
    return Preparing(id=birth.id, agent=birth.agent)

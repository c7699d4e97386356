"""One turn of an agent: prepare, ask, classify, run the calls, end.

    Preparing ──▶ Requested ──▶ InRound ──▶ (ended)
        ▲             │ retryable failure
        └── Retrying ◀┘

Every response and every failed attempt becomes an entry of the agent; what the agent does after
the turn is its own business.
"""

from typing import TypeAlias, assert_never

import msgspec

from pi_actors.actors.agent.messages import OpenRequest, SettleResponse
from pi_actors.actors.generation import messages
from pi_actors.actors.generation.classify import classify, cut_short, digest_of, retry_due_us
from pi_actors.actors.generation.messages import (
    CallModel,
    FailAttempt,
    GenerationCommand,
    GenerationEffect,
    GenerationEvent,
    PartialStreamed,
    Prepare,
    Prepared,
    PrepareRequest,
    ReceiveResponse,
    RequestOpened,
    RequestRepeated,
    RequestStarted,
    ResponsePlaced,
    RetryScheduled,
    ScheduleRetry,
    StreamPartial,
    ToolRoundAdvanced,
    ToolRoundStarted,
    WakeAt,
)
from pi_actors.actors.generation.partial import Partial, grow, parts_of
from pi_actors.actors.generation.round import (
    InRound,
    advance_round,
    close_call,
    continue_round,
    open_round,
    start_round,
)
from pi_actors.core.decider import (
    NOTHING,
    Abort,
    At,
    Birth,
    Decision,
    Drained,
    Ended,
    Kind,
    Quarantined,
    Recover,
    Send,
)
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.lifecycle import COMPLETED, Choices, Outcome
from pi_actors.core.messages import ResponseInfo


class Preparing(msgspec.Struct, frozen=True, kw_only=True, tag="preparing"):
    """Nothing was asked yet."""

    id: ActorId
    agent: ActorId
    attempt: int = 1


class Requested(msgspec.Struct, frozen=True, kw_only=True, tag="requested"):
    """The request stored at ``request`` has no response yet."""

    id: ActorId
    agent: ActorId
    request: Position
    pinned: RequestStarted
    repeated: int = 0
    partial: Partial = ()


class Retrying(msgspec.Struct, frozen=True, kw_only=True, tag="retrying"):
    """Attempt number ``attempt`` is due at ``due_us``."""

    id: ActorId
    agent: ActorId
    attempt: int
    due_us: int


GenerationState: TypeAlias = Preparing | Requested | Retrying | InRound


def decide(state: GenerationState, command: GenerationCommand, at: At) -> Decision:
    """What follows from *command*. Reports that no longer fit are no-ops."""
    match command:
        case Prepare():
            return _prepare(state, command, at)
        case Prepared():
            return _open(state, command.choices, command.instructions, at)
        case RequestOpened():
            return _request(state, command, at)
        case StreamPartial():
            started = isinstance(state, Requested)
            return Decision(events=(PartialStreamed(deltas=command.deltas),)) if started else NOTHING
        case ReceiveResponse():
            return _receive(state, command, at)
        case FailAttempt():
            return _fail(state, command, at)
        case ResponsePlaced():
            return _placed(state, command, at)
        case ScheduleRetry():
            return Decision(events=(command.retry,)) if isinstance(state, Requested) else NOTHING
        case Ended():
            return close_call(state, command) if isinstance(state, InRound) else NOTHING
        case Drained():
            return advance_round(state, at) if isinstance(state, InRound) else NOTHING
        case Abort():
            return _abort(state)
        case Recover():
            return NOTHING if at.marked else _recover(state)
        case _:
            assert_never(command)


def evolve(
    state: GenerationState, position: Position, event: GenerationEvent
) -> GenerationState | Quarantined:
    """The state after *event*."""
    match event, state:
        case RequestStarted(), Preparing() | Retrying():
            return Requested(id=state.id, agent=state.agent, request=position, pinned=event)
        case PartialStreamed(), Requested():
            return msgspec.structs.replace(state, partial=grow(state.partial, event.deltas))
        case RequestRepeated(), Requested():
            return msgspec.structs.replace(state, partial=(), repeated=state.repeated + 1)
        case RetryScheduled(), Requested():
            return Retrying(id=state.id, agent=state.agent, attempt=event.attempt, due_us=event.due_us)
        case ToolRoundStarted(), Requested():
            return start_round(state.id, state.agent, position, event)
        case ToolRoundAdvanced(), InRound() if 0 <= event.next < len(state.calls):
            return continue_round(state, position, event)
        case _:
            return Quarantined(position=position, event=type(event).__name__)


def owed(state: GenerationState) -> tuple[GenerationEffect, ...]:
    """Prepare, ask, or wait; a round owes nothing itself."""
    match state:
        case Preparing():
            return (PrepareRequest(),)
        case Requested():
            return (CallModel(request=state.request, repeated=state.repeated),)
        case Retrying():
            return (WakeAt(due_us=state.due_us),)
        case InRound():
            return ()


def initial(birth: Birth) -> GenerationState:
    """A turn that has not begun."""
    return Preparing(id=birth.id, agent=birth.agent)


KIND: Kind[GenerationState] = Kind(
    name=messages.KIND, initial=initial, decide=decide, evolve=evolve, owed=owed
)


# Preparing


def _prepare(state: GenerationState, command: Prepare, at: At) -> Decision:
    """Open the request in this commit where nothing must be awaited; else PrepareRequest is owed."""
    instructions = command.choices.instructions
    if instructions is None and at.catalog.instructions_computed:
        return NOTHING
    if instructions is None:
        instructions = at.catalog.instructions
    return _open(state, command.choices, instructions, at)


def _open(state: GenerationState, choices: Choices, instructions: str | None, at: At) -> Decision:
    if not isinstance(state, Preparing | Retrying) or at.marked:
        return NOTHING
    model = choices.model or at.catalog.default_model
    if model is None or model not in at.catalog.models:
        return Decision(finish=Outcome(status="failed", reason="no_model", detail=_no_model(model)))
    opening = OpenRequest(generation=state.id, choices=choices, system=instructions or None)
    return Decision(messages=(Send(state.agent, opening),))


def _no_model(model: str | None) -> str:
    if model is None:
        return "no model is chosen: pass model=… to open_session or configure the agent"
    return f"this process has no model {model!r}: register it or choose another"


def _request(state: GenerationState, command: RequestOpened, at: At) -> Decision:
    if not isinstance(state, Preparing | Retrying):
        return NOTHING
    choices, catalog = command.choices, at.catalog
    model = choices.model or catalog.default_model
    assert model is not None, "a request was opened without a model"
    chosen = catalog.default_tools if choices.tools is None else choices.tools
    tools = tuple(name for name in chosen if name in catalog.tools)
    started = RequestStarted(
        attempt=state.attempt,
        turn=command.turn,
        cutoff=command.cutoff,
        model=model,
        thinking=choices.thinking,
        tools=tools,
        digest=digest_of(catalog.tools[name].digest for name in tools),
    )
    return Decision(events=(started,))


# Settling


def _receive(state: GenerationState, command: ReceiveResponse, at: At) -> Decision:
    if not isinstance(state, Requested):
        return NOTHING
    verdict = classify(command)
    if verdict is None:
        return _fail(state, cut_short(command), at)
    info = ResponseInfo(
        stop="aborted" if at.marked else verdict,
        model=state.pinned.model,
        provider=command.provider,
        provider_model=command.provider_model,
        attempt=state.pinned.attempt,
        usage=command.usage,
    )
    calls = () if at.marked else command.calls
    settle = SettleResponse(generation=state.id, info=info, parts=command.parts, calls=calls)
    finish = Outcome(status="aborted") if at.marked else None
    return Decision(messages=(Send(state.agent, settle),), finish=finish)


def _fail(state: GenerationState, command: FailAttempt, at: At) -> Decision:
    """Record the failed attempt; schedule the next one, or end the turn."""
    if not isinstance(state, Requested):
        return NOTHING
    attempt = state.pinned.attempt
    info = ResponseInfo(
        stop="error",
        model=state.pinned.model,
        provider=command.provider,
        provider_model=command.provider_model,
        attempt=attempt,
        usage=command.usage,
        error=command.error,
    )
    settle = Send(state.agent, SettleResponse(generation=state.id, info=info, parts=command.parts))
    if at.marked:
        return Decision(messages=(settle,), finish=Outcome(status="aborted"))
    if command.kind != "retryable" or attempt > at.settings.retry.retries_max:
        failed = Outcome(status="failed", reason="model_error", detail=command.error)
        return Decision(messages=(settle,), finish=failed)
    due_us = retry_due_us(attempt, command.retry_after_ms, at)
    retry = RetryScheduled(attempt=attempt + 1, due_us=due_us, error=command.error)
    return Decision(messages=(settle, Send(state.id, ScheduleRetry(retry=retry))))


def _placed(state: GenerationState, command: ResponsePlaced, at: At) -> Decision:
    """The response is an answer, or its calls are run."""
    if not isinstance(state, Requested) or at.marked:
        return NOTHING
    if not command.calls:
        return Decision(finish=COMPLETED)
    return open_round(state.id, state.agent, state.pinned.tools, command, at)


# Stopping and going on


def _abort(state: GenerationState) -> Decision:
    aborted = Outcome(status="aborted")
    if isinstance(state, Requested):
        return Decision(messages=_salvage(state, "the run was aborted"), finish=aborted)
    return Decision(finish=aborted)


def _recover(state: GenerationState) -> Decision:
    """What had streamed becomes an aborted entry; the same pinned request is then sent again."""
    if not isinstance(state, Requested) or not state.partial:
        return NOTHING
    return Decision(
        events=(RequestRepeated(),), messages=_salvage(state, "the process stopped during the response")
    )


def _salvage(state: Requested, why: str) -> tuple[Send, ...]:
    parts = parts_of(state.partial)
    if not parts:
        return ()
    info = ResponseInfo(stop="aborted", model=state.pinned.model, attempt=state.pinned.attempt, error=why)
    return (Send(state.agent, SettleResponse(generation=state.id, info=info, parts=parts)),)

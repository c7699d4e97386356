"""One turn of an agent: prepare, ask, classify, run the calls, end.

    Preparing ──▶ Requested ──▶ InRound ──▶ (ended)
     ▲  │ ▲           │ retryable failure
     │  │ └─ Retrying ◀┤
     │  ▼ too large    │ refused as too large, once
    Compacting ◀───────┘

Every response and every failed attempt becomes an entry of the agent; what the agent does after
the turn is its own business.
"""

from typing import assert_never, get_args

from pi_actors.actors.agent.messages import OpenRequest, RelieveOverflow, SettleResponse
from pi_actors.actors.compaction.messages import KIND as COMPACTION_KIND
from pi_actors.actors.generation import messages
from pi_actors.actors.generation.classify import classify, cut_short, digest_of
from pi_actors.actors.generation.messages import (
    AwaitCompaction,
    CompactionAwaited,
    CompactionReturned,
    FailAttempt,
    GenerationCommand,
    NothingToCompact,
    PartialStreamed,
    Prepare,
    Prepared,
    ReceiveResponse,
    RequestOpened,
    RequestRepeated,
    RequestStarted,
    ResponsePlaced,
    RetryScheduled,
    ScheduleRetry,
    StreamPartial,
)
from pi_actors.actors.generation.partial import parts_of
from pi_actors.actors.generation.round import InRound, advance_round, close_call, open_round
from pi_actors.actors.generation.state import (
    Compacting,
    GenerationState,
    Preparing,
    Requested,
    Retrying,
    evolve,
    initial,
    owed,
)
from pi_actors.core.backoff import retry_due_us
from pi_actors.core.decider import NOTHING, Abort, At, Decision, Drained, Ended, Kind, Recover, Send
from pi_actors.core.lifecycle import COMPLETED, Choices, Outcome
from pi_actors.core.messages import ResponseInfo


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
        case AwaitCompaction():
            return _await_compaction(state, command)
        case NothingToCompact():
            return _too_large(command.overflow) if isinstance(state, Requested) else NOTHING
        case Ended() if command.kind == COMPACTION_KIND:
            return _compacted(state, command, at)
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


KIND: Kind[GenerationState] = Kind(
    name=messages.KIND,
    states=get_args(GenerationState),
    initial=initial,
    decide=decide,
    evolve=evolve,
    owed=owed,
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
    opening = OpenRequest(
        generation=state.id,
        choices=choices,
        system=instructions or None,
        compacted=isinstance(state, Preparing) and state.relief.waited,
        may_wait=not state.relief.waited,
    )
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
    if command.kind == "overflow" and not state.relief.overflowed:
        relieve = RelieveOverflow(generation=state.id, model=state.pinned.model, error=command.error)
        return Decision(messages=(settle, Send(state.agent, relieve)))
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


# A context that is too large


def _await_compaction(state: GenerationState, command: AwaitCompaction) -> Decision:
    if not isinstance(state, Preparing | Retrying | Requested):
        return NOTHING
    awaited = CompactionAwaited(compaction=command.compaction, overflow=command.overflow)
    return Decision(events=(awaited,))


def _compacted(state: GenerationState, ended: Ended, at: At) -> Decision:
    """Prepare anew, whatever came of it; but what was refused as it is would be refused again."""
    if not isinstance(state, Compacting) or ended.actor != state.compaction or at.marked:
        return NOTHING
    placed = ended.outcome.status == "completed" and ended.outcome.reason is None
    if state.overflow is not None and not placed:
        return _too_large(state.overflow)
    return Decision(events=(CompactionReturned(),))


def _too_large(error: str) -> Decision:
    return Decision(finish=Outcome(status="failed", reason="model_error", detail=error))


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

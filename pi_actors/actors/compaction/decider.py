"""A compaction: summarise what is older, part by part where it must be, and have it placed.

    Begun ──▶ Asking ──▶ (placed or queued by the agent; ended)
               │  ▲
               ▼  │ RepeatSummary
              Failed

What is summarised and what stays was chosen by the agent when it spawned the actor and is part of
its input, so every attempt and every process sends the same request. Nothing of the agent's
context changes until the summary is placed, in the commit that ends the compaction.
"""

from typing import Final, TypeAlias, assert_never, get_args

import msgspec

from pi_actors.actors.agent.messages import PlaceSummary
from pi_actors.actors.compaction import messages
from pi_actors.actors.compaction.messages import (
    BeginSummary,
    CompactionCommand,
    CompactionEffect,
    CompactionEvent,
    CompactionInput,
    FailSummary,
    ReceiveSummary,
    RepeatAt,
    RepeatSummary,
    Summarise,
    SummaryFailed,
    SummaryPlaced,
    SummaryRepeated,
    SummarySettled,
    SummaryStarted,
)
from pi_actors.core.backoff import retry_due_us
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
from pi_actors.core.lifecycle import Outcome, WorkSpawned
from pi_actors.core.tokens import capped, text_tokens


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """Nothing was asked yet."""

    id: ActorId
    agent: ActorId
    input: CompactionInput


class Asking(msgspec.Struct, frozen=True, kw_only=True, tag="asking"):
    """The request for part ``part`` has no answer yet.

    ``request``: the event that made it due. ``so_far``: the summary of the parts before. ``step``: where
    the newest summary of a part, or failed request that is repeated, was stored; 0 where there is none.
    """

    id: ActorId
    agent: ActorId
    input: CompactionInput
    pinned: SummaryStarted
    request: Position
    attempt: int = 1
    part: int = 0
    so_far: str = ""
    step: Position = 0

    @property
    def summary_tokens_max(self) -> int:
        """A longer summary is cut: it must fit into the context, and beside the next part into a request."""
        part = self.pinned.input_tokens_max
        wanted = self.input.summary_tokens_max
        return wanted if part is None else min(wanted, max(part // 2, 1))


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The request that ``asked`` made failed and is sent again at ``due_us``."""

    asked: Asking
    due_us: int


CompactionState: TypeAlias = Begun | Asking | Failed


def decide(state: CompactionState, command: CompactionCommand, at: At) -> Decision:
    """What follows from *command*. Reports that no longer fit are no-ops."""
    match command, state:
        case BeginSummary(), Begun():
            return NOTHING if at.marked else _begin(state, at)
        case ReceiveSummary(), Asking():
            return _receive(state, command, at)
        case FailSummary(), Asking():
            return _fail(state, command, at)
        case RepeatSummary(), Failed():
            again = SummaryRepeated(attempt=state.asked.attempt + 1)
            return NOTHING if at.marked else Decision(events=(again,))
        case SummaryPlaced(), _:
            reason = "stale" if command.status == "stale" else None
            return Decision(finish=Outcome(status="completed", reason=reason))
        case Abort(), _:
            return Decision(finish=Outcome(status="aborted"))
        case (
            (
                BeginSummary()
                | ReceiveSummary()
                | FailSummary()
                | RepeatSummary()
                | Ended()
                | Drained()
                | Recover()
            ),
            _,
        ):
            return NOTHING
        case _:
            assert_never(command)


def evolve(
    state: CompactionState, position: Position, event: CompactionEvent
) -> CompactionState | Quarantined:
    """The state after *event*."""
    match event, state:
        case SummaryStarted(), Begun() | Asking():
            step = state.step if isinstance(state, Asking) else 0
            return Asking(
                id=state.id, agent=state.agent, input=state.input, pinned=event, request=position, step=step
            )
        case SummarySettled(), Asking():
            return msgspec.structs.replace(
                state,
                request=position,
                attempt=1,
                part=event.part + 1,
                so_far=event.text or state.so_far,
                step=position,
            )
        case SummaryFailed(due_us=int() as due_us), Asking():
            return Failed(asked=msgspec.structs.replace(state, step=position), due_us=due_us)
        case SummaryFailed(), Asking():
            return state
        case SummaryRepeated(), Failed():
            return msgspec.structs.replace(state.asked, request=position, attempt=event.attempt)
        case _:
            return Quarantined(position=position, event=type(event).__name__)


def owed(state: CompactionState) -> tuple[CompactionEffect, ...]:
    """Ask, or wait."""
    match state:
        case Begun():
            return ()
        case Asking():
            return (Summarise(request=state.request),)
        case Failed():
            return (RepeatAt(due_us=state.due_us),)


def initial(birth: Birth) -> CompactionState:
    """A compaction that has not begun."""
    assert isinstance(birth.event, WorkSpawned), birth
    born = msgspec.msgpack.decode(birth.event.input, type=CompactionInput)
    return Begun(id=birth.id, agent=birth.agent, input=born)


KIND: Kind[CompactionState] = Kind(
    name=messages.KIND,
    states=get_args(CompactionState),
    initial=initial,
    decide=decide,
    evolve=evolve,
    owed=owed,
)


def _begin(state: Begun, at: At) -> Decision:
    if not state.input.entries:
        detail = "the context is too small to leave anything out"
        return Decision(finish=Outcome(status="completed", reason="nothing_to_compact", detail=detail))
    model = at.settings.compaction.model or state.input.model or at.catalog.default_model
    if model is None or model not in at.catalog.models:
        detail = f"this process has no model {model!r} to write the summary"
        return Decision(finish=Outcome(status="failed", reason="no_model", detail=detail))
    room = _room(at.catalog.windows.get(model), state.input)
    return Decision(events=(SummaryStarted(model=model, input_tokens_max=room),))


def _room(window: int | None, input: CompactionInput) -> int | None:
    """How much of a conversation fits into one request, beside the request itself and two summaries.

    A quarter of the window is left free, because sizes are estimates. Of a small window three eighths
    are used, and summaries are at most half as long.
    """
    if window is None:
        return None
    request = _REQUEST_TOKENS + text_tokens(input.instructions or "")
    return max(window * 3 // 4 - 2 * input.summary_tokens_max - request, window * 3 // 8, 1)


_REQUEST_TOKENS: Final = 500
"""More than the request's own words take (``runtime/summarising.py``)."""

_SPLIT_TOKENS_MIN: Final = 500
"""Parts are not made smaller than this; a model that cannot take them cannot summarise."""


def _receive(state: Asking, command: ReceiveSummary, at: At) -> Decision:
    """Only a clean stop with text is a summary; what was cut in the middle is asked for again."""
    if command.part != state.part:
        return NOTHING
    if command.stop is None:
        cut = FailSummary(
            kind="retryable", error="the stream ended without its finish marker", usage=command.usage
        )
        return _fail(state, cut, at)
    problem = _problem(command)
    if problem is not None:
        return _fail(state, FailSummary(kind="fatal", error=problem, usage=command.usage), at)
    settled = SummarySettled(
        part=command.part,
        last=command.last,
        model=state.pinned.model,
        text="" if command.last else capped(command.text, state.summary_tokens_max),
        provider=command.provider,
        provider_model=command.provider_model,
        usage=command.usage,
    )
    if at.marked:
        return Decision(events=(settled,), finish=Outcome(status="aborted"))
    if not command.last:
        return Decision(events=(settled,))
    place = PlaceSummary(
        compaction=state.id,
        trigger=state.input.trigger,
        keep_from=state.input.keep_from,
        tokens=state.input.tokens,
        text=capped(command.text, state.summary_tokens_max),
    )
    return Decision(events=(settled,), messages=(Send(state.agent, place),))


def _problem(command: ReceiveSummary) -> str | None:
    if command.calls or command.stop == "calls":
        return "instead of a summary the model called a tool"
    if command.stop == "length":
        return "the summary was cut off by its length limit"
    return None if command.text.strip() else "the summary was empty"


def _fail(state: Asking, command: FailSummary, at: At) -> Decision:
    """Record the failed attempt; schedule the next one, ask for less, or give up: then all is as it was."""
    again = command.kind == "retryable" and state.attempt <= at.settings.retry.retries_max and not at.marked
    failed = SummaryFailed(
        attempt=state.attempt,
        error=command.error,
        model=state.pinned.model,
        due_us=retry_due_us(state.attempt, command.retry_after_ms, at) if again else None,
        usage=command.usage,
    )
    if again:
        return Decision(events=(failed,))
    if at.marked:
        return Decision(events=(failed,), finish=Outcome(status="aborted"))
    half = min(command.sent_tokens, state.pinned.input_tokens_max or command.sent_tokens) // 2
    if command.kind == "overflow" and half >= _SPLIT_TOKENS_MIN:
        less = SummaryStarted(model=state.pinned.model, input_tokens_max=half)
        return Decision(events=(failed, less))
    outcome = Outcome(status="failed", reason="model_error", detail=command.error)
    return Decision(events=(failed,), finish=outcome)

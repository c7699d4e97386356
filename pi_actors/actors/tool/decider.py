"""One call of a model: from its wish to its one result.

    Pending ──StartTool──▶ Started ──SettleTool──▶ (ended)
                              │ ▲
                     Recover  ▼ │ StartTool
                         Reconciling

``ToolStarted`` is the intent: before it, the call never began; after it, a process that finds it
without a result knows nothing about the effect, and only a policy that was safe when the call
began and still is may repeat it.
"""

from typing import TypeAlias, assert_never, get_args

import msgspec

from pi_actors.actors.agent.messages import SettleCall, ToolResultSettled, result_by_runtime
from pi_actors.actors.tool import messages
from pi_actors.actors.tool.messages import (
    BeginCall,
    LeaveUnknown,
    ReconcileTool,
    RejectCall,
    ReportDetails,
    RunTool,
    SettleTool,
    StartTool,
    StreamOutput,
    ToolCommand,
    ToolDetailsReported,
    ToolEffect,
    ToolEvent,
    ToolInput,
    ToolOutputStreamed,
    ToolReconcileStarted,
    ToolStarted,
)
from pi_actors.core.catalog import ReplayPolicy
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
from pi_actors.core.lifecycle import COMPLETED, Outcome, WorkSpawned
from pi_actors.core.messages import CallRef, Diagnostic, Text
from pi_actors.core.text import Json
from pi_actors.core.window import OutputWindow, append


class Pending(msgspec.Struct, frozen=True, kw_only=True, tag="pending"):
    """Asked for. Nothing has begun."""

    id: ActorId
    agent: ActorId
    call: ToolInput


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The intent is stored. ``started`` is its position."""

    id: ActorId
    agent: ActorId
    call: ToolInput
    started: Position
    replay: ReplayPolicy
    arguments: str | None
    output: OutputWindow
    details: Json = None
    diagnostics: tuple[Diagnostic, ...] = ()


class Reconciling(msgspec.Struct, frozen=True, kw_only=True, tag="reconciling"):
    """The tool's reconciler is being asked about the ``interrupted`` execution."""

    id: ActorId
    agent: ActorId
    call: ToolInput
    interrupted: Started


ToolState: TypeAlias = Pending | Started | Reconciling


def decide(state: ToolState, command: ToolCommand, at: At) -> Decision:
    """What follows from *command*. Reports that no longer fit are no-ops."""
    match command:
        case BeginCall():
            return _begin(state, command, at)
        case StartTool():
            return _start(state, command, at)
        case RejectCall():
            return _settle_unrun(state, command.diagnostic, COMPLETED)
        case StreamOutput():
            return _stream(state, command)
        case ReportDetails():
            return _when_started(state, ToolDetailsReported(details=command.details))
        case SettleTool():
            return _settle(state, command)
        case LeaveUnknown():
            return _leave_unknown(state, command.detail)
        case Recover():
            return _recover(state, at)
        case Abort():
            return _abort(state, command)
        case Ended() | Drained():
            return NOTHING
        case _:
            assert_never(command)


def evolve(state: ToolState, position: Position, event: ToolEvent) -> ToolState | Quarantined:
    """The state after *event*."""
    match event, state:
        case ToolStarted(), Pending() | Started() | Reconciling():
            return _started(state, position, event)
        case ToolOutputStreamed(), Started():
            return msgspec.structs.replace(
                state,
                output=append(state.output, event.text, event.skipped_bytes),
                diagnostics=state.diagnostics + event.diagnostics,
            )
        case ToolDetailsReported(), Started():
            return msgspec.structs.replace(state, details=event.details)
        case ToolReconcileStarted(), Started():
            return Reconciling(id=state.id, agent=state.agent, call=state.call, interrupted=state)
        case _:
            return Quarantined(position=position, event=type(event).__name__)


def owed(state: ToolState) -> tuple[ToolEffect, ...]:
    """A call runs, or its reconciler does."""
    match state:
        case Pending() | Started():
            return (RunTool(call=state.call),)
        case Reconciling():
            return (ReconcileTool(call=state.call),)


def initial(birth: Birth) -> ToolState:
    """A call that has not begun."""
    assert isinstance(birth.event, WorkSpawned), birth
    call = msgspec.msgpack.decode(birth.event.input, type=ToolInput)
    return Pending(id=birth.id, agent=birth.agent, call=call)


KIND: Kind[ToolState] = Kind(
    name=messages.KIND, states=get_args(ToolState), initial=initial, decide=decide, evolve=evolve, owed=owed
)


# Beginning


def _begin(state: ToolState, command: BeginCall, at: At) -> Decision:
    if not isinstance(state, Pending) or at.marked:
        return NOTHING
    facts = at.catalog.tools.get(state.call.name)
    if facts is None:
        return _settle_unrun(state, _unavailable(state.call.name), COMPLETED)
    if command.problem is not None:
        problem = Diagnostic(level="error", code="invalid_arguments", text=command.problem)
        return _settle_unrun(state, problem, COMPLETED)
    if facts.replay != "safe":
        return NOTHING
    return Decision(events=(_intent(state.call.name, None, at),))


def _start(state: ToolState, command: StartTool, at: At) -> Decision:
    if at.marked or isinstance(state, Started):
        return NOTHING
    if state.call.name not in at.catalog.tools:
        return _settle_unrun(state, _unavailable(state.call.name), COMPLETED)
    return Decision(events=(_intent(state.call.name, command.arguments, at),))


def _intent(name: str, arguments: str | None, at: At) -> ToolStarted:
    facts = at.catalog.tools[name]
    return ToolStarted(
        replay=facts.replay,
        arguments=arguments,
        max_bytes=facts.max_bytes or at.settings.output_bytes_max,
        max_lines=facts.max_lines or at.settings.output_lines_max,
        keep_head=facts.keep_head,
    )


def _started(state: ToolState, position: Position, event: ToolStarted) -> Started:
    return Started(
        id=state.id,
        agent=state.agent,
        call=state.call,
        started=position,
        replay=event.replay,
        arguments=event.arguments,
        output=OutputWindow(max_bytes=event.max_bytes, max_lines=event.max_lines, keep_head=event.keep_head),
    )


# Running


def _stream(state: ToolState, command: StreamOutput) -> Decision:
    return _when_started(
        state,
        ToolOutputStreamed(
            text=command.text, skipped_bytes=command.skipped_bytes, diagnostics=command.diagnostics
        ),
    )


def _when_started(state: ToolState, event: ToolEvent) -> Decision:
    return Decision(events=(event,)) if isinstance(state, Started) else NOTHING


def _settle(state: ToolState, command: SettleTool) -> Decision:
    if isinstance(state, Pending):
        return NOTHING
    result = ToolResultSettled(
        call=_ref(state),
        name=state.call.name,
        by=state.id,
        own=True,
        content=command.content,
        is_error=command.is_error,
        diagnostics=command.diagnostics,
        details=command.details,
        usage=command.usage,
        terminate=command.terminate,
        add_tools=command.add_tools,
        duration_ms=command.duration_ms,
    )
    outcome = Outcome(status="failed", reason="tool_error") if command.threw else COMPLETED
    return Decision(messages=(Send(state.agent, SettleCall(result=result)),), finish=outcome)


# Recovering


def _recover(state: ToolState, at: At) -> Decision:
    """The row of the recovery table for a call that is found unfinished."""
    if not isinstance(state, Started):
        return NOTHING
    facts = at.catalog.tools.get(state.call.name)
    today = None if facts is None or at.marked else facts.replay
    if state.replay == "safe" and today == "safe":
        return Decision(events=(_intent(state.call.name, state.arguments, at),))
    if state.replay == "reconcile" and today == "reconcile":
        return Decision(events=(ToolReconcileStarted(),))
    return _interrupt(state, None)


def _leave_unknown(state: ToolState, detail: str | None) -> Decision:
    if not isinstance(state, Reconciling):
        return NOTHING
    return _interrupt(state.interrupted, detail)


def _interrupt(state: Started, detail: str | None) -> Decision:
    text = (
        "The process stopped while this call was running, so its effect is unknown: it may have happened "
        "completely, in part or not at all. Nobody refused it, and it was not repeated. "
        "Check the state of things before deciding whether to do it again."
    )
    if detail:
        text += f" Asking what happened gave no answer: {detail}"
    diagnostic = Diagnostic(level="warn", code="interrupted", text=text)
    return _settle_cut(state, diagnostic, Outcome(status="interrupted"))


def _abort(state: ToolState, command: Abort) -> Decision:
    match state:
        case Pending():
            text = "The call was aborted before it began. Nothing was done."
            diagnostic = Diagnostic(level="error", code="aborted", text=text)
            return _settle_unrun(state, diagnostic, Outcome(status="aborted"))
        case Started() | Reconciling():
            cut = state.interrupted if isinstance(state, Reconciling) else state
            text = "The call was aborted while it was running; what it had done by then remains done."
            if command.still_running:
                text += " It could not be stopped and may still be running."
            diagnostic = Diagnostic(level="error", code="aborted", text=text)
            return _settle_cut(cut, diagnostic, Outcome(status="aborted"))


# Results that the runtime gives


def _settle_unrun(state: ToolState, diagnostic: Diagnostic, outcome: Outcome) -> Decision:
    if not isinstance(state, Pending):
        return NOTHING
    result = result_by_runtime(_ref(state), state.call.name, state.id, diagnostic)
    return Decision(messages=(Send(state.agent, SettleCall(result=result)),), finish=outcome)


def _settle_cut(state: Started, diagnostic: Diagnostic, outcome: Outcome) -> Decision:
    """The result of an execution that was cut off: the remark, and what it had shown until then."""
    seen = state.output.text()
    result = ToolResultSettled(
        call=_ref(state),
        name=state.call.name,
        by=state.id,
        own=False,
        content=(Text(text=seen),) if seen else (),
        is_error=True,
        diagnostics=(*state.diagnostics, diagnostic),
        details=state.details,
    )
    return Decision(messages=(Send(state.agent, SettleCall(result=result)),), finish=outcome)


def _ref(state: ToolState) -> CallRef:
    return CallRef(entry=state.call.entry, index=state.call.index)


def _unavailable(name: str) -> Diagnostic:
    text = f"There is no tool {name!r} any more, so the call was not run."
    return Diagnostic(level="error", code="tool_unavailable", text=text)

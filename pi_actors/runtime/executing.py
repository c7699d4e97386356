"""The errands of a tool: hold a slot, check the arguments, record the intent, execute, report."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from functools import partial

import trio

from pi_actors.actors.tool.decider import Pending, Reconciling, Started
from pi_actors.actors.tool.messages import LeaveUnknown, RejectCall, SettleTool, StartTool, ToolCommand
from pi_actors.core.decider import Send
from pi_actors.core.errors import InvalidValue, root_cause
from pi_actors.core.messages import Diagnostic, DiagnosticCode, calls_of
from pi_actors.core.text import normalise
from pi_actors.runtime.errands import Errand
from pi_actors.runtime.owning import Owning
from pi_actors.runtime.reporting import Reports
from pi_actors.runtime.scopes import contained
from pi_actors.runtime.shell import Shell
from pi_actors.runtime.threads import run_plain
from pi_actors.tools.context import ToolCall, ToolContext
from pi_actors.tools.result import ToolResult, Verdict
from pi_actors.tools.schema import Arguments, InvalidArguments
from pi_actors.tools.tool import Tool, ask_reconciler, call_plain, run


async def run_tool(shell: Shell, errand: Errand) -> None:
    """Execute the call, once its slot is held and its intent is stored."""
    async with shell.tool_slots(errand.agent):
        state = errand.state
        assert isinstance(state, Pending | Started), state
        tool = shell.registry.tools.get(state.call.name)
        if tool is None:
            await _refuse(
                errand, state, "tool_unavailable", f"There is no tool {state.call.name!r} any more."
            )
            return
        try:
            arguments = tool.parse(await _arguments_text(shell, state))
        except InvalidArguments as error:
            await _refuse(errand, state, "invalid_arguments", str(error))
            return
        async with nullcontext() if tool.is_async else shell.tool_threads:
            await _start_and_execute(shell, errand, state, tool, arguments)


async def _start_and_execute(
    shell: Shell, errand: Errand, state: Pending | Started, tool: Tool, arguments: Arguments
) -> None:
    """Store the intent, and execute if the actor took it."""
    if isinstance(state, Pending):
        await errand.report(StartTool())
    started = errand.state
    if isinstance(started, Started):
        assert started.started > shell.opened_at, "an intent of another process was about to be run blindly"
        await _execute(shell, errand, started, tool, arguments)


async def reconcile_tool(shell: Shell, errand: Errand) -> None:
    """Ask the tool's reconciler about an execution that another process did not finish."""
    state = errand.state
    assert isinstance(state, Reconciling), state
    verdict = await _ask(shell, errand, state.interrupted)
    await errand.report(verdict, cause=state.interrupted.started)


async def _execute(shell: Shell, errand: Errand, state: Started, tool: Tool, arguments: Arguments) -> None:
    """Run the tool's function. Its outcome is stored also where the errand is being cancelled."""
    reports = Reports(errand, state, shell.settings.progress_ms)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reports.pacer.run)
        began = trio.current_time()
        try:
            settled = reports.settled(
                await _call(shell, errand, state, tool, arguments, reports),
                duration_ms=round((trio.current_time() - began) * 1000),
            )
        except Exception as error:  # the door to tools that users bring: what they raise is a result
            duration_ms = round((trio.current_time() - began) * 1000)
            settled = reports.threw(_described(error), duration_ms=duration_ms)
        await _store(shell, errand, state, reports, settled)
        nursery.cancel_scope.cancel()


async def _store(shell: Shell, errand: Errand, state: Started, reports: Reports, settled: SettleTool) -> None:
    """Store the rest of the output and the result in one commit."""
    try:
        await shell.line.commit(*reports.rest(), Send(errand.actor, settled), cause=state.started)
    except InvalidValue as error:
        await errand.report(reports.threw(str(error), duration_ms=None), cause=state.started)


async def _call(
    shell: Shell, errand: Errand, state: Started, tool: Tool, arguments: Arguments, reports: Reports
) -> ToolResult:
    async with _running(shell, errand, state, reports) as context:
        if tool.is_async:
            return await run(tool, context, arguments)
        plain = partial(call_plain, tool, context, arguments)
        return await run_plain(plain, grace_ms=shell.settings.close_ms)


async def _ask(shell: Shell, errand: Errand, interrupted: Started) -> ToolCommand:
    """What the reconciler says, as a report. Where it cannot tell, the effect stays unknown."""
    tool = shell.registry.tools.get(interrupted.call.name)
    if tool is None or tool.reconcile is None:
        return LeaveUnknown(detail="this process has no reconciler for the tool")
    reports = Reports(errand, interrupted, shell.settings.progress_ms)
    try:
        arguments = tool.parse(await _arguments_text(shell, interrupted))
        async with _running(shell, errand, interrupted, reports) as context:
            answer = await ask_reconciler(tool, context, arguments)
    except Exception as error:  # the door to reconcilers that users bring
        return LeaveUnknown(detail=_described(error))
    match answer:
        case Verdict.NOT_DONE:
            return StartTool(arguments=interrupted.arguments)
        case Verdict.UNKNOWN:
            return LeaveUnknown()
        case ToolResult():
            return reports.settled(answer, duration_ms=None)


@asynccontextmanager
async def _running(
    shell: Shell, errand: Errand, state: Started, reports: Reports
) -> AsyncGenerator[ToolContext]:
    """What the tool's code is given, for as long as it runs. It may not wait for itself."""
    call = state.call
    context = ToolContext(
        port=reports,
        call=ToolCall(name=call.name, entry=call.entry, index=call.index),
        idempotency_key=f"{shell.line.shown.uuid}:{call.entry}:{call.index}",
        env=await shell.environment(shell.agent_state(errand.agent).choices.cwd),
        agent=shell.handles.agent(errand.agent),
        session=shell.handles.session(),
        owning=Owning(shell, errand),
        spill_dir=shell.spill_dir,
    )
    try:
        with shell.running(errand.actor), contained():
            yield context
    finally:
        context.close()


async def _arguments_text(shell: Shell, state: Pending | Started) -> str:
    """The arguments to execute: as stored with the intent, or the call's own text."""
    if isinstance(state, Started) and state.arguments is not None:
        return state.arguments
    entry = await shell.bodies.entry(state.call.entry)
    calls = [call for message in entry.messages for call in calls_of(message)]
    return next(call.arguments for call in calls if call.index == state.call.index)


async def _refuse(errand: Errand, state: Pending | Started, code: DiagnosticCode, text: str) -> None:
    remark = Diagnostic(level="error", code=code, text=normalise(text))
    if isinstance(state, Pending):
        await errand.report(RejectCall(diagnostic=remark))
    else:
        await errand.report(SettleTool(is_error=True, diagnostics=(remark,)))


def _described(error: Exception) -> str:
    cause = root_cause(error)
    return normalise(f"{type(cause).__name__}: {cause}")

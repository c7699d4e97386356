"""One call of a model, as given/when/then: the file to read beside ``actors/tool/decider.py``."""

import msgspec
import pytest

from pi_actors.actors.agent.messages import SettleCall, ToolResultSettled
from pi_actors.actors.tool.decider import KIND as TOOL
from pi_actors.actors.tool.decider import ToolState
from pi_actors.actors.tool.messages import KIND as NAME
from pi_actors.actors.tool.messages import (
    BeginCall,
    LeaveUnknown,
    ReconcileTool,
    RejectCall,
    RunTool,
    SettleTool,
    StartTool,
    StreamOutput,
    ToolInput,
    ToolOutputStreamed,
    ToolReconcileStarted,
    ToolStarted,
)
from pi_actors.core.catalog import Catalog, ReplayPolicy, ToolFacts
from pi_actors.core.decider import Abort, At, Recover
from pi_actors.core.ids import ROOT
from pi_actors.core.lifecycle import COMPLETED, Outcome, WorkSpawned
from pi_actors.core.messages import Diagnostic, Text
from pi_actors.testing import at, given
from pi_actors.testing.spec import When

CALL = ToolInput(entry=3, index=0, name="push")
BIRTH = WorkSpawned(kind=NAME, agent=ROOT, owner=4, input=msgspec.msgpack.encode(CALL))


def with_policy(replay: ReplayPolicy | None, *, marked: bool = False) -> At:
    """A process whose tool has this policy; None: it has no such tool."""
    tools = {} if replay is None else {"push": ToolFacts(name="push", replay=replay)}
    return at(catalog=Catalog(tools=tools), marked=marked)


def result_of(when: When[ToolState]) -> ToolResultSettled:
    """The one result that the decision gives the call."""
    (message,) = when.decision().messages
    assert isinstance(message.command, SettleCall)
    return message.command.result


def codes(result: ToolResultSettled) -> list[str]:
    """The codes of a result's remarks."""
    return [remark.code for remark in result.diagnostics]


def test_a_call_of_policy_never_waits_for_its_slot_before_its_intent_is_stored() -> None:
    """D85, D86."""
    (
        given(TOOL, BIRTH)
        .when(BeginCall(), with_policy("never"))
        .then_nothing()
        .then_owed(RunTool(call=CALL))
        .when(StartTool(), with_policy("never"))
        .then([ToolStarted(replay="never")])
        .then_owed(RunTool(call=CALL))
    )


def test_a_safe_call_begins_at_once() -> None:
    given(TOOL, BIRTH).when(BeginCall(), with_policy("safe")).then([ToolStarted(replay="safe")])


def test_unusable_arguments_end_the_call_completed_without_an_intent() -> None:
    """D80."""
    when = given(TOOL, BIRTH).when(BeginCall(problem="text is missing"), with_policy("safe"))
    assert codes(result_of(when)) == ["invalid_arguments"]
    assert when.decision().finish == COMPLETED
    assert when.decision().events == ()


def test_a_tool_that_vanished_between_offer_and_call_is_unavailable() -> None:
    """D84."""
    when = given(TOOL, BIRTH).when(BeginCall(), with_policy(None))
    assert codes(result_of(when)) == ["tool_unavailable"]
    assert when.decision().finish == COMPLETED


def test_an_exception_fails_the_call_and_an_error_result_completes_it() -> None:
    """D87."""
    started = given(TOOL, BIRTH, [ToolStarted(replay="never")])
    failed = Outcome(status="failed", reason="tool_error")
    assert started.when(SettleTool(is_error=True, threw=True)).decision().finish == failed
    assert started.when(SettleTool(is_error=True)).decision().finish == COMPLETED


@pytest.mark.parametrize(
    ("stored", "today"),
    [("never", "never"), ("never", "safe"), ("safe", "never"), ("safe", None), ("reconcile", "safe")],
)
def test_a_started_call_is_not_repeated_unless_both_policies_allow_it(
    stored: ReplayPolicy, today: ReplayPolicy | None
) -> None:
    """N227, N228, X19, X83: the result says that the effect is unknown, and shows what was seen."""
    started = given(TOOL, BIRTH, [ToolStarted(replay=stored), ToolOutputStreamed(text="pushing\n")])
    when = started.when(Recover(), with_policy(today))
    result = result_of(when)
    assert (result.own, result.is_error, result.content) == (False, True, (Text(text="pushing\n"),))
    assert codes(result) == ["interrupted"]
    for words in ("effect is unknown", "Nobody refused it", "it was not repeated"):
        assert words in result.diagnostics[0].text
    assert when.decision().finish == Outcome(status="interrupted")


def test_a_call_that_is_safe_then_and_now_runs_again_with_its_arguments_and_no_progress() -> None:
    """N229."""
    events = [ToolStarted(replay="safe", arguments='{"a": 1}'), ToolOutputStreamed(text="half\n")]
    again = given(TOOL, BIRTH, events).when(Recover(), with_policy("safe"))
    after = again.then([ToolStarted(replay="safe", arguments='{"a": 1}')])
    cut = after.when(Abort())
    assert result_of(cut).content == ()


def test_a_reconciler_is_asked_and_what_it_says_goes() -> None:
    asked = (
        given(TOOL, BIRTH, [ToolStarted(replay="reconcile")])
        .when(Recover(), with_policy("reconcile"))
        .then([ToolReconcileStarted()])
        .then_owed(ReconcileTool(call=CALL))
    )
    done = asked.when(SettleTool(content=(Text(text="it was pushed"),)))
    assert (result_of(done).own, done.decision().finish) == (True, COMPLETED)
    asked.when(StartTool(), with_policy("reconcile")).then([ToolStarted(replay="reconcile")])
    unknown = asked.when(LeaveUnknown(detail="the service is down"))
    assert codes(result_of(unknown)) == ["interrupted"]
    assert "the service is down" in result_of(unknown).diagnostics[0].text


def test_a_second_crash_while_reconciling_asks_again_without_a_new_event() -> None:
    events = [ToolStarted(replay="reconcile"), ToolReconcileStarted()]
    asked = given(TOOL, BIRTH, events).when(Recover(), with_policy("reconcile")).then_nothing()
    asked.then_owed(ReconcileTool(call=CALL))


def test_a_call_that_never_began_is_left_as_it_is_by_recovery() -> None:
    """N226."""
    given(TOOL, BIRTH).when(Recover(), with_policy("never")).then_nothing().then_owed(RunTool(call=CALL))


def test_a_marked_call_starts_nothing() -> None:
    """No tool call starts after the abort is committed."""
    pending = given(TOOL, BIRTH)
    pending.when(BeginCall(), with_policy("safe", marked=True)).then_nothing()
    pending.when(StartTool(), with_policy("never", marked=True)).then_nothing()
    started = given(TOOL, BIRTH, [ToolStarted(replay="safe")])
    assert codes(result_of(started.when(Recover(), with_policy("safe", marked=True)))) == ["interrupted"]


def test_an_aborted_call_keeps_the_output_that_was_stored() -> None:
    """D90."""
    remark = Diagnostic(level="info", code="note", text="careful")
    events = [
        ToolStarted(replay="never"),
        ToolOutputStreamed(text="one\n"),
        ToolOutputStreamed(text="two\n", diagnostics=(remark,)),
    ]
    result = result_of(given(TOOL, BIRTH, events).when(Abort(still_running=True)))
    assert result.content == (Text(text="one\ntwo\n"),)
    assert codes(result) == ["note", "aborted"]
    assert "may still be running" in result.diagnostics[1].text


def test_reports_that_no_longer_fit_change_nothing() -> None:
    pending = given(TOOL, BIRTH)
    for report in (StreamOutput(text="x"), SettleTool(), LeaveUnknown()):
        pending.when(report).then_nothing()
    started = given(TOOL, BIRTH, [ToolStarted(replay="never")])
    late = RejectCall(diagnostic=Diagnostic(level="error", code="invalid_arguments", text="late"))
    started.when(late).then_nothing()
    started.when(StartTool(), with_policy("never")).then_nothing()

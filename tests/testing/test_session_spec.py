"""The spec of a whole cascade."""

import msgspec
import pytest

from pi_actors.actors.agent.messages import (
    EntryAppended,
    EntryDraft,
    SubmissionPlaced,
    Submit,
    Submitted,
    SubmitWrite,
)
from pi_actors.actors.generation.messages import CallModel, CheckedCall, ReceiveResponse
from pi_actors.actors.tool.messages import RunTool, SettleTool, StartTool, ToolInput
from pi_actors.core.catalog import Catalog, ToolFacts
from pi_actors.core.decider import Mark
from pi_actors.core.errors import AgentBusy
from pi_actors.core.ids import ROOT
from pi_actors.core.messages import Call, Text, user_message
from pi_actors.testing import broken_promises, given_session
from pi_actors.testing.session_spec import SECOND_US, GivenSession
from pi_actors.testing.spec import NOW_US

CATALOG = Catalog(
    tools={"push": ToolFacts(name="push")},
    models=frozenset({"m"}),
    default_model="m",
    default_tools=("push",),
)
ASK = Submit(messages=(user_message("hi"),))


def asked() -> GivenSession:
    """A session whose first request was sent."""
    return (
        given_session(catalog=CATALOG)
        .when(ROOT, ASK)
        .then_events("SubmissionPlaced", "EntryAppended", "RunStarted", "WorkSpawned", "RequestStarted")
    )


def test_a_turn_with_a_tool_is_told_commit_by_commit() -> None:
    session = asked()
    generation = session.newest("pi.generation").id
    assert session.owed() == {generation: (CallModel(request=6, repeated=0),)}
    pushed = Call(index=0, wire_id="", name="push", arguments="{}")
    checked = CheckedCall(index=0, name="push")
    session = session.when(
        generation, ReceiveResponse(parts=(pushed,), stop="calls", calls=(checked,))
    ).then_events("ResponseSettled", "ToolRoundStarted", "WorkSpawned")
    tool = session.newest("pi.tool").id
    assert session.owed() == {tool: (RunTool(call=ToolInput(entry=7, index=0, name="push")),)}
    session = session.when(tool, StartTool()).then_events("ToolStarted")
    session = session.when(tool, SettleTool(content=(Text(text="ok"),))).then_events(
        "ToolResultSettled", "WorkEnded", "WorkEnded", "WorkSpawned", "RequestStarted"
    )
    generation = session.newest("pi.generation").id
    session = session.when(generation, ReceiveResponse(parts=(Text(text="done"),), stop="stop")).then_events(
        "ResponseSettled", "WorkEnded", "RunEnded"
    )
    assert session.owed() == {}
    assert session.state.busy_agents == 0
    assert broken_promises(session.log) == []


def test_each_commit_is_a_second_after_the_one_before_unless_told() -> None:
    note = SubmitWrite(entry=EntryDraft(kind="note"))
    session = given_session().when(ROOT, note).done().when(ROOT, note, later_us=5).done()
    assert [each.at_us - NOW_US for each in session.log] == [
        0,
        SECOND_US,
        SECOND_US,
        SECOND_US + 5,
        SECOND_US + 5,
    ]


def test_facts_replies_and_refusals_can_be_named() -> None:
    note = given_session().when(ROOT, SubmitWrite(entry=EntryDraft(kind="note")))
    note.then((ROOT, SubmissionPlaced(mode="write", entry=3)), (ROOT, EntryAppended(kind="note")))
    assert note.reply() == Submitted(submission=2)
    busy = asked()
    rejected = msgspec.structs.replace(ASK, when_busy="reject")
    assert busy.when(ROOT, rejected).then_refused("is busy with a run", AgentBusy) is busy
    assert busy.when(99, Mark()).then_nothing().log == busy.log
    with pytest.raises(AssertionError, match="the commit is"):
        note.then_nothing()
    with pytest.raises(AssertionError, match="not refused"):
        note.then_refused("no")
    with pytest.raises(AssertionError, match=r"no pi\.tool is live"):
        busy.newest("pi.tool")


def test_another_process_with_another_catalog_goes_on_with_the_same_session() -> None:
    session = given_session(catalog=CATALOG).with_catalog(Catalog())
    after = session.when(ROOT, ASK).done()
    assert after.log[-1].topic == "RunEnded"
    assert getattr(after.log[-1].event, "reason", None) == "no_model"

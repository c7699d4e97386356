"""The spec of one decider: what it accepts and what it complains about."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pi_actors.actors.agent.decider import KIND as AGENT
from pi_actors.actors.agent.messages import (
    EntryAppended,
    RunStarted,
    SettleCall,
    SubmissionPlaced,
    Submit,
    Submitted,
    ToolResultSettled,
)
from pi_actors.actors.generation.messages import Prepare
from pi_actors.actors.tool.decider import KIND as TOOL
from pi_actors.actors.tool.messages import KIND as TOOL_NAME
from pi_actors.actors.tool.messages import (
    ReportDetails,
    RunTool,
    SettleTool,
    StartTool,
    ToolDetailsReported,
    ToolInput,
    ToolOutputStreamed,
    ToolStarted,
)
from pi_actors.core.catalog import Catalog, ToolFacts
from pi_actors.core.decider import Decision, Kind, Quarantined, Send
from pi_actors.core.errors import AgentBusy
from pi_actors.core.ids import ROOT
from pi_actors.core.lifecycle import COMPLETED, AgentSpawned, Choices, WorkSpawned
from pi_actors.core.messages import CallRef, Text, user_message
from pi_actors.testing import at, given

CALL = ToolInput(entry=3, index=0, name="push")
BIRTH = WorkSpawned(kind=TOOL_NAME, agent=ROOT, owner=4, input=msgspec.msgpack.encode(CALL))
STARTED = ToolStarted(replay="never")
CATALOG = at(catalog=Catalog(tools={"push": ToolFacts(name="push")}))


def test_a_story_is_told_step_by_step() -> None:
    result = ToolResultSettled(
        call=CallRef(entry=3, index=0), name="push", by=5, own=True, content=(Text(text="done"),)
    )
    (
        given(TOOL, BIRTH)
        .then_owed(RunTool(call=CALL))
        .when(StartTool(), CATALOG)
        .then([STARTED])
        .when(ReportDetails(details={"at": [1]}))
        .then([ToolDetailsReported(details={"at": [1]})])
        .when(SettleTool(content=(Text(text="done"),)))
        .then(messages=[Send(ROOT, SettleCall(result=result))], finish=COMPLETED)
    )


def test_positions_follow_from_the_birth_and_a_decision_is_made_at_the_next() -> None:
    story = given(
        AGENT, AgentSpawned(session_uuid="u"), [EntryAppended(kind="note"), (7, EntryAppended(kind="x"))]
    )
    assert story.position == 7
    story = story.when(Submit(messages=(user_message("hi"),))).then(
        [
            SubmissionPlaced(mode="follow_up", entry=9),
            EntryAppended(kind="pi.user", messages=(user_message("hi"),)),
            RunStarted(inputs=(8,)),
            WorkSpawned(kind="pi.generation", agent=ROOT),
        ],
        [Send(11, Prepare(choices=Choices()))],
        reply=Submitted(submission=8),
    )
    assert story.position == 10
    refused = Submit(messages=(user_message("again"),), when_busy="reject")
    assert story.when(refused).then_refused("is busy with a run", AgentBusy) is story


def test_what_does_not_fit_is_complained_about() -> None:
    tool = given(TOOL, BIRTH, [STARTED])
    complaints: list[tuple[str, Callable[[], object]]] = [
        ("events:", lambda: tool.when(ReportDetails(details=1)).then()),
        ("messages:", lambda: tool.when(SettleTool()).then(finish=COMPLETED)),
        (
            "finish:",
            lambda: tool.when(SettleTool()).then(messages=tool.when(SettleTool()).decision().messages),
        ),
        ("not refused:", lambda: tool.when(StartTool(), CATALOG).then_refused("no")),
        ("does not fit", lambda: given(TOOL, BIRTH, [ToolOutputStreamed(text="early")])),
        ("is not after", lambda: given(TOOL, BIRTH, [(5, STARTED)])),
        ("reads back as", lambda: tool.when(ReportDetails(details=(1, 2)))),
        ("owed:", tool.then_owed),
    ]
    for complaint, step in complaints:
        with pytest.raises(AssertionError, match=complaint):
            step()


def test_a_decider_that_decides_differently_the_second_time_is_found_out() -> None:
    made = iter(range(10))

    def decide(state: Any, command: Any, _: Any) -> Decision:
        return Decision(events=(ToolOutputStreamed(text=str(next(made))),))

    fickle: Kind[Any] = msgspec.structs.replace(TOOL, decide=decide)
    with pytest.raises(AssertionError, match="decided differently"):
        given(fickle, BIRTH, [STARTED]).when(SettleTool()).then()


def test_a_decision_that_its_own_actor_cannot_have_had_is_found_out() -> None:
    def decide(state: Any, command: Any, _: Any) -> Decision:
        return Decision(events=(ToolOutputStreamed(text="too early"),))

    hasty: Kind[Any] = msgspec.structs.replace(TOOL, decide=decide)
    with pytest.raises(AssertionError, match="does not fit"):
        given(hasty, BIRTH).when(SettleTool()).then([ToolOutputStreamed(text="too early")])


def test_an_evolve_that_raises_for_an_impossible_event_is_found_out() -> None:
    def evolve(state: Any, position: int, event: Any) -> Any:
        evolved = TOOL.evolve(state, position, event)
        if isinstance(evolved, Quarantined):
            raise ValueError(event)
        return evolved

    partial: Kind[Any] = msgspec.structs.replace(TOOL, evolve=evolve)
    with pytest.raises(ValueError, match="WorkSpawned"):
        given(partial, BIRTH).when(StartTool(), CATALOG).then([STARTED])

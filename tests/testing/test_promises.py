"""Each promise is kept by real logs, and a log that breaks it is noticed."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from pi_actors.actors.agent.messages import PlaceInbox, RunReleased, Submit
from pi_actors.actors.compaction.messages import CompactionInput, SummaryStarted
from pi_actors.actors.generation.messages import CheckedCall, ReceiveResponse
from pi_actors.actors.tool.messages import SettleTool, StartTool, ToolReconcileStarted, ToolStarted
from pi_actors.core.catalog import Catalog, ToolFacts
from pi_actors.core.decider import Abort, Event, Mark, SpawnWork
from pi_actors.core.ids import ROOT, ActorId
from pi_actors.core.messages import Call, Text, user_message
from pi_actors.core.record import Recorded
from pi_actors.runtime.store import TOPICS
from pi_actors.testing import given_session
from pi_actors.testing.promises import (
    CHECKERS,
    Checker,
    calls_have_one_result,
    commits_are_whole,
    finished_means_finished,
    nothing_is_quarantined,
    nothing_starts_below_an_abort,
    runs_end_with_an_answer_or_a_reason,
    submissions_settle_once,
    unsafe_calls_start_once,
)
from pi_actors.testing.session_spec import GivenSession

Log = list[Recorded]

CATALOG = Catalog(
    tools={"push": ToolFacts(name="push"), "look": ToolFacts(name="look", replay="safe")},
    models=frozenset({"m"}),
    default_model="m",
    default_tools=("push", "look"),
)
ASK_FOR_SUMMARY = SpawnWork(
    name="",
    kind="pi.compaction",
    version=1,
    input=msgspec.msgpack.encode(CompactionInput(trigger="manual", entries=(2,))),
)


def working() -> GivenSession:
    """Two calls were made: ``push`` runs, ``look`` runs, an input is queued."""
    session = given_session(catalog=CATALOG).when(ROOT, Submit(messages=(user_message("hi"),))).done()
    names = ("push", "look")
    session = session.when(
        session.newest("pi.generation").id,
        ReceiveResponse(
            parts=tuple(
                Call(index=index, wire_id="", name=name, arguments="{}") for index, name in enumerate(names)
            ),
            stop="calls",
            calls=tuple(CheckedCall(index=index, name=name) for index, name in enumerate(names)),
        ),
    ).done()
    session = session.when(session.newest("pi.tool").id - 1, StartTool()).done()
    return session.when(ROOT, Submit(messages=(user_message("and then"),))).done()


def finished() -> Log:
    """The same session, to its end."""
    session = working()
    tool = session.newest("pi.tool").id
    for id in (tool, tool - 1):
        session = session.when(id, SettleTool(content=(Text(text="ok"),))).done()
    for _ in range(2):
        generation = session.newest("pi.generation").id
        session = session.when(generation, ReceiveResponse(parts=(Text(text="so"),), stop="stop")).done()
    assert session.state.busy_agents == 0
    return list(session.log)


LOG = finished()


def place(topic: str, number: int = 0) -> int:
    """Where in the log the event of that topic and number stands."""
    return [index for index, each in enumerate(LOG) if each.topic == topic][number]


def changed(index: int, **fields: object) -> Log:
    """The log with fields of one record changed."""
    return [*LOG[:index], msgspec.structs.replace(LOG[index], **fields), *LOG[index + 1 :]]


def appended(actor: ActorId, *events: Event, log: Sequence[Recorded] = LOG) -> Log:
    """The log with one more commit of *events* of *actor*."""
    end = len(log) + len(events)
    new = [
        msgspec.structs.replace(
            LOG[-1],
            position=len(log) + place,
            end=end,
            actor=actor,
            topic=TOPICS.topic_of(event),
            event=event,
        )
        for place, event in enumerate(events, 1)
    ]
    return [*log, *new]


def without(index: int) -> Log:
    """The log without one record, the later ones moved up."""
    rest = (msgspec.structs.replace(each, position=each.position - 1) for each in LOG[index + 1 :])
    return [*LOG[:index], *rest]


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_real_log_keeps_every_promise(checker: Checker) -> None:
    assert list(checker(LOG)) == []
    assert list(checker(working().log)) == []
    assert list(checker([])) == []


def _tool(name: str) -> ActorId:
    (start,) = [each.actor for each in LOG if each.topic == "ToolStarted" and _replay(each) == POLICY[name]]
    return start


POLICY = {"push": "never", "look": "safe"}


def _replay(recorded: Recorded) -> str:
    assert isinstance(recorded.event, ToolStarted)
    return recorded.event.replay


def _placed_without_a_run() -> Log:
    run_ended = place("RunEnded", 1)
    return changed(run_ended, event=msgspec.structs.replace(LOG[run_ended].event, inputs=()))


def _ended(**fields: object) -> Log:
    run_ended = place("RunEnded")
    return changed(run_ended, event=msgspec.structs.replace(LOG[run_ended].event, **fields))


def _second_run() -> Log:
    started = place("RunStarted")
    return appended(ROOT, LOG[started].event, log=working().log)


def _impossible() -> Log:
    return appended(
        working().newest("pi.tool").id, ToolReconcileStarted(), ToolReconcileStarted(), log=working().log
    )


BROKEN: list[tuple[Checker, str, Callable[[], Log]]] = [
    (commits_are_whole, "stands at place", lambda: LOG[1:]),
    (commits_are_whole, "older than the event before", lambda: changed(5, at_us=LOG[0].at_us)),
    (commits_are_whole, "is cut off at", lambda: LOG[:-1]),
    (commits_are_whole, "is cut off at", lambda: changed(place("EntryAppended"), end=2)),
    (commits_are_whole, "which is not before it", lambda: changed(3, cause=4)),
    (calls_have_one_result, "had no result", lambda: without(place("ToolResultSettled"))),
    (
        calls_have_one_result,
        "which has no open call",
        lambda: appended(ROOT, LOG[place("ToolResultSettled")].event),
    ),
    (
        unsafe_calls_start_once,
        "was started again",
        lambda: appended(_tool("push"), ToolStarted(replay="never")),
    ),
    (
        unsafe_calls_start_once,
        "was started again",
        lambda: appended(_tool("push"), ToolStarted(replay="safe")),
    ),
    (
        unsafe_calls_start_once,
        "was started again",
        lambda: appended(_tool("look"), ToolStarted(replay="never")),
    ),
    (
        submissions_settle_once,
        "it was not placed",
        lambda: appended(ROOT, LOG[place("RunEnded")].event),
    ),
    (
        submissions_settle_once,
        "it did not wait",
        lambda: appended(ROOT, LOG[place("SubmissionPlaced", 1)].event),
    ),
    (submissions_settle_once, "no run has it", _placed_without_a_run),
    (finished_means_finished, "ended at", lambda: appended(_tool("push"), LOG[place("ToolStarted")].event)),
    (finished_means_finished, "which is not active", lambda: appended(ROOT, RunReleased(run=4))),
    (finished_means_finished, "was active", _second_run),
    (finished_means_finished, "had no run", lambda: appended(ROOT, LOG[place("ToolResultSettled")].event)),
    (runs_end_with_an_answer_or_a_reason, "for None", lambda: _ended(answer=None)),
    (runs_end_with_an_answer_or_a_reason, "for faulted", lambda: _ended(reason="faulted")),
    (runs_end_with_an_answer_or_a_reason, "no answer of its own", lambda: _ended(answer=3)),
    (nothing_is_quarantined, "has met ToolReconcileStarted", _impossible),
]


@pytest.mark.parametrize(("checker", "complaint", "broken"), BROKEN)
def test_a_log_that_breaks_the_promise_is_noticed(
    checker: Checker, complaint: str, broken: Callable[[], Log]
) -> None:
    problems = list(checker(broken()))
    assert [problem for problem in problems if complaint in problem], problems


def test_a_safe_call_may_start_again_and_a_reconciled_one_after_its_reconciler() -> None:
    again = appended(_tool("look"), ToolStarted(replay="safe"))
    assert list(unsafe_calls_start_once(again)) == []
    asked = appended(_tool("push"), ToolReconcileStarted(), ToolStarted(replay="reconcile"))
    assert list(unsafe_calls_start_once(asked)) == []


def test_what_starts_below_an_abort_mark_is_noticed_until_the_aborted_actor_has_ended() -> None:
    session = working()
    tool = session.newest("pi.tool").id
    session = session.when(session.newest("pi.generation").id, Mark()).done()
    started = ToolStarted(replay="safe")
    aborted = appended(tool, started, log=session.log)
    assert [line for line in nothing_starts_below_an_abort(aborted) if "below the aborted" in line]
    for id in (tool, tool - 1, session.newest("pi.generation").id):
        session = session.when(id, Abort()).done()
    session = session.when(ROOT, PlaceInbox()).done()
    assert session.log[-1].topic == "RequestStarted"
    assert list(nothing_starts_below_an_abort(session.log)) == []


def test_a_summary_that_is_asked_for_below_an_abort_is_noticed() -> None:
    session = given_session(catalog=CATALOG).when(ROOT, ASK_FOR_SUMMARY).done()
    compaction = session.newest("pi.compaction").id
    session = session.when(compaction, Mark()).done()
    asked = appended(compaction, SummaryStarted(model="m"), log=session.log)
    assert [line for line in nothing_starts_below_an_abort(asked) if "below the aborted" in line]
    assert list(nothing_starts_below_an_abort(session.log)) == []

"""pi.live."""

import msgspec
import pytest

from pi_actors.actors.agent.messages import RunEnded, RunRecovered, RunStarted, SubmissionPlaced
from pi_actors.actors.generation.messages import KIND as GENERATION
from pi_actors.actors.generation.messages import (
    CallSpec,
    CompactionAwaited,
    Delta,
    PartialStreamed,
    RequestRepeated,
    RetryScheduled,
    ToolRoundAdvanced,
    ToolRoundStarted,
)
from pi_actors.actors.tool.messages import KIND as TOOL
from pi_actors.actors.tool.messages import (
    ToolDetailsReported,
    ToolOutputStreamed,
    ToolReconcileStarted,
    ToolStarted,
)
from pi_actors.core.lifecycle import COMPLETED, Outcome, WorkEnded, WorkSpawned
from pi_actors.core.messages import Diagnostic, Text
from tests.projections.story import ROOT, Story, response, result, tool_spawned


def asked() -> tuple[Story, int]:
    story = Story()
    story.spawn_root()
    return story, story.ask()


def tools(story: Story) -> list[dict[str, object]]:
    return msgspec.convert(story.document("pi.live")["tools"], list[dict[str, object]])


def partial(story: Story) -> object:
    generation = story.document("pi.live")["generation"]
    return msgspec.convert(generation, dict[str, object])["partial"]


def preparing(generation: int) -> dict[str, object]:
    return {"actor": generation, "attempt": None, "model": None, "turn": None, "partial": []}


def test_an_agent_at_rest_has_nothing_live() -> None:
    story = Story()
    story.spawn_root()
    assert story.document("pi.live") == {
        "run": None,
        "generation": None,
        "retry": None,
        "tools": [],
        "compactions": [],
        "unknown": [],
    }


def test_a_run_shows_its_inputs_and_the_steers_that_joined_it() -> None:
    story, _ = asked()
    run = {"id": 4, "inputs": [2], "recovery_attempt": 0}
    assert story.document("pi.live")["run"] == run
    steer = story.commit((ROOT, SubmissionPlaced(mode="steer", entry=7)))
    story.commit((ROOT, SubmissionPlaced(mode="write", entry=8)))
    assert story.document("pi.live")["run"] == run | {"inputs": [2, steer]}


def test_a_recovered_run_shows_the_attempt_and_an_ended_one_is_gone() -> None:
    story, _ = asked()
    story.commit((ROOT, RunRecovered(run=4, attempt=2)))
    assert story.document("pi.live")["run"] == {"id": 4, "inputs": [2], "recovery_attempt": 2}
    story.commit((ROOT, RunEnded(run=4, inputs=(2,), answer=9)))
    assert story.document("pi.live")["run"] is None


def test_the_end_of_another_run_changes_nothing() -> None:
    story, _ = asked()
    story.commit((ROOT, RunEnded(run=99, inputs=())), (ROOT, RunRecovered(run=99, attempt=3)))
    assert story.document("pi.live")["run"] == {"id": 4, "inputs": [2], "recovery_attempt": 0}


def test_a_generation_that_prepares_has_no_attempt() -> None:
    story, generation = asked()
    assert story.document("pi.live")["generation"] == preparing(generation)


def test_a_retry_that_waits_for_a_compaction_is_no_retry_any_more() -> None:
    story, generation = asked()
    story.request(generation)
    story.commit((generation, RetryScheduled(attempt=2, due_us=1, error="overloaded")))
    assert story.document("pi.live")["retry"] is not None
    story.commit((generation, CompactionAwaited(compaction=9)))
    assert story.document("pi.live")["retry"] is None
    assert story.document("pi.live")["generation"] == preparing(generation)


def test_partial_parts_grow_by_their_deltas_in_the_order_of_the_response() -> None:
    """Scenario C49: partials are stored as deltas."""
    story, generation = asked()
    story.request(generation)
    story.commit(
        (generation, PartialStreamed(deltas=(Delta(part=0, type="thinking", text="Hm"),))),
        (generation, PartialStreamed(deltas=(Delta(part=2, type="call", text="{", name="read"),))),
    )
    story.commit(
        (
            generation,
            PartialStreamed(
                deltas=(
                    Delta(part=1, type="text", text="I "),
                    Delta(part=2, type="call", text="}"),
                    Delta(part=1, type="text", text="see"),
                )
            ),
        )
    )
    assert story.document("pi.live")["generation"] == {
        "actor": generation,
        "attempt": 1,
        "model": "m",
        "turn": 0,
        "partial": [
            {"type": "thinking", "text": "Hm"},
            {"type": "text", "text": "I see"},
            {"type": "call", "text": "{}", "name": "read"},
        ],
    }


def test_a_request_sent_again_starts_with_an_empty_partial() -> None:
    story, generation = asked()
    story.request(generation)
    story.commit((generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="old"),))))
    story.commit((generation, RequestRepeated()))
    story.commit((generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="new"),))))
    assert partial(story) == [{"type": "text", "text": "new"}]


def test_the_partial_goes_with_the_commit_that_stores_the_response() -> None:
    """Scenario C74, for an aborted response as for any other."""
    story, generation = asked()
    story.request(generation)
    story.commit((generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="half"),))))
    story.commit((ROOT, response(generation, Text(text="half"), stop="aborted")))
    assert story.document("pi.live")["generation"] == preparing(generation)


def test_a_delta_of_another_type_than_its_part_is_ignored() -> None:
    story, generation = asked()
    story.request(generation)
    story.commit(
        (generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="a"),))),
        (generation, PartialStreamed(deltas=(Delta(part=0, type="thinking", text="b"),))),
    )
    assert partial(story) == [{"type": "text", "text": "a"}]


def test_a_generation_that_is_not_the_newest_shows_nothing() -> None:
    story, generation = asked()
    newer = story.commit((0, WorkSpawned(kind=GENERATION, agent=ROOT)))
    story.request(generation)
    story.commit((generation, WorkEnded(outcome=COMPLETED)))
    assert story.document("pi.live")["generation"] == preparing(newer)


def test_a_scheduled_retry_shows_when_it_is_due_until_the_next_request() -> None:
    story, generation = asked()
    story.request(generation)
    story.commit(
        (ROOT, response(generation, stop="error")),
        (generation, RetryScheduled(attempt=2, due_us=1_700_000_000_500_000, error="overloaded")),
    )
    retry = {"attempt": 2, "due": "2023-11-14T22:13:20.500000Z", "error": "overloaded"}
    assert story.document("pi.live")["retry"] == retry
    story.request(generation, attempt=2)
    assert story.document("pi.live")["retry"] is None


def test_nothing_of_an_ended_generation_stays() -> None:
    story, generation = asked()
    story.request(generation)
    story.commit((generation, RetryScheduled(attempt=2, due_us=0, error="x")))
    story.commit((generation, WorkEnded(outcome=Outcome(status="aborted"))))
    live = story.document("pi.live")
    assert (live["generation"], live["retry"]) == (None, None)


def test_parallel_calls_have_pending_slots_with_their_arguments() -> None:
    """Scenario D101."""
    story, generation = asked()
    entry, (read, grep) = story.call_tools(generation, "read", "grep")
    shown = [
        (slot["actor"], slot["entry"], slot["index"], slot["name"], slot["arguments"])
        for slot in tools(story)
    ]
    assert shown == [(read, entry, 0, "read", '{"n":0}'), (grep, entry, 1, "grep", '{"n":1}')]
    assert {slot["state"] for slot in tools(story)} == {"pending"}


def test_what_a_tool_shows_stands_in_its_own_slot_only() -> None:
    story, generation = asked()
    _, (read, grep) = story.call_tools(generation, "read", "grep")
    story.commit((grep, ToolStarted(replay="safe")), (grep, ToolOutputStreamed(text="found")))
    shown = [(slot["actor"], slot["state"], slot["output"]) for slot in tools(story)]
    assert shown == [(read, "pending", ""), (grep, "running", "found")]


def test_a_call_has_one_slot_in_whichever_order_its_round_and_its_actor_come() -> None:
    story, generation = asked()
    call = CallSpec(index=0, name="read")
    tool = story.commit(
        (0, tool_spawned(generation, 99, call)),
        (generation, ToolRoundStarted(entry=99, calls=(call, call))),
    )
    assert [(slot["actor"], slot["arguments"]) for slot in tools(story)] == [(tool, "")]


@pytest.mark.parametrize("input", [b"", b"\xc1", b"\x93\x01\x02\xa1\xff", b"\x93\x01\x02\x03"])
def test_a_tool_actor_born_with_what_is_no_call_has_no_slot(input: bytes) -> None:
    story, generation = asked()
    story.commit((0, WorkSpawned(kind=TOOL, agent=ROOT, owner=generation, input=input)))
    assert tools(story) == []


def test_what_a_call_was_given_is_known_in_its_slot_only() -> None:
    """What is over takes no memory: the arguments stand in the log."""
    story, generation = asked()
    entry, (tool,) = story.call_tools(generation, "read")
    live = story.state().folds[ROOT].live
    assert (live.round.calls, [slot.arguments for slot in live.round.slots]) == ((), ['{"n":0}'])
    story.commit((ROOT, result(entry, 0, "read")), (tool, WorkEnded(outcome=COMPLETED)))
    assert story.state().folds[ROOT].live.round.slots == ()


def test_calls_of_a_sequential_round_wait_until_they_are_spawned() -> None:
    """Scenario D102."""
    story, generation = asked()
    entry, (first,) = story.call_tools(generation, "a", "b", sequential=True)
    assert [(slot["actor"], slot["state"]) for slot in tools(story)] == [
        (first, "pending"),
        (None, "waiting"),
    ]
    story.commit(
        (ROOT, result(entry, 0, "a")),
        (first, WorkEnded(outcome=COMPLETED)),
        (generation, ToolRoundAdvanced(next=1)),
        (0, tool_spawned(generation, entry, CallSpec(index=1, name="b"))),
    )
    assert [(slot["actor"], slot["state"]) for slot in tools(story)] == [(story.position, "pending")]
    assert [slot["arguments"] for slot in tools(story)] == ['{"n":1}']


def test_calls_that_still_wait_when_the_generation_ends_are_gone() -> None:
    story, generation = asked()
    _, (first,) = story.call_tools(generation, "a", "b", sequential=True)
    story.commit(
        (first, WorkEnded(outcome=Outcome(status="aborted"))),
        (generation, WorkEnded(outcome=Outcome(status="aborted"))),
    )
    assert tools(story) == []


def test_a_running_tool_shows_its_output_details_and_remarks() -> None:
    """Scenario D86: the slot is running from the intent's commit on."""
    story, generation = asked()
    entry, (tool,) = story.call_tools(generation, "build")
    started = story.commit((tool, ToolStarted(replay="never", arguments='{"n":7}')))
    remark = Diagnostic(level="info", code="note", text="cold cache")
    story.commit((tool, ToolOutputStreamed(text="one\n", diagnostics=(remark,))))
    story.commit((tool, ToolOutputStreamed(text="two\n")), (tool, ToolDetailsReported(details={"done": 1})))
    story.commit((tool, ToolDetailsReported(details={"done": 2})))
    assert tools(story) == [
        {
            "actor": tool,
            "entry": entry,
            "index": 0,
            "name": "build",
            "arguments": '{"n":7}',
            "state": "running",
            "output": "one\ntwo\n",
            "skipped_bytes": 0,
            "details": {"done": 2},
            "diagnostics": [{"level": "info", "code": "note", "text": "cold cache"}],
            "started_at": "2023-11-14T22:13:23Z",
        }
    ]
    assert started == tool + 1


def test_output_is_kept_within_the_window_of_its_intent() -> None:
    """Scenarios D91 and D92."""
    for keep_head, seen in ((False, "3\n4\n"), (True, "1\n2\n")):
        story, generation = asked()
        _, (tool,) = story.call_tools(generation, "build")
        story.commit((tool, ToolStarted(replay="never", max_lines=2, keep_head=keep_head)))
        for line in ("1\n", "2\n", "3\n", "4\n"):
            story.commit((tool, ToolOutputStreamed(text=line)))
        (slot,) = tools(story)
        assert (slot["output"], slot["skipped_bytes"]) == (seen, 4)


def test_limits_that_no_output_fits_keep_the_fold_going() -> None:
    story, generation = asked()
    _, (tool,) = story.call_tools(generation, "build")
    story.commit((tool, ToolStarted(replay="never", max_bytes=-5, max_lines=0)))
    story.commit((tool, ToolOutputStreamed(text="")), (tool, ToolOutputStreamed(text="ab")))
    assert [slot["output"] for slot in tools(story)] == ["b"]


def test_a_document_may_be_changed_by_who_asked_for_it() -> None:
    story, generation = asked()
    _, (tool,) = story.call_tools(generation, "build")
    story.commit((tool, ToolStarted(replay="never")), (tool, ToolDetailsReported(details={"done": 1})))
    state = story.state()
    state.documents(ROOT)["pi.live"]["tools"][0]["details"]["done"] = 2
    assert state.documents(ROOT)["pi.live"]["tools"][0]["details"] == {"done": 1}


def test_output_that_was_left_out_before_it_was_stored_counts_as_skipped() -> None:
    story, generation = asked()
    _, (tool,) = story.call_tools(generation, "build")
    story.commit((tool, ToolStarted(replay="never")))
    story.commit((tool, ToolOutputStreamed(text="end\n", skipped_bytes=1000)))
    (slot,) = tools(story)
    assert (slot["output"], slot["skipped_bytes"]) == ("end\n", 1000)


def test_a_rerun_clears_what_the_first_execution_showed() -> None:
    """Scenario N229."""
    story, generation = asked()
    _, (tool,) = story.call_tools(generation, "read")
    story.commit((tool, ToolStarted(replay="safe", arguments='{"n":7}')))
    story.commit((tool, ToolOutputStreamed(text="old")), (tool, ToolDetailsReported(details=1)))
    story.commit((tool, ToolStarted(replay="safe")))
    (slot,) = tools(story)
    assert (slot["output"], slot["details"], slot["state"]) == ("", None, "running")
    assert slot["arguments"] == '{"n":7}'


def test_a_call_whose_reconciler_is_asked_keeps_its_output() -> None:
    story, generation = asked()
    _, (tool,) = story.call_tools(generation, "deploy")
    story.commit((tool, ToolStarted(replay="reconcile")), (tool, ToolOutputStreamed(text="half")))
    story.commit((tool, ToolReconcileStarted()))
    (slot,) = tools(story)
    assert (slot["state"], slot["output"]) == ("reconciling", "half")


def test_a_slot_goes_with_the_commit_that_stores_its_result() -> None:
    """Scenario D110; the tool's actor may live on (D109)."""
    story, generation = asked()
    entry, (read, _) = story.call_tools(generation, "read", "grep")
    story.commit((read, ToolStarted(replay="safe")))
    story.commit((ROOT, result(entry, 0, "read")))
    assert [slot["name"] for slot in tools(story)] == ["grep"]
    story.commit((read, ToolOutputStreamed(text="late")))
    assert [slot["name"] for slot in tools(story)] == ["grep"]


def test_a_tool_that_ended_without_a_result_holds_no_slot() -> None:
    story, generation = asked()
    _, (read,) = story.call_tools(generation, "read")
    story.commit((read, WorkEnded(outcome=Outcome(status="faulted"))))
    assert tools(story) == []


def test_an_interrupted_call_is_unknown_until_a_later_call_of_its_tool_has_a_result_of_its_own() -> None:
    """Scenario X13, and the fourth promise."""
    story, generation = asked()
    entry, _ = story.call_tools(generation, "deploy", "read")
    story.commit((ROOT, result(entry, 0, "deploy", code="interrupted")), (ROOT, result(entry, 1, "read")))
    unknown = [{"entry": entry, "index": 0, "name": "deploy", "since": "2023-11-14T22:13:23Z"}]
    assert story.document("pi.live")["unknown"] == unknown
    again, _ = story.call_tools(generation, "deploy")
    story.commit((ROOT, result(again, 0, "deploy", code="invalid_arguments")))
    assert story.document("pi.live")["unknown"] == unknown
    again, _ = story.call_tools(generation, "deploy")
    story.commit((ROOT, result(again, 0, "deploy")))
    assert story.document("pi.live")["unknown"] == []


def test_a_new_run_shows_nothing_of_the_one_before() -> None:
    story, generation = asked()
    story.request(generation)
    story.commit((ROOT, response(generation, Text(text="hi"))), (generation, WorkEnded(outcome=COMPLETED)))
    story.commit((ROOT, RunEnded(run=4, inputs=(2,), answer=7)), (ROOT, RunStarted(inputs=(20,))))
    live = story.document("pi.live")
    assert live["run"] == {"id": story.position, "inputs": [20], "recovery_attempt": 0}
    assert live["generation"] is None

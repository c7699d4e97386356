"""The decider of one compaction, as given/when/then."""

import msgspec
import pytest

from pi_actors.actors.agent.messages import PlaceSummary
from pi_actors.actors.compaction.decider import KIND as COMPACTION
from pi_actors.actors.compaction.decider import Asking, CompactionState
from pi_actors.actors.compaction.messages import KIND as NAME
from pi_actors.actors.compaction.messages import (
    BeginSummary,
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
from pi_actors.core.catalog import Catalog
from pi_actors.core.decider import Abort, At, Recover, Send
from pi_actors.core.ids import ROOT
from pi_actors.core.lifecycle import Outcome, WorkSpawned
from pi_actors.core.messages import Usage
from pi_actors.core.settings import CompactionSettings, RetrySettings, Settings
from pi_actors.core.tokens import text_tokens
from pi_actors.testing import at, given
from pi_actors.testing.spec import NOW_US, WORK, Given

INPUT = CompactionInput(
    trigger="background", entries=(2, 3), keep_from=4, model="m", tokens=900, summary_tokens_max=100
)
STARTED = SummaryStarted(model="m", input_tokens_max=2_000)
USED = Usage(input=10, output=2)
PROCESS = at(
    catalog=Catalog(models=frozenset({"m", "small"}), windows={"m": 100_000, "small": 4_000}),
    settings=Settings(retry=RetrySettings(retries_max=2, first_ms=1_000)),
)
ABORTED = Outcome(status="aborted")


def marked() -> At:
    """The same process, with the compaction marked for abort."""
    return msgspec.structs.replace(PROCESS, marked=True)


def born(input: CompactionInput = INPUT) -> Given[CompactionState]:
    birth = WorkSpawned(kind=NAME, agent=ROOT, input=msgspec.msgpack.encode(input))
    return given(COMPACTION, birth)


def asking(started: SummaryStarted = STARTED) -> Given[CompactionState]:
    """Its first request is stored at 6."""
    return born().met(WORK + 1, started)


def received(text: str = "They talked.", *, part: int = 0, last: bool = True) -> ReceiveSummary:
    return ReceiveSummary(part=part, last=last, text=text, stop="stop", usage=USED)


def settled(*, part: int = 0, last: bool = True, text: str = "") -> SummarySettled:
    return SummarySettled(part=part, last=last, model="m", text=text, usage=USED)


def failed(error: str, *, attempt: int = 1, due_us: int | None = None) -> SummaryFailed:
    return SummaryFailed(attempt=attempt, error=error, model="m", due_us=due_us)


# Beginning.


def test_the_request_is_stored_with_its_model_and_size_before_it_is_sent() -> None:
    """What fits is three quarters of the window without the request and two summaries."""
    (
        born()
        .then_owed()
        .when(BeginSummary(), PROCESS)
        .then([SummaryStarted(model="m", input_tokens_max=74_300)])
        .then_owed(Summarise(request=6))
    )


def test_the_model_of_the_settings_writes_the_summary_before_the_agents_own() -> None:
    settings = Settings(compaction=CompactionSettings(model="small"))
    when = born().when(BeginSummary(), msgspec.structs.replace(PROCESS, settings=settings))
    when.then([SummaryStarted(model="small", input_tokens_max=2_300)])


def test_without_a_model_of_its_own_the_agents_default_writes_the_summary() -> None:
    process = at(catalog=Catalog(models=frozenset({"d"}), default_model="d"))
    input = msgspec.structs.replace(INPUT, model=None)
    born(input).when(BeginSummary(), process).then([SummaryStarted(model="d")])


@pytest.mark.parametrize("window", [300, 1_000, 4_000, 20_000, 131_000])
@pytest.mark.parametrize("summary", [15, 250, 4_096])
def test_a_request_with_a_part_and_the_summary_so_far_leaves_room_for_the_answer(
    window: int, summary: int
) -> None:
    """X72: also where the summary that the agent could take is larger than the summariser's window."""
    process = at(catalog=Catalog(models=frozenset({"m"}), windows={"m": window}))
    input = msgspec.structs.replace(INPUT, summary_tokens_max=summary)
    (started,) = born(input).when(BeginSummary(), process).decision().events
    assert isinstance(started, SummaryStarted)
    assert started.input_tokens_max is not None
    story = born(input).met(WORK + 1, started)
    (so_far,) = story.when(received("x" * 100_000, last=False), PROCESS).decision().events
    assert isinstance(so_far, SummarySettled)
    carried = started.input_tokens_max + text_tokens(so_far.text)
    assert carried + text_tokens(so_far.text) <= window * 3 // 4
    assert text_tokens(so_far.text) <= summary


def test_a_process_without_the_model_fails_the_compaction() -> None:
    """F144."""
    detail = "this process has no model 'm' to write the summary"
    outcome = Outcome(status="failed", reason="no_model", detail=detail)
    born().when(BeginSummary(), at()).then(finish=outcome)


def test_with_nothing_to_summarise_it_is_over_at_once() -> None:
    """F128."""
    detail = "the context is too small to leave anything out"
    outcome = Outcome(status="completed", reason="nothing_to_compact", detail=detail)
    nothing = CompactionInput(trigger="manual")
    born(nothing).when(BeginSummary(), PROCESS).then(finish=outcome)


def test_one_that_is_marked_as_it_is_born_asks_for_nothing() -> None:
    born().when(BeginSummary(), marked()).then_nothing()


# Settling.


def test_a_clean_stop_with_text_is_handed_to_the_agent_and_what_it_says_ends_the_compaction() -> None:
    """F135: the text is stored once, with the entry."""
    place = PlaceSummary(compaction=WORK, trigger="background", keep_from=4, tokens=900, text="They talked.")
    story = asking().when(received(), PROCESS).then([settled()], [Send(ROOT, place)])
    story.when(SummaryPlaced(status="placed")).then(finish=Outcome(status="completed"))
    story.when(SummaryPlaced(status="queued")).then(finish=Outcome(status="completed"))
    stale = Outcome(status="completed", reason="stale")
    story.when(SummaryPlaced(status="stale")).then(finish=stale)


def test_a_summary_longer_than_agreed_is_cut() -> None:
    (message,) = asking().when(received("word " * 1_000), PROCESS).decision().messages
    assert isinstance(message.command, PlaceSummary)
    assert message.command.text.endswith("[…cut]")
    assert text_tokens(message.command.text) <= INPUT.summary_tokens_max


def test_a_part_that_is_not_the_last_is_stored_and_the_next_is_asked_for() -> None:
    """V349: a settled part is a durable step."""
    first = settled(last=False, text="So far.")
    (
        asking()
        .when(received("So far.", last=False), PROCESS)
        .then([first])
        .then_owed(Summarise(request=7))
        .when(received("So far.", last=False), PROCESS)
        .then_nothing()
        .when(received(part=1), PROCESS)
        .then(
            [settled(part=1)],
            [
                Send(
                    ROOT,
                    PlaceSummary(
                        compaction=WORK, trigger="background", keep_from=4, tokens=900, text="They talked."
                    ),
                )
            ],
        )
    )


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (received(" \n"), "the summary was empty"),
        (msgspec.structs.replace(received(), stop="length"), "cut off by its length limit"),
        (msgspec.structs.replace(received(), stop="calls"), "called a tool"),
        (msgspec.structs.replace(received(), calls=True), "called a tool"),
    ],
)
def test_only_a_clean_stop_with_text_counts(answer: ReceiveSummary, problem: str) -> None:
    """F133: its usage counts."""
    decision = asking().when(answer, PROCESS).decision()
    (event,) = decision.events
    assert isinstance(event, SummaryFailed)
    assert problem in event.error
    assert (event.due_us, event.usage) == (None, USED)
    assert decision.finish == Outcome(status="failed", reason="model_error", detail=event.error)


# Failing.


def test_a_retryable_error_sends_the_same_request_again_at_a_stored_deadline() -> None:
    """F134, C63: one event makes it due, one sends it, and nothing that is sent has changed."""
    due_us = NOW_US + 750_000
    story = (
        asking()
        .when(FailSummary(kind="retryable", error="overloaded"), PROCESS)
        .then([failed("overloaded", due_us=due_us)])
        .then_owed(RepeatAt(due_us=due_us))
        .when(RepeatSummary())
        .then([SummaryRepeated(attempt=2)])
        .then_owed(Summarise(request=8))
    )
    assert isinstance(story.state, Asking)
    assert msgspec.structs.replace(story.state, request=6, attempt=1, step=0) == asking().state


def test_the_wait_honours_what_the_provider_asked_for() -> None:
    fail = FailSummary(kind="retryable", error="slow down", retry_after_ms=9_000)
    asking().when(fail, PROCESS).then([failed("slow down", due_us=NOW_US + 9_000_000)])


def test_after_the_last_attempt_it_fails_with_the_error() -> None:
    story = asking()
    for attempt in (1, 2):
        story = story.met(story.position + 1, failed("overloaded", attempt=attempt, due_us=NOW_US))
        story = story.met(story.position + 1, SummaryRepeated(attempt=attempt + 1))
    outcome = Outcome(status="failed", reason="model_error", detail="overloaded")
    story.when(FailSummary(kind="retryable", error="overloaded"), PROCESS).then(
        [failed("overloaded", attempt=3)], finish=outcome
    )


def test_a_fatal_error_is_not_tried_again() -> None:
    outcome = Outcome(status="failed", reason="model_error", detail="no such key")
    fail = FailSummary(kind="fatal", error="no such key")
    asking().when(fail, PROCESS).then([failed("no such key")], finish=outcome)


def test_a_stream_that_was_cut_is_asked_for_again() -> None:
    """X50."""
    cut = msgspec.structs.replace(received("They ta"), stop=None)
    (event,) = asking().when(cut, PROCESS).decision().events
    assert isinstance(event, SummaryFailed)
    assert event.error == "the stream ended without its finish marker"
    assert (event.due_us, event.usage) == (NOW_US + 750_000, USED)


def test_a_part_counts_its_attempts_for_itself() -> None:
    story = asking().met(7, failed("overloaded", due_us=NOW_US)).met(8, SummaryRepeated(attempt=2))
    story = story.met(9, settled(last=False, text="So far."))
    fail = FailSummary(kind="retryable", error="overloaded")
    (event,) = story.when(fail, PROCESS).decision().events
    assert isinstance(event, SummaryFailed)
    assert event.attempt == 1


# Requests that are too large.


def test_a_request_refused_as_too_large_begins_anew_with_half_of_what_it_carried() -> None:
    """X72: where the summariser's window is unknown or smaller than was thought."""
    fail = FailSummary(kind="overflow", error="too large", sent_tokens=9_000)
    unknown = SummaryStarted(model="m")
    less = SummaryStarted(model="m", input_tokens_max=4_500)
    asking(unknown).when(fail, PROCESS).then([failed("too large"), less]).then_owed(Summarise(request=8))


def test_a_later_part_refused_as_too_large_begins_anew_with_smaller_parts() -> None:
    """The first part may have fitted without the summary so far."""
    fail = FailSummary(kind="overflow", error="too large", sent_tokens=2_500)
    story = asking().met(7, settled(last=False, text="So far."))
    less = SummaryStarted(model="m", input_tokens_max=1_000)
    after = story.when(fail, PROCESS).then([failed("too large"), less]).then_owed(Summarise(request=9))
    after.when(received("From the start.", last=False), PROCESS).then(
        [settled(last=False, text="From the start.")]
    )


def test_parts_are_not_made_smaller_for_ever() -> None:
    """A model that refuses everything is asked a few times, however long the request itself is."""
    story, asked = asking(SummaryStarted(model="m")), 1
    while (decision := story.when(_refused(story.state), PROCESS).decision()).finish is None:
        asked += 1
        for event in decision.events:
            story = story.met(story.position + 1, event)
    assert decision.finish == Outcome(status="failed", reason="model_error", detail="too large")
    assert asked <= 9


def _refused(state: CompactionState) -> FailSummary:
    """What it asked for was too large, as it fills its parts and says 3,000 tokens besides."""
    assert isinstance(state, Asking)
    parts = state.pinned.input_tokens_max or 90_000
    return FailSummary(kind="overflow", error="too large", sent_tokens=parts + 3_000)


# Stopping and going on.


def test_an_aborted_one_ends_without_an_entry() -> None:
    """F141."""
    asking().when(Abort(), marked()).then(finish=ABORTED)
    waiting = asking().met(7, failed("overloaded", due_us=NOW_US))
    waiting.when(RepeatSummary(), marked()).then_nothing()
    waiting.when(Abort(), marked()).then(finish=ABORTED)
    born().when(Abort(), marked()).then(finish=ABORTED)


def test_what_arrives_while_it_is_being_aborted_is_counted_and_not_placed() -> None:
    """F141: the response was finished, so its usage is known."""
    asking().when(received(), marked()).then([settled()], finish=ABORTED)
    fail = FailSummary(kind="retryable", error="overloaded")
    asking().when(fail, marked()).then([failed("overloaded")], finish=ABORTED)
    too_large = FailSummary(kind="overflow", error="too large", sent_tokens=9_000)
    asking().when(too_large, marked()).then([failed("too large")], finish=ABORTED)


def test_after_a_crash_the_same_request_is_owed_again() -> None:
    """V349."""
    owed = Summarise(request=7)
    story = asking().met(7, settled(last=False, text="So far.")).then_owed(owed)
    story.when(Recover()).then_nothing().then_owed(owed)


def test_reports_that_no_longer_fit_change_nothing() -> None:
    waiting = asking().met(7, failed("overloaded", due_us=NOW_US))
    waiting.when(received(), PROCESS).then_nothing()
    waiting.when(FailSummary(kind="fatal", error="late"), PROCESS).then_nothing()
    asking().when(RepeatSummary()).then_nothing()
    asking().when(BeginSummary(), PROCESS).then_nothing()
    born().when(received(), PROCESS).then_nothing()

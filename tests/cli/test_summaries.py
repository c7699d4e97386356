"""What is told of compactions: who wants one, how it goes, how it ends, and what its summary stands for."""

import msgspec
import pytest

from pi_actors.actors.agent.entries import EntryMeta, ForkInput
from pi_actors.actors.agent.messages import (
    CompactionSkipped,
    EntryAppended,
    EntryDraft,
    ResponseSettled,
    SubmissionQueued,
)
from pi_actors.actors.compaction.messages import (
    KIND,
    CompactionInput,
    SummaryFailed,
    SummaryRepeated,
    SummarySettled,
    SummaryStarted,
    Trigger,
)
from pi_actors.cli.screen import Screen
from pi_actors.cli.summaries import compact_wish
from pi_actors.core.decider import Event
from pi_actors.core.lifecycle import COMPLETED, AgentSpawned, Outcome, WorkEnded, WorkSpawned
from pi_actors.core.messages import ResponseInfo, Text, user_message
from tests.cli.seeing import Page, seen

INTRODUCED = (user_message("The conversation before this point: much."),)


def begun(actor: int, trigger: Trigger = "manual") -> tuple[int, int, Event]:
    """A compaction of three entries becomes an actor."""
    born = CompactionInput(trigger=trigger, entries=(2, 3, 4), keep_from=5, tokens=9_000)
    return actor, actor, WorkSpawned(kind=KIND, agent=1, input=msgspec.msgpack.encode(born))


def placed(head: int) -> EntryAppended:
    """Its summary."""
    data = {"trigger": "manual", "tokens_before": 9_000}
    return EntryAppended(kind="pi.compaction", messages=INTRODUCED, head=head, data=data)


def said(position: int) -> tuple[int, int, Event]:
    """An input that takes its place."""
    return position, 1, EntryAppended(kind="pi.user", messages=(user_message("x"),))


def test_a_compaction_is_told_from_its_begin_to_the_summary_that_takes_its_place() -> None:
    text = seen(
        *map(said, (2, 3, 4)),
        (5, 1, ResponseSettled(by=2, info=ResponseInfo(stop="answer", model="m"), parts=(Text(text="y"),))),
        said(6),
        begun(7, "blocking"),
        (8, 7, SummaryStarted(model="m", input_tokens_max=5_000)),
        (9, 7, SummarySettled(part=0, last=False, model="m", text="Half.")),
        (10, 7, SummaryFailed(attempt=1, error="overloaded", model="m", due_us=1_500_000)),
        (11, 7, SummaryRepeated(attempt=2)),
        (12, 7, SummarySettled(part=1, last=True, model="m")),
        (13, 1, placed(head=5)),
        (14, 7, WorkEnded(outcome=COMPLETED)),
    )
    assert text.splitlines()[5:] == [
        "· the context is summarised, before the next request: m is asked to sum up 3 entries",
        "· part 1 of it is summarised",
        "· the summary failed: overloaded; attempt 2 in 1.5 s",
        "· the summary is asked for again, attempt 2",
        "≡ context summarised: about 9,000 tokens before, the newest 2 entries kept",
    ]


def test_the_entries_that_an_earlier_summary_replaced_are_not_counted() -> None:
    text = seen(*map(said, (2, 3, 4)), (5, 1, placed(head=4)), said(6), (7, 1, placed(head=4)))
    assert text.count("the newest entry kept\n") == 1
    assert text.endswith("the newest 2 entries kept\n")


def test_how_many_entries_stayed_is_not_told_where_nobody_knows() -> None:
    assert seen((9, 1, placed(head=5))) == "≡ context summarised: about 9,000 tokens before\n"


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome(status="completed", reason="nothing_to_compact", detail="too small"), "· nothing was"),
        (Outcome(status="completed", reason="stale"), "· the summary was dropped, as the context has moved"),
        (Outcome(status="aborted"), "· the summary was stopped; the context is as it was"),
        (
            Outcome(status="failed", reason="model_error", detail="no credit"),
            "✗ no summary (model_error: no credit); the context is as it was",
        ),
        (Outcome(status="faulted", detail="bug"), "✗ no summary (faulted: bug); the context is as it was"),
    ],
)
def test_a_compaction_that_places_nothing_says_why_in_a_line(outcome: Outcome, told: str) -> None:
    (line,) = seen(begun(7), (8, 7, WorkEnded(outcome=outcome))).splitlines()
    assert line.startswith(told)


def test_a_summary_that_waits_a_context_that_cannot_shrink_and_smaller_parts_are_told() -> None:
    queued = EntryDraft(kind="pi.compaction", messages=INTRODUCED, head=5, by=7)
    text = seen(
        (5, 1, CompactionSkipped(tokens=9_000, freed_tokens=10)),
        begun(7),
        (8, 7, SummaryStarted(model="m")),
        (9, 7, SummaryStarted(model="m", input_tokens_max=2_000)),
        (10, 1, SubmissionQueued(mode="write", entry=queued)),
    )
    assert text.splitlines() == [
        "· the context is nearly full: about 9,000 tokens, of which a summary would free only 10",
        "· the context is summarised, as asked: m is asked to sum up 3 entries",
        "· that was too much for m at once; again, in smaller parts",
        "· the summary is ready and takes its place after the current step",
    ]


def test_a_compaction_that_began_before_is_told_once_and_its_end_too() -> None:
    page = Page()
    Screen(page).go_on({7: CompactionInput(trigger="background")})
    assert page.text == "· the summary that was being written goes on (in the background)\n"


def test_a_fork_says_where_it_goes_on_from_and_knows_what_it_inherits() -> None:
    context = tuple(EntryMeta(id=id) for id in (2, 3, 4))
    born = msgspec.msgpack.encode(ForkInput(parent=1, at=4, context=context))
    text = seen((9, 9, AgentSpawned(input=born)), (12, 9, placed(head=3)))
    assert text.splitlines() == [
        "· agent 9 goes on from agent 1 at entry 4",
        "≡ context summarised: about 9,000 tokens before, the newest 2 entries kept",
    ]


@pytest.mark.parametrize(
    ("text", "wish"),
    [("/compact", ""), (" /compact  the tests ", "the tests"), ("/compactly", None), ("compact", None)],
)
def test_what_a_person_types_to_have_the_context_summarised(text: str, wish: str | None) -> None:
    assert compact_wish(text) == wish

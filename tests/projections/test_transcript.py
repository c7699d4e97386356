"""The active transcript."""

from datetime import UTC, datetime

import msgspec
import pytest

from pi_actors.actors.agent.entries import EntryMeta, ForkInput
from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.messages import Entry, Text, user_message
from projections.transcript import TRANSCRIPT, TranscriptState
from tests.projections.story import ROOT, Story, response, result


def started() -> Story:
    story = Story()
    story.spawn_root()
    return story


def say(story: Story, text: str, head: int | None = None) -> int:
    return story.commit((ROOT, EntryAppended(kind="note", messages=(user_message(text),), head=head)))


def instruct(story: Story, text: str) -> int:
    return story.commit((ROOT, EntryAppended(kind="pi.system", messages=(user_message(text),))))


def ids(story: Story) -> list[int]:
    return [entry.id for entry in story.state().entries(ROOT)]


def test_without_a_head_every_entry_is_active() -> None:
    """Scenario B35."""
    story = started()
    one = say(story, "one")
    answer = story.commit((ROOT, response(5, Text(text="two"))))
    outcome = story.commit((ROOT, result(answer, 0, "read")))
    assert ids(story) == [one, answer, outcome]
    assert story.state().entries(ROOT)[0] == Entry(
        id=one,
        agent=ROOT,
        kind="note",
        at=datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC),
        messages=(user_message("one"),),
    )


def test_an_entry_with_a_head_stands_before_the_entries_from_its_head_on() -> None:
    """Scenario B36."""
    story = started()
    say(story, "old")
    kept = say(story, "kept")
    summary = say(story, "summary", head=kept)
    new = say(story, "new")
    assert ids(story) == [summary, kept, new]


def test_older_heads_in_the_range_are_left_out() -> None:
    """Scenario B36."""
    story = started()
    first = say(story, "one")
    say(story, "summary", head=first)
    second = say(story, "two")
    newer = say(story, "summary", head=first)
    assert ids(story) == [newer, first, second]


def test_a_head_that_is_the_entry_itself_starts_a_fresh_context() -> None:
    """Scenario I155."""
    story = started()
    say(story, "old")
    reset = say(story, "note", head=story.position + 1)
    new = say(story, "new")
    assert ids(story) == [reset, new]


def test_the_newest_instructions_outlive_every_summary_and_stand_right_after_it() -> None:
    """They are never summarised away; older ones are."""
    story = started()
    instruct(story, "Be brief.")
    kind = instruct(story, "Be kind.")
    say(story, "old")
    kept = say(story, "kept")
    first = say(story, "summary", head=kept)
    assert ids(story) == [first, kind, kept]
    newer = say(story, "newer")
    second = say(story, "summary", head=newer)
    assert ids(story) == [second, kind, newer]


def test_instructions_from_the_head_on_stand_in_their_place_and_older_ones_go() -> None:
    story = started()
    instruct(story, "Be brief.")
    kept = say(story, "kept")
    kind = instruct(story, "Be kind.")
    new = say(story, "new")
    summary = say(story, "summary", head=kept)
    assert ids(story) == [summary, kept, kind, new]


def test_a_fresh_start_keeps_no_instructions() -> None:
    """Scenario I155: a head that is the entry itself starts afresh."""
    story = started()
    instruct(story, "Be brief.")
    reset = say(story, "note", head=story.position + 1)
    kept = say(story, "kept")
    assert ids(story) == [reset, kept]
    summary = say(story, "summary", head=kept)
    assert ids(story) == [summary, kept]


def test_a_fork_begins_with_what_its_parent_had_in_context_and_goes_on_by_itself() -> None:
    """Its entries are told from those that come later; nothing is copied."""
    story = started()
    instruct(story, "Be brief.")
    kept = say(story, "kept")
    summary = say(story, "summary", head=kept)
    context = (
        EntryMeta(id=summary, heads=True),
        EntryMeta(id=2, part="instructions"),
        EntryMeta(id=kept, part="user"),
    )
    born = msgspec.msgpack.encode(ForkInput(parent=ROOT, at=summary, context=context))
    fork = story.commit((0, AgentSpawned(input=born)))
    say(story, "beside")
    own = story.commit((fork, EntryAppended(kind="note", messages=(user_message("own"),))))
    assert story.state().entry_ids(fork) == (summary, 2, kept, own)
    assert [entry.text for entry in story.state().entries(fork)] == ["summary", "Be brief.", "kept", "own"]
    newer = story.commit((fork, EntryAppended(kind="note", head=own)))
    assert story.state().entry_ids(fork) == (newer, 2, own)
    assert ids(story) == [summary, 2, kept, own - 1]


@pytest.mark.parametrize("input", [b"\xc1", b"\x93\x01\x02\xa1\xff", b"\x90"])
def test_an_agent_born_with_what_is_no_fork_begins_with_nothing(input: bytes) -> None:
    story = started()
    say(story, "old")
    born = story.commit((0, AgentSpawned(input=input)))
    assert story.state().entry_ids(born) == ()


def test_a_head_in_the_future_is_ignored() -> None:
    story = started()
    one = say(story, "one")
    say(story, "summary", head=99)
    assert ids(story) == [one]


def test_an_event_that_is_no_entry_leaves_the_transcript_untouched() -> None:
    story = started()
    state = TranscriptState()
    assert TRANSCRIPT.evolve(state, story.commits[0][0]) is state

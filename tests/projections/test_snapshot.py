"""Snapshots of the folded state: what comes back, and what is refused."""

from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_actors.actors.agent.messages import (
    EntryAppended,
    EntryDraft,
    RunEnded,
    SubmissionPlaced,
    SubmissionQueued,
)
from pi_actors.actors.generation.messages import Delta, PartialStreamed, RetryScheduled
from pi_actors.actors.tool.messages import ToolDetailsReported, ToolOutputStreamed, ToolStarted
from pi_actors.actors.topics import ALL
from pi_actors.core.lifecycle import COMPLETED, AgentSpawned, WorkEnded
from pi_actors.core.messages import Text, Usage, user_message
from pi_actors.core.record import Recorded
from pi_actors.storage.codec import Topics
from pi_actors.storage.log import Snapshot
from projections import session, snapshot
from projections.fold import Projection
from projections.live import LIVE
from projections.replay import TOPICS
from projections.session import EMPTY, AgentState, FoldedState, fold_commit
from projections.snapshot import snapshot_of, state_of
from tests.projections.story import ROOT, Story, folded_from, response, result
from tests.projections.test_session import logs
from tests.runtime.test_state_codec import shape_of


def taken(state: FoldedState) -> Snapshot:
    found = snapshot_of(state, TOPICS)
    assert found is not None
    return found


def busy() -> Story:
    """Two agents, one that streams and one with tools; something queued, placed, spent and unknown."""
    story = Story()
    story.spawn_root()
    generation = story.ask()
    story.request(generation)
    usage = Usage(input=3, output=2, cost="0.5", responses=1)
    entry, (tool, _) = story.call_tools(generation, "read", "push")
    story.commit((tool, ToolStarted(replay="safe", arguments="{}")), (tool, ToolOutputStreamed(text="a\nb")))
    story.commit((tool, ToolDetailsReported(details={"seen": [1, None, 2.5]})))
    story.commit((ROOT, result(entry, 1, "push", code="interrupted", usage=usage)))
    draft = EntryDraft(kind="note", data={"b": 1})
    story.commit((ROOT, SubmissionQueued(mode="steer", entry=draft, request_id="once")))
    other = story.commit((0, AgentSpawned(owner=tool)))
    second = story.ask("again", other)
    story.request(second)
    story.commit((second, PartialStreamed(deltas=(Delta(part=0, type="text", text="I th"),))))
    third = story.ask("and", story.commit((0, AgentSpawned())))
    story.request(third)
    story.commit((third, RetryScheduled(attempt=2, due_us=5, error="overloaded")))
    return story


@given(logs())
def test_a_state_that_was_stored_is_equal_to_the_one_it_was_made_of(
    commits: list[tuple[Recorded, ...]],
) -> None:
    state = folded_from(commits)
    stored = snapshot_of(state, TOPICS)
    if stored is not None:  # sums of the largest numbers there are do not fit
        assert state_of(stored, TOPICS, "u") == state


@given(logs(), st.data())
def test_folding_on_from_a_snapshot_gives_what_folding_everything_gives(
    commits: list[tuple[Recorded, ...]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(commits)))
    stored = snapshot_of(folded_from(commits[:at]), TOPICS)
    if stored is None:
        return
    state = state_of(stored, TOPICS, "u")
    assert state is not None
    for commit in commits[at:]:
        state = fold_commit(state, commit)
    assert state == folded_from(commits)


def test_what_is_unfinished_comes_back_from_a_snapshot_at_every_commit() -> None:
    story = busy()
    for known in range(1, len(story.commits) + 1):
        state = folded_from(story.commits[:known])
        again = state_of(taken(state), TOPICS, "uuid-1")
        assert again is not None
        assert again == state
        assert [again.documents(id) for id in again.agents] == [state.documents(id) for id in state.agents]


def test_a_snapshot_holds_no_text_of_a_transcript() -> None:
    story = busy()
    story.commit((ROOT, EntryAppended(kind="note", messages=(user_message("a secret told"),))))
    story.commit((ROOT, response(9, Text(text="a secret told"))))
    assert b"secret" not in taken(folded_from(story.commits)).body


def test_a_snapshot_of_other_versions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = folded_from(busy().commits)
    stored = taken(state)
    fewer = Topics({topic: event for topic, event in ALL.items() if topic != "RunReleased"})
    assert state_of(stored, fewer, "uuid-1") is None
    for module, name, other in (
        (snapshot, "FORMAT", 2),
        (snapshot, "VERSION", session.VERSION + 1),
        (snapshot, "FOLDS", (*snapshot.FOLDS[1:], msgspec.structs.replace(LIVE, version=LIVE.version + 1))),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, other)
            assert state_of(stored, TOPICS, "uuid-1") is None
    assert state_of(stored, TOPICS, "uuid-1") == state


@pytest.mark.parametrize("fold", snapshot.FOLDS, ids=lambda fold: fold.name)
def test_a_fold_whose_state_has_another_shape_has_another_version(fold: Projection[msgspec.Struct]) -> None:
    """Else a snapshot of the former shape would be taken for one of this."""
    assert_known(fold.name, fold.version, shape_of((type(fold.initial),)))


def test_a_session_whose_state_is_put_together_otherwise_has_another_version() -> None:
    assert_known("session", session.VERSION, [*FoldedState.__struct_fields__, *AgentState.__struct_fields__])


def assert_known(name: str, version: int, shape: list[str]) -> None:
    digest = sha256("\n".join(shape).encode()).hexdigest()[:16]
    assert KNOWN.get((name, version)) == digest, (
        f"the state of {name} is no longer that of version {version}: raise its version and add "
        f"({name!r}, version): {digest!r} here"
    )


KNOWN = {
    ("pi.agent", 1): "3a9b44dddcba7dd1",
    ("pi.inbox", 1): "1a0b01fddf8144a0",
    ("pi.live", 3): "9d5211565dc4838d",
    ("pi.provider", 1): "e32aaed93d82074c",
    ("pi.usage", 2): "8e3db3d7302c5fb2",
    ("session", 1): "44bb532dde5f034f",
    ("transcript", 2): "f62af028edf9cf79",
    ("tree", 2): "7848cadb8dabffe3",
}


def test_a_snapshot_of_another_session_or_of_another_position_is_refused() -> None:
    stored = taken(folded_from(busy().commits))
    assert state_of(stored, TOPICS, "uuid-2") is None
    assert state_of(stored._replace(position=stored.position + 1), TOPICS, "uuid-1") is None


@given(st.data())
def test_a_snapshot_that_is_damaged_is_refused_or_changed_in_text_and_numbers_only(
    data: st.DataObject,
) -> None:
    """The store tells damage by a checksum; whatever gets past that raises nothing."""
    body = DAMAGED.body
    at = data.draw(st.integers(0, len(body) - 1))
    damaged = body[:at] + bytes((data.draw(st.integers(0, 255)),)) + body[at + 1 :]
    for each in (damaged, body[:at]):
        state = state_of(DAMAGED._replace(body=each), TOPICS, "uuid-1")
        assert state is None or state.position == DAMAGED.position


DAMAGED = taken(folded_from(busy().commits))


def test_a_snapshot_does_not_grow_with_what_is_over() -> None:
    """Settled submissions, ended work, finished runs and what was summarised leave nothing behind."""
    story, sizes = Story(), list[int]()
    story.spawn_root()
    for _ in range(60):
        pass_a_day(story)
        sizes.append(len(taken(folded_from(story.commits)).body))
    assert sizes[-1] <= sizes[9] + 60, "numbers grow, and nothing else"
    assert taken(folded_from(story.commits)).position > 500


def pass_a_day(story: Story) -> None:
    """A question, a tool, a write, an answer, a summary of it all."""
    generation = story.ask()
    submission = generation - 3
    story.request(generation)
    entry, (tool,) = story.call_tools(generation, "read")
    queued = SubmissionQueued(mode="write", entry=EntryDraft(kind="note"))
    write = story.commit((ROOT, queued))
    story.commit((tool, ToolStarted(replay="safe")), (tool, ToolOutputStreamed(text="x" * 500)))
    story.commit((ROOT, result(entry, 0, "read")), (tool, WorkEnded(outcome=COMPLETED)))
    story.commit((ROOT, SubmissionPlaced(mode="write", entry=story.position + 2, submission=write)))
    story.commit((ROOT, EntryAppended(kind="note")))
    answer = story.commit((ROOT, response(generation, Text(text="y" * 500))))
    story.commit(
        (generation, WorkEnded(outcome=COMPLETED)),
        (ROOT, RunEnded(run=generation - 1, inputs=(submission,), answer=answer)),
    )
    story.commit((ROOT, EntryAppended(kind="pi.compaction", head=answer)))


def test_numbers_too_large_to_be_stored_make_no_snapshot() -> None:
    story = Story()
    story.spawn_root()
    for _ in range(3):
        story.commit((ROOT, response(9, usage=Usage(input=2**63 - 1))))
    assert snapshot_of(folded_from(story.commits), TOPICS) is None
    assert snapshot_of(EMPTY, TOPICS) is not None

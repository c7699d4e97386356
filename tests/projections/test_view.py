"""The value of a view, and how it goes on from commit to commit."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_actors.actors.agent.messages import EntryAppended, InboxReleased
from pi_actors.actors.generation.messages import Delta, PartialStreamed
from pi_actors.actors.tool.messages import ToolOutputStreamed, ToolStarted
from pi_actors.core.errors import NotFound
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.messages import Blob, Message, Text, user_message
from pi_actors.core.record import Commit, Recorded
from projections.frames import Frame, Op, apply_frame
from projections.view import Viewed, value_of
from tests.projections.exact import exact
from tests.projections.story import ROOT, START_US, Story, entries_of, folded_from, response
from tests.projections.test_session import logs


def viewed_from(commits: Sequence[Commit], known: int = 1) -> Viewed:
    """The root's view after the first *known* commits."""
    state = folded_from(commits[:known])
    return Viewed(state, ROOT, tuple(entries_of(commits[:known], state, ROOT).values()))


def shown(story: Story) -> Viewed:
    return viewed_from(story.commits, len(story.commits))


def next_frame(viewed: Viewed, story: Story) -> Frame:
    frame = viewed.advance(story.commits[-1])
    assert frame is not None
    assert exact(viewed.value) == exact(value_of(story.state(), ROOT))
    return frame


@given(logs())
def test_frames_lead_to_what_a_fresh_look_shows_at_every_commit(commits: list[tuple[Recorded, ...]]) -> None:
    """O246, O249: one frame for each commit that changes something, none for the others."""
    viewed = viewed_from(commits)
    for number, commit in enumerate(commits[1:], start=2):
        before = viewed.value
        frame = viewed.advance(commit)
        assert exact(viewed.value) == exact(viewed_from(commits, number).value)
        assert viewed.position == commit[-1].end
        assert (frame is None) == (exact(before) == exact(viewed.value))
        if frame is not None:
            assert (frame.position, frame.snapshot) == (commit[-1].end, None)
            assert exact(apply_frame(before, frame)) == exact(viewed.value)


@given(logs(), st.data())
def test_whoever_joins_late_comes_to_the_same_values(
    commits: list[tuple[Recorded, ...]], data: st.DataObject
) -> None:
    """O248: a snapshot at any commit, then every frame after it, gives the newest value."""
    viewed = viewed_from(commits)
    joins = data.draw(st.sets(st.integers(1, len(commits))))
    values = {1: viewed.value} if 1 in joins else {}
    for number, commit in enumerate(commits[1:], start=2):
        frame = viewed.advance(commit)
        if frame is not None:
            values = {joined: apply_frame(value, frame) for joined, value in values.items()}
        if number in joins:
            values[number] = apply_frame({}, viewed.snapshot())
    assert {exact(value) for value in values.values()} <= {exact(viewed.value)}


def test_a_view_has_the_agent_its_entries_and_its_documents() -> None:
    story = Story()
    story.spawn_root()
    story.commit((ROOT, EntryAppended(kind="note", messages=(user_message("hello"),), data={"n": 1})))
    value = shown(story).value
    assert value == {
        "agent": {"id": 1, "owner": 0, "session_uuid": "uuid-1"},
        "entries": [
            {
                "id": 2,
                "agent": 1,
                "kind": "note",
                "at": "2023-11-14T22:13:21Z",
                "messages": [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}],
                "data": {"n": 1},
            }
        ],
        "docs": story.state().documents(ROOT),
    }
    assert list(value["docs"]) == ["pi.live", "pi.inbox", "pi.usage", "pi.agent", "pi.provider"]
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


def test_blobs_are_base64_text() -> None:
    story = Story()
    story.spawn_root()
    image = Message(role="user", parts=(Text(text="see"), Blob(media_type="image/png", data=b"\x00\xff")))
    story.commit((ROOT, EntryAppended(kind="pi.user", messages=(image,))))
    (entry,) = shown(story).value["entries"]
    assert entry["messages"][0]["parts"][1] == {"type": "blob", "media_type": "image/png", "data": "AP8="}


def test_an_agent_that_is_not_there_has_no_view() -> None:
    story = Story()
    story.spawn_root()
    with pytest.raises(NotFound, match="no agent 9 at position 1; its agents are: 1"):
        Viewed(story.state(), 9, ())


def test_a_frame_tells_the_position_and_the_time_of_its_commit() -> None:
    story = Story()
    story.spawn_root()
    viewed = shown(story)
    story.commit((ROOT, EntryAppended(kind="note")), (ROOT, EntryAppended(kind="note")))
    frame = next_frame(viewed, story)
    assert frame.position == 3
    assert frame.at.timestamp() == START_US / 1_000_000 + 1
    assert viewed.snapshot() == Frame(position=3, at=frame.at, snapshot=viewed.value)


def test_a_commit_of_another_agent_makes_no_frame() -> None:
    # O249
    story = Story()
    story.spawn_root()
    viewed = shown(story)
    other = story.commit((0, AgentSpawned()))
    assert viewed.advance(story.commits[-1]) is None
    generation = story.ask(agent=other)
    assert viewed.advance(story.commits[-1]) is None
    story.commit((other, response(generation)))
    assert viewed.advance(story.commits[-1]) is None
    assert viewed.position == story.position


def test_a_commit_of_the_agent_that_shows_nowhere_makes_no_frame() -> None:
    # O249
    story = Story()
    story.spawn_root()
    viewed = shown(story)
    story.commit((ROOT, InboxReleased()))
    assert viewed.advance(story.commits[-1]) is None
    assert viewed.position == 2


def test_streamed_text_is_sent_once() -> None:
    story = Story()
    story.spawn_root()
    generation = story.ask()
    story.request(generation)
    story.commit((generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="once upon"),))))
    viewed = shown(story)
    story.commit((generation, PartialStreamed(deltas=(Delta(part=0, type="text", text=" a time"),))))
    path = ("docs", "pi.live", "generation", "partial", 0, "text")
    assert next_frame(viewed, story).ops == (Op(op="append", path=path, value=" a time"),)


def test_the_output_of_a_tool_is_sent_once_and_costs_the_other_tools_nothing() -> None:
    story = Story()
    story.spawn_root()
    _, tools = story.call_tools(story.ask(), "look", "push")
    for actor in tools:
        story.commit((actor, ToolStarted(replay="safe")), (actor, ToolOutputStreamed(text="a\n")))
    viewed = shown(story)
    before = viewed.value["docs"]["pi.live"]["tools"]
    story.commit((tools[1], ToolOutputStreamed(text="b\n")))
    path = ("docs", "pi.live", "tools", 1, "output")
    assert next_frame(viewed, story).ops == (Op(op="append", path=path, value="b\n"),)
    assert viewed.value["docs"]["pi.live"]["tools"][0] is before[0]


def test_what_a_commit_leaves_alone_stays_the_same_object() -> None:
    story = Story()
    story.spawn_root()
    story.commit((ROOT, EntryAppended(kind="note", data={"long": ["list"]})))
    viewed = shown(story)
    before = viewed.value
    story.commit((ROOT, EntryAppended(kind="note")))
    assert [op.op for op in next_frame(viewed, story).ops] == ["append"]
    assert viewed.value["entries"][0] is before["entries"][0]
    assert all(viewed.value["docs"][name] is document for name, document in before["docs"].items())


def test_a_reset_takes_the_entries_away_and_a_summary_keeps_those_from_its_head_on() -> None:
    story = Story()
    story.spawn_root()
    first = story.commit(*[(ROOT, EntryAppended(kind="note", data={"n": n})) for n in range(4)])
    viewed = shown(story)
    story.commit((ROOT, EntryAppended(kind="pi.compaction", head=first + 2)))
    assert [op.op for op in next_frame(viewed, story).ops] == ["delete", "delete", "insert"]
    story.commit((ROOT, EntryAppended(kind="pi.reset", head=story.position + 1)))
    next_frame(viewed, story)
    assert [entry["kind"] for entry in viewed.value["entries"]] == ["pi.reset"]

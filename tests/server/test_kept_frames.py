"""The newest frames of a view, within bounds of number and size."""

import msgspec

from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.core.record import Commit
from pi_actors.core.text import Json
from pi_actors.server.event_stream import pieces
from pi_actors.server.kept_frames import BATCH_BYTES, BYTES_MAX, FRAMES_MAX, Batch, KeptFrames
from projections.session import EMPTY, fold_commit
from tests.projections.story import ROOT, Story


def commits(changes: int, text: str = "") -> list[Commit]:
    """A session's first commit and one for each change after that."""
    story = Story()
    story.spawn_root()
    for _ in range(changes):
        story.commit((ROOT, EntryAppended(kind="note", data=text)))
    return story.commits


def kept(all_commits: list[Commit]) -> KeptFrames:
    """The view after all of them."""
    first, *rest = all_commits
    frames = KeptFrames(fold_commit(EMPTY, first), ROOT, ())
    for commit in rest:
        frames.show(fold_commit(frames.state, commit), commit)
    return frames


def told(batch: Batch) -> list[Json]:
    """The frames of a batch."""
    lines = [event.decode().split("\n") for event in batch.events]
    assert all(len(each) == 4 and each[0].startswith("id: ") for each in lines)
    found = [msgspec.json.decode(each[1].removeprefix("data: ")) for each in lines]
    assert [f"id: {frame['position']}" for frame in found] == [each[0] for each in lines]
    return found


def test_whoever_misses_at_most_100_frames_is_sent_them_and_others_a_snapshot() -> None:
    frames = kept(commits(FRAMES_MAX + 20))
    end = FRAMES_MAX + 21
    assert frames.floor == frames.lost_to == 21
    assert [frame["position"] for frame in told(frames.since(21))] == list(range(22, end + 1))
    assert told(frames.since(end)) == []
    for after in (None, 0, 20, end + 1):
        (snapshot,) = told(frames.since(after))
        assert snapshot["position"] == end
        assert len(snapshot["snapshot"]["entries"]) == FRAMES_MAX + 20


def test_frames_take_a_bounded_room_and_are_sent_in_batches() -> None:
    frames = kept(commits(50, "x" * (BYTES_MAX // 20)))
    assert 51 - 20 <= frames.floor < 51
    batch = frames.since(frames.floor)
    assert BATCH_BYTES < sum(map(len, batch.events)) < 2 * BATCH_BYTES
    seen = len(batch.events)
    while (batch := frames.since(batch.position)).events:
        seen += len(batch.events)
    assert seen == 51 - frames.floor
    assert batch.position == 51


def test_a_snapshot_is_encoded_once_for_all_who_need_it() -> None:
    frames = kept(commits(3))
    assert frames.since(None).events[0] is frames.since(None).events[0]


def test_events_are_sent_in_pieces_of_a_bounded_size() -> None:
    events = (b"a" * 3, b"b" * 3, b"c" * 25, b"d")
    assert list(pieces(events, 10)) == [b"aaabbb", b"c" * 10, b"c" * 10, b"c" * 5 + b"d"]
    assert list(pieces((), 10)) == []


def test_after_states_that_cannot_be_shown_only_who_has_seen_more_goes_on_with_frames() -> None:
    first, *rest = commits(6)
    frames = kept([first, *rest[:2]])
    for commit in rest[2:4]:
        frames.show(fold_commit(frames.state, commit), commit, is_exact=False)
    for commit in rest[4:]:
        frames.show(fold_commit(frames.state, commit), commit)
    for after in (None, 1, 3, 5):
        (snapshot,) = told(frames.since(after))
        assert (snapshot["position"], len(snapshot["snapshot"]["entries"])) == (7, 6)
    (frame,) = told(frames.since(6))
    assert (frame["position"], "snapshot" in frame) == (7, False)

"""Replaying a session from its log."""

from pathlib import Path

import pytest
import trio

from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.actors.generation.messages import Delta, PartialStreamed
from pi_actors.core.errors import LogCorrupt, NotFound, NotSupported, StoreUnreadable
from pi_actors.core.messages import user_message
from pi_actors.storage.codec import encode_row
from pi_actors.storage.log import PAGE_ROWS, Row
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log
from projections import SessionState, replay
from projections.replay import TOPICS
from tests.projections.stored import Opened, append, stored
from tests.projections.story import ROOT, Story, told_by


def told() -> Story:
    """Commits that end at 1, 5, 6, 8, 11 and so on."""
    story = Story()
    story.spawn_root()
    generation = story.ask()
    story.request(generation)
    story.commit(
        (generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="a"),))),
        (generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="b"),))),
    )
    story.call_tools(generation, "read")
    return story


def folded(story: Story, commits: int) -> SessionState:
    return told_by(story.commits[:commits])


async def test_a_replay_gives_the_state_at_the_end_of_the_log() -> None:
    story = told()
    assert await replay(Opened(stored(MemoryLog(), story))) == story.state()


async def test_a_replay_to_a_position_within_a_commit_gives_the_state_before_it() -> None:
    story = told()
    store = Opened(stored(MemoryLog(), story))
    ends = [commit[-1].position for commit in story.commits]
    for to in range(story.position + 3):
        commits = sum(end <= to for end in ends)
        state = await replay(store, to=to)
        assert state == folded(story, commits)
        assert state.position == ([0, *ends])[commits]


async def test_a_log_of_several_pages_is_folded_whole() -> None:
    """A commit that crosses the border of a page is no exception."""
    story = Story()
    story.spawn_root()
    entry = EntryAppended(kind="note", messages=(user_message("x"),))
    while story.position < 2 * PAGE_ROWS:
        story.commit((ROOT, entry), (ROOT, entry), (ROOT, entry))
    assert await replay(Opened(stored(MemoryLog(), story))) == story.state()


async def test_a_store_is_replayed_by_its_name_also_while_it_is_being_written(tmp_path: Path) -> None:
    file, story = tmp_path / "work.db", told()
    log = stored(open_log(file), story)
    try:
        for name in (file, str(file), f"sqlite:{file}"):
            assert await replay(name) == story.state()
    finally:
        log.close()
    assert await replay(file, to=7) == folded(story, 3)


async def test_a_store_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable):
        await replay(tmp_path / "work.db")
    assert not await trio.Path(tmp_path / "work.db").exists()


async def test_a_store_in_memory_has_no_name_to_be_replayed_by() -> None:
    with pytest.raises(NotSupported, match="a store in memory can be read only by the process that holds it"):
        await replay("memory:")


async def test_a_session_that_is_not_there_is_refused_with_those_that_are() -> None:
    store = Opened(stored(MemoryLog(), told(), "work"))
    with pytest.raises(NotFound, match="the store has no session 'main'; its sessions are: 'work'"):
        await replay(store)


async def test_a_damaged_row_is_refused_with_its_position() -> None:
    log, story = MemoryLog(), told()
    head = log.claim("main", now_us=0)
    (spawned,) = story.commits[0]
    good = encode_row("main", spawned, TOPICS)
    damaged = Row(good.position, good.topic, good.state[:-1] + bytes((good.state[-1] ^ 1,)))
    append(log, "main", head.epoch, story.commits[0], [damaged])
    with pytest.raises(LogCorrupt, match="damaged at position 1"):
        await replay(Opened(log))

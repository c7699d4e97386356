"""Where folding a stored session begins: a snapshot changes how long it takes, and nothing else."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pi_actors.core.errors import LogCorrupt, NotFound
from pi_actors.storage.log import Log, Snapshot
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log, open_reader
from projections import follow, replay
from projections.folding import begin, fold_page
from projections.replay import TOPICS, with_all
from projections.session import EMPTY, FoldedState
from projections.snapshot import NAME, snapshot_of
from projections.view import value_of
from tests.projections.exact import exact
from tests.projections.stored import Opened, stored
from tests.projections.story import ROOT, Story, folded_from, told_by
from tests.projections.test_snapshot import busy, pass_a_day, taken


def with_snapshot(log: Log, *snapshots: Snapshot, session: str = "main") -> Log:
    """*log* with these."""
    head = log.head(session)
    assert head is not None
    for snapshot in snapshots:
        assert log.save_snapshot(session, head.epoch, snapshot)
    return log


def folded(log: Log, to: int | None = None, session: str = "main") -> FoldedState:
    state, tail = begin(log, TOPICS, session, to=to)
    while (further := fold_page(tail, state, to)) is not None:
        state = further
    return state


def begun(log: Log, to: int | None = None, session: str = "main") -> int:
    return begin(log, TOPICS, session, to=to).state.position


def places(story: Story) -> Iterator[tuple[int, Snapshot]]:
    """A snapshot of each commit, and how many commits it covers."""
    for known in range(1, len(story.commits) + 1):
        yield known, taken(folded_from(story.commits[:known]))


def test_folding_on_from_a_snapshot_at_any_commit_gives_the_state_of_the_whole_log() -> None:
    story = busy()
    for _, snapshot in places(story):
        log = with_snapshot(stored(MemoryLog(), story), snapshot)
        assert begun(log) == snapshot.position
        assert folded(log) == folded_from(story.commits)


async def test_a_replay_reads_the_log_alone_and_comes_to_the_same(tmp_path: Path) -> None:
    story = busy()
    for known, snapshot in places(story):
        log = with_snapshot(stored(MemoryLog(), story), snapshot)
        state = await replay(Opened(log))
        assert state == told_by(story.commits)
        assert with_all(folded(log), state.submissions, state.bodies.values()) == state
        assert await replay(Opened(log), to=snapshot.position) == told_by(story.commits[:known])


def test_a_state_of_the_past_begins_with_nothing_newer() -> None:
    story = busy()
    (_, first), *_, (_, last) = places(story)
    log = with_snapshot(stored(MemoryLog(), story), first, last)
    assert begun(log) == last.position
    assert begun(log, last.position - 1) == first.position
    assert begun(log, first.position - 1) == 0
    assert folded(log, last.position - 1) == folded_from(story.commits[:-1])


def test_a_snapshot_that_is_of_no_use_is_passed_over_for_an_older_one_or_none() -> None:
    story = busy()
    (_, older), *_, (_, newer) = places(story)
    useless = newer._replace(body=b"\x93\x01\x02")
    log = with_snapshot(stored(MemoryLog(), story), older, useless)
    assert begun(log) == older.position
    assert folded(log) == folded_from(story.commits)
    log = with_snapshot(stored(MemoryLog(), story), useless)
    assert begun(log) == 0
    assert folded(log) == folded_from(story.commits)


def test_a_snapshot_of_another_session_is_not_taken_for_this_ones() -> None:
    story = busy()
    other = snapshot_of(_renamed(folded_from(story.commits)), TOPICS)
    assert other is not None
    log = with_snapshot(stored(MemoryLog(), story), other)
    assert begun(log) == 0


def _renamed(state: FoldedState) -> FoldedState:
    return FoldedState(
        position=state.position,
        at_us=state.at_us,
        uuid="another",
        tree_state=state.tree_state,
        folds=state.folds,
    )


def test_a_session_that_is_not_there_is_refused_as_without_snapshots() -> None:
    log = stored(MemoryLog(), busy())
    with pytest.raises(NotFound, match="no session 'other'"):
        folded(log, session="other")
    assert begin(log, TOPICS, "other").state == EMPTY


async def test_a_follower_that_begins_with_a_snapshot_shows_all_of_the_transcript(tmp_path: Path) -> None:
    """What the snapshot covers is not read again, but for the entries in context."""
    file, story = tmp_path / "work.db", busy()
    pass_a_day(story)
    for _ in range(3):
        story.ask("more")
    known = len(story.commits) - 2
    with closing(open_log(file)) as log:
        with_snapshot(stored(log, story), taken(folded_from(story.commits[:known])))
    damage(file, position=4, topic="RunStarted")
    with pytest.raises(LogCorrupt, match="damaged at position 4"):
        await replay(file)
    async with follow(file) as view:
        assert exact(view.value) == exact(value_of(story.state(), ROOT))
        assert len(view.value["entries"]) == 5
        story.ask("and more")
        with closing(open_log(file)) as log:
            stored(log, story)
        await anext(view)
        assert exact(view.value) == exact(value_of(story.state(), ROOT))


async def test_a_follower_in_a_store_that_knows_no_snapshots_begins_with_the_log(tmp_path: Path) -> None:
    file, story = tmp_path / "work.db", busy()
    with closing(open_log(file)) as log:
        stored(log, story)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE IF EXISTS snapshots")
    with closing(open_reader(file)) as reader:
        assert reader.snapshots("main", NAME) == []
    async with follow(file) as view:
        assert exact(view.value) == exact(value_of(story.state(), ROOT))


def damage(file: Path, *, position: int, topic: str) -> None:
    """Flip the last byte of a row, which must be what it is taken for."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        where = "WHERE originator_version=? AND topic=?"
        (state,) = connection.execute(
            f"SELECT state FROM stored_events {where}", (position, topic)
        ).fetchone()
        damaged = state[:-1] + bytes((state[-1] ^ 1,))
        connection.execute(f"UPDATE stored_events SET state=? {where}", (damaged, position, topic))

"""Viewers at their own pace."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from pi_actors.core.errors import SessionFailed
from projections.backlog import FRAMES_MAX
from projections.frames import Frame, Op, apply_frame
from projections.pacing import Feed, View

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Source:
    """Counts upwards; each step is a commit, and only some of them change the value."""

    def __init__(self) -> None:
        self.position = 1
        self.value = {"count": 0}
        self.feed = Feed(self.now())

    def now(self) -> Frame:
        return Frame(position=self.position, at=NOW, snapshot=self.value)

    def count(self, times: int = 1) -> None:
        for _ in range(times):
            self.position += 2
            self.value = {"count": self.value["count"] + 1}
            op = Op(op="set", path=("count",), value=self.value["count"])
            self.feed.publish([Frame(position=self.position, at=NOW, ops=(op,))], self.now())

    def change_nothing(self) -> None:
        self.position += 1
        self.feed.publish([], self.now())


async def taken(view: View, count: int) -> list[Frame]:
    return [await anext(view) for _ in range(count)]


def positions(frames: list[Frame]) -> list[int]:
    return [frame.position for frame in frames]


async def test_each_frame_moves_value_and_position_by_one_commit() -> None:
    source = Source()
    view = View(source.feed)
    assert (view.value, view.position) == ({"count": 0}, 1)
    source.count(3)
    seen = [(frame.position, view.position, view.value["count"]) for frame in await taken(view, 1)]
    async for frame in view:
        seen.append((frame.position, view.position, view.value["count"]))
        if frame.position == 7:
            break
    assert seen == [(3, 3, 1), (5, 5, 2), (7, 7, 3)]


async def test_a_view_that_nobody_iterates_is_as_of_now_at_every_look() -> None:
    source = Source()
    view = View(source.feed)
    source.count(2 * FRAMES_MAX)
    assert (view.position, view.value) == (source.position, source.value)
    source.change_nothing()
    assert (view.position, view.value) == (source.position, source.value)


async def test_frames_follow_the_value_that_was_looked_at_last_or_the_one_at_attaching() -> None:
    source = Source()
    untouched, looked_at = View(source.feed), View(source.feed)
    source.count()
    value = looked_at.value
    source.count()
    frames = await taken(looked_at, 1)
    assert apply_frame(value, frames[0]) == looked_at.value == source.value
    assert positions(await taken(untouched, 2)) == [3, 5]


async def test_while_it_waits_the_position_moves_with_commits_that_change_nothing() -> None:
    source = Source()
    view = View(source.feed)
    source.count()
    source.change_nothing()
    await anext(view)
    assert view.position == 3
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.__anext__)
        await wait_all_tasks_blocked()
        assert view.position == 4
        source.change_nothing()
        await wait_all_tasks_blocked()
        assert view.position == 5
        nursery.cancel_scope.cancel()


async def test_a_wait_that_is_cancelled_loses_nothing() -> None:
    source = Source()
    view = View(source.feed)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.__anext__)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    source.count()
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(view)
    assert view.value == {"count": 0}
    assert positions(await taken(view, 1)) == [3]


async def test_a_viewer_that_lags_by_more_than_a_hundred_frames_goes_on_from_one_snapshot() -> None:
    # X96
    source = Source()
    slow, stuck = View(source.feed), View(source.feed)
    await_none = [view.value for view in (slow, stuck)]
    assert await_none == [{"count": 0}] * 2
    source.count(FRAMES_MAX)
    frames = await taken(slow, FRAMES_MAX)
    assert [frame.snapshot for frame in frames] == [None] * FRAMES_MAX
    source.count()
    (whole,) = await taken(stuck, 1)
    assert whole == source.now()
    assert (stuck.value, stuck.position) == (source.value, source.position)
    source.count()
    assert positions(await taken(stuck, 1)) == [source.position]
    assert positions(await taken(slow, 2)) == [source.position - 2, source.position]
    assert slow.value == stuck.value == source.value


async def test_the_iteration_ends_with_its_source_after_what_was_not_seen_yet() -> None:
    # L210
    source = Source()
    iterated, only_looked_at = View(source.feed), View(source.feed)
    source.count(2)
    await anext(iterated)
    source.feed.finish()
    assert positions([frame async for frame in iterated]) == [5]
    assert [frame async for frame in iterated] == []
    assert iterated.value == only_looked_at.value == {"count": 2}


async def test_whoever_waits_when_the_source_fails_is_told_and_keeps_the_last_value() -> None:
    source = Source()
    view = View(source.feed)
    async with iterating(view) as seen:
        source.count()
        await wait_all_tasks_blocked()
        source.feed.finish(SessionFailed("the disk is gone"))
        source.feed.finish()
    assert seen[:-1] == [3]
    assert "the disk is gone" in str(seen[-1])
    assert view.value == {"count": 1}
    with pytest.raises(SessionFailed):
        await anext(view)


async def test_whoever_waits_when_the_view_ends_is_let_go() -> None:
    source = Source()
    view, other = View(source.feed), View(source.feed)
    async with iterating(view) as seen:
        source.count()
        await wait_all_tasks_blocked()
        view.end()
    source.count()
    view.end()
    assert seen == [3, "ended"]
    assert (view.position, view.value) == (3, {"count": 1})
    assert (other.position, other.value) == (5, {"count": 2})


@asynccontextmanager
async def iterating(view: View) -> AsyncGenerator[list[object]]:
    """The positions of the frames that a task gets, and how that ended; after the body it has."""
    seen: list[object] = []

    async def iterate() -> None:
        try:
            async for frame in view:
                seen.append(frame.position)
            seen.append("ended")
        except SessionFailed as failed:
            seen.append(failed)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(iterate)
        yield seen

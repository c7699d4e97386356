"""Views of an open session's agents."""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from pi_actors import (
    Agent,
    NotFound,
    Session,
    SessionClosed,
    SessionFailed,
    Store,
    StoreError,
    open_session,
    open_store,
)
from pi_actors.models import call, reply
from pi_actors.runtime import scavenging
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import CrashingLog, CrashPoint, TrioClock, run_until_crash
from pi_actors.testing.crashing import SIDES
from projections import Frame, View, apply_frame, follow, replay
from projections.backlog import FRAMES_MAX
from projections.view import value_of
from tests.projections.busy import SETTINGS, busy_model, busy_tools, keep_busy
from tests.projections.exact import exact
from tests.projections.stored import Doubled, Opened
from tests.projections.stored import values_of as stored_values
from tests.session.gate import Gate
from tests.session.opened import opened
from tests.session.watching import events_of

SEEDS = 200


async def frames_to(view: View, position: int) -> list[Frame]:
    """The frames up to the one of *position*."""
    frames: list[Frame] = []
    while not frames or frames[-1].position < position:
        frames.append(await anext(view))
    return frames


async def test_a_view_starts_as_of_attaching_and_has_a_frame_for_each_commit_that_follows() -> None:
    # O246
    async with opened([reply("hello")]) as session, session.root.view() as view:
        assert view.position == session.position
        assert view.value["docs"] == await session.root.documents()
        start, value = view.position, view.value
        await session.root.ask("hi")
        frames = await frames_to(view, session.position)
        assert [frame.position for frame in frames] == [
            commit[-1].position for commit in await events_of(session, after=start)
        ]
        for frame in frames:
            value = apply_frame(value, frame)
        assert exact(value) == exact(view.value)
        assert value["docs"] == await session.root.documents()
        assert [entry["kind"] for entry in value["entries"]] == ["pi.user", "pi.assistant"]


async def test_who_joins_later_sees_the_same_from_there_on() -> None:
    # O248
    async with opened([reply("one"), reply("two")]) as session, session.root.view() as early:
        await session.root.ask("first")
        async with session.root.view() as late:
            joined = late.position
            await session.root.ask("second")
            seen = [frame for frame in await frames_to(early, session.position) if frame.position > joined]
            assert await frames_to(late, session.position) == seen
            assert exact(late.value) == exact(early.value)


async def test_a_commit_of_another_agent_is_no_frame_but_moves_the_position() -> None:
    # O249
    async with opened([]) as session, session.root.view() as view:
        other = await session.spawn()
        async with other.view() as its_view:
            await other.submit_write("note")
            await session.root.submit_write("note")
            assert [frame.position for frame in await frames_to(view, session.position)] == [session.position]
            await anext(its_view)
            assert its_view.value["agent"]["id"] == other.id
            assert [entry["agent"] for entry in its_view.value["entries"]] == [other.id]
        await session.spawn()
        async with waiting_for_a_frame(view):
            assert view.position == session.position


async def test_what_a_view_knew_is_given_up_with_its_last_viewer_and_read_again_by_the_next() -> None:
    # O255
    async with opened([], resume=False) as session:
        listeners = list(session.live.line._listeners)
        async with AsyncExitStack() as viewers:
            await viewers.enter_async_context(session.root.view())
            async with session.root.view(), (await session.spawn()).view():
                assert is_folded(session)
            assert is_folded(session)
        assert not is_folded(session)
        assert session.live.line._listeners == listeners
        await session.root.submit_write("note")
        async with session.root.view() as view:
            assert view.value["docs"] == (await replay(session.live.store)).documents(1)
            assert [entry["kind"] for entry in view.value["entries"]] == ["note"]


def is_folded(session: Session) -> bool:
    assert session._folded is not None
    return session._folded._state is not None


async def test_documents_that_were_asked_for_stay_when_the_last_viewer_leaves() -> None:
    async with opened([]) as session:
        async with session.root.view() as view:
            assert view.value["docs"] == await session.root.documents()
        await session.root.submit_write("note")
        assert await session.root.documents() == (await replay(session.live.store)).documents(1)


async def test_a_commit_that_fails_is_seen_by_no_view_and_ends_the_iteration() -> None:
    # O256
    log = CrashingLog(MemoryLog(), CrashPoint(3, "before"))
    seen: list[object] = []
    async with trio.open_nursery() as outside:
        with pytest.raises(SessionFailed):
            await lose_the_second_of_two_writes(log, outside, seen)
    stored = log.log.head("main")
    assert stored is not None
    failed = "session 'main' has failed: crashed before commit 3; open the log below again"
    assert seen == [1, f"{failed} {stored.position}"]


async def lose_the_second_of_two_writes(log: CrashingLog, outside: trio.Nursery, seen: list[object]) -> None:
    async with open_store(log) as store, open_session(store, resume=False) as session:
        await outside.start(partial(count_entries, session.root, seen))
        await session.root.submit_write("stored")
        await session.root.submit_write("lost")


async def count_entries(agent: Agent, seen: list[object], *, task_status: trio.TaskStatus[None]) -> None:
    """Tell the number of entries at each frame, and at last what went wrong and the position."""
    async with agent.view() as view:
        task_status.started()
        try:
            async for _ in view:
                seen.append(len(view.value["entries"]))
        except SessionFailed as failed:
            seen.append(f"{failed} {view.position}")


async def test_closing_ends_the_iteration_and_views_keep_their_last_value() -> None:
    # L210
    gate, log = Gate(), MemoryLog()
    async with open_store(log) as store, AsyncExitStack() as viewers:
        async with opened([reply("", call("gate"))], gate.tool, store=store) as session:
            watched, looked_at = (
                await viewers.enter_async_context(session.root.view()),
                await viewers.enter_async_context(session.root.view()),
            )
            await session.root.submit("go")
            await gate.entered.wait()
        frames = [frame async for frame in watched]
        assert frames[-1].position <= watched.position
        state = await replay(Opened(log))
        for view in (watched, looked_at):
            assert view.position == state.position
            assert exact(view.value) == exact(value_of(state, 1))
        assert watched.value["docs"]["pi.agent"]["busy"]


async def test_a_viewer_that_is_stuck_holds_a_hundred_frames_and_goes_on_from_a_snapshot() -> None:
    # X96
    async with opened([]) as session, session.root.view() as stuck, session.root.view() as other:
        value = stuck.value
        for number in range(FRAMES_MAX):
            await session.root.submit_write("note", data=number)
        frames = await frames_to(stuck, session.position)
        assert [frame.snapshot for frame in frames] == [None] * FRAMES_MAX
        await session.root.submit_write("note")
        assert session._views is not None
        assert len(session._views._watched[1].feed.backlog._frames) == FRAMES_MAX
        (frame,) = await frames_to(other, session.position)
        assert exact(frame.snapshot) == exact(value_of(await replay(session.live.store), 1))
        assert exact(apply_frame(value, frame)) == exact(other.value)


async def test_an_agent_that_is_not_there_cannot_be_viewed() -> None:
    async with opened([]) as session:
        with pytest.raises(NotFound, match="no agent 9 at position 1; its agents are: 1"):
            async with session.agent(9).view():
                raise AssertionError
        async with session.root.view() as view:
            assert view.position == 1


async def test_a_closed_session_cannot_be_viewed() -> None:
    async with opened([]) as session:
        root = session.root
    with pytest.raises(SessionClosed):
        async with root.view():
            raise AssertionError


async def test_what_happens_while_the_log_is_read_for_a_view_is_not_missed() -> None:
    async with opened([]) as session, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(partial(session.root.submit_write, "note", data=number))
            async with session.root.view() as view:
                assert exact(view.value) == exact(
                    value_of(await replay(session.live.store, to=view.position), 1)
                )


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
async def test_viewers_of_a_busy_session_agree_with_its_log_at_every_position(
    seed: int, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O246, O248, X97: whenever they come, pause and go, also across crashes of the session.

    Viewers in the session and followers of its log see each value once, in order, while progress is
    scavenged; every other time at once, so that it goes before the followers have read it.
    """
    chance = random.Random(seed)
    whole, seen = MemoryLog(), Seen()
    log = Doubled(MemoryLog(), whole)
    if seed % 2:
        monkeypatch.setattr(scavenging, "LINGER_S", 0)
    clock = TrioClock()

    async def scenario(store: Store) -> None:
        async with open_session(
            store, model=busy_model(seed), tools=busy_tools(chance), clock=clock, settings=SETTINGS
        ) as session:
            viewers = [partial(seen.watch, session.root.view, chance) for _ in range(3)]
            follower = partial(seen.watch, partial(follow, store), chance)
            async with beside(*viewers, follower), session.root.view() as view:
                stop = session.live.line.listen(lambda _, state: seen.add(view, state.position))
                await keep_busy(session, chance, steps=10)
                await session.wait_idle()
                stop()

    for _ in range(chance.randint(0, 2)):
        await run_until_crash(scenario, log, CrashPoint(chance.randint(1, 40), chance.choice(SIDES)))
    await run_until_crash(scenario, log, None)
    stored = values_of(whole)
    assert {position for position, value in seen.values.items() if value != stored[position]} == set()
    assert len(seen.values) > 2


AsyncView = AbstractAsyncContextManager[View]


class Seen:
    """The value of the root's view by position; all who saw one must have seen the same."""

    def __init__(self) -> None:
        self.values: dict[int, str] = {}

    def add(self, view: View, position: int) -> None:
        assert view.position == position
        value = exact(view.value)
        assert self.values.setdefault(position, value) == value

    async def watch(self, attach: Callable[[], "AsyncView"], chance: random.Random) -> None:
        """Attach, pause and leave again and again."""
        while True:
            await trio.sleep(chance.uniform(0, 5))
            try:
                with trio.move_on_after(chance.uniform(0, 20)):
                    async with attach() as view:
                        await self._watch(view, chance)
            except (SessionFailed, StoreError):
                return

    async def _watch(self, view: View, chance: random.Random) -> None:
        self.add(view, view.position)
        value, position = view.value, view.position
        async for frame in view:
            value = apply_frame(value, frame)
            assert frame.position > position
            position = frame.position
            assert exact(value) == exact(view.value)
            self.add(view, position)
            await trio.sleep(chance.choice((0, 0, 0, chance.uniform(0, 10))))


def values_of(log: MemoryLog) -> dict[int, str]:
    """What the root's view has to show at each commit's end, folded anew from the log."""
    return {position: exact(value) for position, value in stored_values(log)}


@asynccontextmanager
async def waiting_for_a_frame(view: View) -> AsyncGenerator[None]:
    """For the time of the body a task waits for a frame, and gets none."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.__anext__)
        await wait_all_tasks_blocked()
        yield
        assert nursery.child_tasks
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def beside(*tasks: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Run *tasks* beside the body."""
    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(task)
        yield
        nursery.cancel_scope.cancel()

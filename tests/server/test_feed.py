"""What is folded once for all viewers, while progress is scavenged under it."""

import random
from collections.abc import Sequence

import msgspec
import pytest
import trio
from trio.testing import MockClock

from pi_actors import open_session, open_store
from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.core.text import Json
from pi_actors.runtime import scavenging
from pi_actors.server.feed import Feeds
from pi_actors.server.history import History
from pi_actors.server.served import Served, Sessions
from pi_actors.server.watchers import FrameWatcher
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import TrioClock
from projections import Frame, apply_frame
from tests.projections.busy import SETTINGS, busy_model, busy_tools, keep_busy
from tests.projections.exact import exact
from tests.projections.stored import Doubled, Opened, stored, values_of
from tests.projections.story import ROOT, Story
from tests.projections.test_tail import Raced, streamed


@pytest.mark.parametrize("seed", range(30), ids=lambda seed: f"seed-{seed}")
async def test_viewers_of_a_server_see_what_the_whole_log_says_while_progress_goes(
    seed: int, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They watch a session of this process or of another, come late, pause, and come back.

    Progress goes as soon as it may, so that much of it is gone before the server reads it.
    """
    monkeypatch.setattr(scavenging, "LINGER_S", 0)
    chance, seen = random.Random(seed), Seen()
    log, whole = MemoryLog(), MemoryLog()
    async with (
        open_store(Doubled(log, whole)) as store,
        open_session(
            store, model=busy_model(seed), tools=busy_tools(chance), clock=TrioClock(), settings=SETTINGS
        ) as session,
        trio.open_nursery() as nursery,
    ):
        for sessions in (Sessions([session], []), Sessions([], [store])):
            served, feeds = await sessions.find("main"), Feeds(History())
            for _ in range(3):
                nursery.start_soon(seen.come_and_go, served, feeds, random.Random(chance.random()))
        await keep_busy(session, chance, steps=10)
        await session.wait_idle()
        nursery.cancel_scope.cancel()
    values = {position: exact(value) for position, value in values_of(whole)}
    assert {position for position, value in seen.values.items() if value != values[position]} == set()
    assert len(seen.values) > 5


async def test_what_became_inexact_while_it_was_read_is_passed_over_at_the_beginning() -> None:
    log, story = Raced(), streamed(partials=3)
    served = await Sessions([], [Opened(stored(log, story))]).find("main")
    story.commit((ROOT, EntryAppended(kind="note")))

    def race() -> None:
        scavenge(log, story, [4, 3], through=6)

    log.before_reading = race
    async with Feeds(History()).watching(served, ROOT) as feed:
        (snapshot,) = frames_of((await feed.next(ROOT, None)).events)
    assert (snapshot.position, snapshot.snapshot is None) == (6, False)


@pytest.mark.parametrize(
    ("gone", "through"), [([3, 2], 7), ([3, 2], 4), ([5], 7)], ids=["before", "just before", "after"]
)
async def test_a_viewer_who_comes_back_below_a_gap_gets_a_snapshot(gone: list[int], through: int) -> None:
    """Also where the gap came while what it has missed was read: before what it has seen, or after that."""
    log, story = Raced(), streamed(partials=5)
    served = await Sessions([], [Opened(stored(log, story))]).find("main")
    async with Feeds(History()).watching(served, ROOT) as feed:
        await feed.next(ROOT, None)
        before_after = gone[0] <= 3

        def race() -> None:
            scavenge(log, story, gone, through=through)

        def later() -> None:
            log.before_reading = race

        log.before_reading = race if before_after else later
        (snapshot,) = frames_of((await feed.next(ROOT, 3)).events)
    assert (snapshot.position, snapshot.snapshot is None) == (7, False)


async def test_a_viewer_who_comes_back_where_nothing_is_missing_goes_on_with_frames() -> None:
    log, story = Raced(), streamed(partials=2)
    for _ in range(3):
        story.commit((ROOT, EntryAppended(kind="note")))
    served = await Sessions([], [Opened(stored(log, story))]).find("main")
    scavenge(log, story, [3, 2], through=4)
    async with Feeds(History()).watching(served, ROOT) as feed:
        await feed.next(ROOT, None)
        frames = frames_of((await feed.next(ROOT, 5)).events)
        assert [(frame.position, frame.snapshot) for frame in frames] == [(6, None), (7, None)]
        (snapshot,) = frames_of((await feed.next(ROOT, 3)).events)
        assert snapshot.snapshot is not None


def scavenge(log: MemoryLog, story: Story, positions: list[int], *, through: int) -> None:
    """Store what is new of *story*, and let rows go."""
    stored(log, story)
    head = log.head("main")
    assert head is not None
    assert log.scavenge("main", epoch=head.epoch, positions=positions, through=through) is None


class Seen:
    """The values by position; all who saw one must have seen the same."""

    def __init__(self) -> None:
        self.values: dict[int, str] = {}

    async def come_and_go(self, served: Served, feeds: Feeds, chance: random.Random) -> None:
        """Watch for a while, stop looking now and then, leave, and come back to where it was."""
        value: dict[str, Json] = {}
        after: int | None = None
        while True:
            async with feeds.watching(served, ROOT) as feed:
                watcher = FrameWatcher(served, feed, ROOT, after, None)
                for _ in range(chance.randrange(1, 20)):
                    for frame in frames_of(await watcher.new()):
                        value, after = apply_frame(value, frame), frame.position
                        assert self.values.setdefault(after, exact(value)) == exact(value)
                    await watcher.wait()
                    await trio.sleep(chance.choice((0, 0, chance.uniform(0, 3))))
            await trio.sleep(chance.uniform(0, 5))


def frames_of(events: Sequence[bytes]) -> list[Frame]:
    """The frames in server-sent events."""
    data = (event.decode().split("\n")[1].removeprefix("data: ") for event in events)
    return [msgspec.json.decode(each, type=Frame) for each in data]

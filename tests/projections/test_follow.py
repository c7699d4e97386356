"""Following a log from wherever it can be read."""

import signal
import sqlite3
from contextlib import ExitStack, closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.actors.generation.messages import Delta, PartialStreamed
from pi_actors.core.errors import LogCorrupt, NotFound, NotSupported, StoreError, StoreUnreadable
from pi_actors.core.messages import user_message
from pi_actors.storage import sqlite_connections
from pi_actors.storage.log import Log
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log, open_reader
from projections import Frame, View, apply_frame, follow, replay
from projections.view import value_of
from tests.projections.exact import exact
from tests.projections.stored import Opened, stored
from tests.projections.stored import values_of as stored_values
from tests.projections.story import ROOT, Story
from tests.storage.programs import Program, kill, line_of, running, tell

WRITE = """
import sys
import trio
from pi_actors import Settings, ToolContext, open_session, tool
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.runtime import scavenging
from pi_actors.storage.opening import open_log
from tests.projections.stored import Doubled

@tool(replay="safe")
async def look(ctx: ToolContext, what: str) -> str:
    for line in range(5):
        ctx.output(f"{what} {line}")
        await trio.sleep(0.003)
    return what

def script(request):
    if request.turn % 3 == 0:
        return reply("Let me look.", call("look", what="a"), call("look", what="b"))
    return reply("Answer %d. " % request.turn * 30)

async def main():
    model = ScriptedModel(script, chunk_ms=1)
    quick = Settings(progress_ms=2, keep_progress=len(sys.argv) == 2)
    store = sys.argv[1]
    if len(sys.argv) == 3:
        scavenging.LINGER_S = 0
        store = Doubled(open_log(sys.argv[1]), open_log(sys.argv[2], "process"))
    async with open_session(store, model=model, tools=[look], settings=quick) as session:
        print(session.position, flush=True)
        while await trio.to_thread.run_sync(sys.stdin.readline):
            await session.root.ask("go on")
            print(session.position, flush=True)

trio.run(main)
"""
"""Ask once for each line that comes, and print the position after it.

With a second store progress is scavenged as soon as it may be, and the second store keeps it all.
"""

FOLLOW = """
import sys
import trio
from projections import apply_frame, follow
from tests.projections.exact import exact

async def main():
    async with follow(sys.argv[1]) as view:
        value = view.value
        print(view.position, exact(value), flush=True)
        async for frame in view:
            value = apply_frame(value, frame)
            assert exact(value) == exact(view.value)
            print(frame.position, exact(value), flush=True)

trio.run(main)
"""
"""Print every position and the value there."""


def told(commits: int, text: str = "x") -> Story:
    story = Story()
    story.spawn_root()
    add_notes(story, commits - 1, text)
    return story


def add_notes(story: Story, commits: int, text: str = "x") -> None:
    for _ in range(commits):
        story.commit((ROOT, EntryAppended(kind="note", messages=(user_message(text),))))


def written(file: Path, story: Story) -> None:
    """Store what is new of *story*, as somebody who opens the store and closes it again."""
    with closing(open_log(file)) as log:
        stored(log, story)


def values_of(log: Log | Path) -> dict[int, str]:
    """What the root's view has to show at each commit's end."""
    reader = open_reader(log) if isinstance(log, Path) else log
    values = {position: exact(value) for position, value in stored_values(reader)}
    if isinstance(log, Path):
        reader.close()
    return values


async def frames_to(view: View, position: int) -> list[Frame]:
    """The frames up to the one of *position*."""
    frames: list[Frame] = []
    while not frames or frames[-1].position < position:
        frames.append(await anext(view))
    return frames


async def test_a_follower_sees_what_is_stored_and_every_commit_that_follows(tmp_path: Path) -> None:
    # O246, O248
    file, story = tmp_path / "work.db", told(3)
    written(file, story)
    async with follow(file) as early, follow(str(file)) as late:
        assert (early.position, exact(early.value)) == (3, values_of(file)[3])
        for _ in range(3):
            add_notes(story, 2)
            written(file, story)
        values = values_of(file)
        value = early.value
        frames = await frames_to(early, 9)
        assert [(frame.position, frame.snapshot) for frame in frames] == [(at, None) for at in range(4, 10)]
        for frame in frames:
            value = apply_frame(value, frame)
            assert exact(value) == values[frame.position]
        assert frames == await frames_to(late, 9)
        assert exact(late.value) == exact(early.value) == values[9]


async def test_a_commit_is_seen_within_a_tenth_of_a_second(autojump_clock: trio.testing.MockClock) -> None:
    log, story = MemoryLog(), told(1)
    async with follow(Opened(stored(log, story))) as view:
        for position in range(2, 12):
            add_notes(story, 1)
            stored(log, story)
            with trio.fail_after(0.1):
                assert (await anext(view)).position == position


async def test_a_follower_that_is_only_looked_at_keeps_up_by_itself(tmp_path: Path) -> None:
    file, story = tmp_path / "work.db", told(1)
    written(file, story)
    async with follow(file) as view:
        add_notes(story, 300)
        written(file, story)
        while view.position < story.position:  # noqa: ASYNC110 - nobody iterates, so it can only be looked at
            await trio.sleep(0.01)
        assert exact(view.value) == values_of(file)[story.position]


async def test_following_makes_no_file_and_holds_none(tmp_path: Path) -> None:
    """Also where the writer closes, and removes its log, while somebody follows."""
    file, story = tmp_path / "work.db", told(2)
    written(file, story)
    before = files_in(tmp_path)
    async with follow(file) as view:
        assert files_in(tmp_path) == before
        with closing(open_log(file)) as log:
            add_notes(story, 1)
            stored(log, story)
            await frames_to(view, 3)
        assert files_in(tmp_path) == before
    assert files_in(tmp_path) == before


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_a_follower_that_stops_looking_does_not_let_the_log_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # X96
    monkeypatch.setattr(sqlite_connections, "CHECKPOINT_PAGES", 50)
    file, story = tmp_path / "work.db", told(1)
    written(file, story)
    async with follow(file):
        with closing(open_log(file, "process")) as log:
            wal, rounds = sqlite_connections.wal_of(file), 0
            # A checkpoint that meets a short read is made up for by a later one; beside a reader that
            # keeps its place the write-ahead log would hold all that was written, for ever.
            while rounds < 80 or wal.stat().st_size >= file.stat().st_size / 2:
                add_notes(story, 20, "long " * 500)
                stored(log, story)
                await trio.lowlevel.checkpoint()
                rounds += 1


async def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "work.db"
    with pytest.raises(StoreUnreadable, match="there is no store"):
        await looked_at(file)
    with pytest.raises(NotSupported):
        await looked_at("memory:")
    written(file, told(1))
    with pytest.raises(NotFound, match="the store has no session 'other'; its sessions are: 'main'"):
        await looked_at(file, "other")
    with pytest.raises(NotFound, match="no agent 9 at position 1; its agents are: 1"):
        await looked_at(file, agent=9)


async def looked_at(file: Path | str, session: str = "main", *, agent: int = ROOT) -> None:
    async with follow(file, session, agent=agent):
        pass


async def test_what_the_body_raises_leaves_as_it_is(tmp_path: Path) -> None:
    written(tmp_path / "work.db", told(1))
    group = ExceptionGroup("both", [ValueError(), KeyError()])
    for raised in (ZeroDivisionError(), group):
        with pytest.raises(type(raised)) as caught:
            await fail_beside(tmp_path / "work.db", raised)
        assert caught.value is raised
    with trio.CancelScope() as scope:
        async with follow(tmp_path / "work.db") as view:
            scope.cancel()
            await anext(view)
    assert scope.cancelled_caught


async def fail_beside(file: Path, error: Exception) -> None:
    async with follow(file):
        raise error


async def test_a_store_that_was_replaced_is_noticed_and_nothing_of_it_shown(tmp_path: Path) -> None:
    file, other = tmp_path / "work.db", tmp_path / "other.db"
    written(file, told(3))
    written(other, told(7, text="another"))
    async with follow(file) as view:
        value = view.value
        other.replace(file)
        with pytest.raises(
            StoreError, match=r"session 'main' is not the one .* its store was replaced meanwhile"
        ):
            await anext(view)
        assert (view.position, view.value) == (3, value)
    async with follow(file) as view:
        assert view.position == 7


async def test_a_store_that_was_removed_is_told(tmp_path: Path) -> None:
    file = tmp_path / "work.db"
    written(file, told(3))
    async with follow(file) as view:
        file.unlink()
        with pytest.raises(StoreUnreadable, match="cannot be reached"):
            await anext(view)
        assert view.position == 3


async def test_a_damaged_row_is_told_after_what_was_stored_before_it(tmp_path: Path) -> None:
    file, story = tmp_path / "work.db", told(3)
    written(file, story)
    async with follow(file) as view:
        add_notes(story, 1)
        written(file, story)
        await frames_to(view, 4)
        value = view.value
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("INSERT INTO stored_events VALUES ('main', 5, 'EntryAppended', x'00')")
            connection.execute("UPDATE sessions SET position=5")
        with pytest.raises(LogCorrupt, match="damaged at position 5"):
            await anext(view)
        assert (view.position, view.value) == (4, value)


async def test_followers_of_another_process_see_every_commit_once_and_the_same(tmp_path: Path) -> None:
    """X97: also one that is stopped for a while, one that is killed, and one that comes instead of it.

    The writer is killed and another goes on.
    """
    file, seen, here = tmp_path / "work.db", Seen(), trio.CancelScope()
    with ExitStack() as programs:
        writer = programs.enter_context(running(WRITE, file))
        await line(writer)
        async with trio.open_nursery() as nursery:

            def start_follower() -> Program:
                follower = programs.enter_context(running(FOLLOW, file))
                nursery.start_soon(seen.listen, follower)
                return follower

            nursery.start_soon(seen.follow, file, here)
            whole, stopped, killed = (start_follower() for _ in range(3))
            await seen.reached(1, whole, stopped, killed, here)
            await ask(writer)
            stopped.send_signal(signal.SIGSTOP)
            await ask(writer)
            kill(killed)
            kill(writer)
            writer = programs.enter_context(running(WRITE, file))
            await line(writer)
            late = start_follower()
            await seen.reached(1, late)
            position = await ask(writer)
            stopped.send_signal(signal.SIGCONT)
            await seen.reached(position, whole, stopped, late, here)
            here.cancel()
            for follower in (whole, stopped, late):
                kill(follower)
    values = values_of(file)
    for who in (whole, stopped, killed, late, here):
        positions = list(seen.values[who])
        assert positions == sorted(positions)
        assert {at for at, value in seen.values[who].items() if value != values[at]} == set()
    assert list(seen.values[whole]) == changing(values)
    assert list(seen.values[whole])[-len(seen.values[late]) :] == list(seen.values[late])


async def test_a_follower_shows_no_wrong_value_while_progress_is_scavenged_under_it(tmp_path: Path) -> None:
    """Every value that it shows is the one that the whole log has at that position.

    Followers poll in this process and in others while another one writes and deletes. One of them is
    stopped until all progress is gone, and goes on after it with a snapshot. The writer is killed.
    """
    file, whole, seen, here = tmp_path / "work.db", tmp_path / "whole.db", Seen(), trio.CancelScope()
    with ExitStack() as programs:
        writer = programs.enter_context(running(WRITE, file, whole))
        await line(writer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(seen.follow, file, here)
            other, stopped = (programs.enter_context(running(FOLLOW, file)) for _ in range(2))
            for follower in (other, stopped):
                nursery.start_soon(seen.listen, follower)
            await seen.reached(1, other, stopped, here)
            stopped.send_signal(signal.SIGSTOP)
            for _ in range(2):
                position = await ask(writer)
                await seen.reached(position, other, here)
            await all_scavenged(file)
            kill(writer)
            stopped.send_signal(signal.SIGCONT)
            writer = programs.enter_context(running(WRITE, file, whole))
            await line(writer)
            await ask(writer)
            position = await ask(writer)
            await seen.reached(position, other, stopped, here)
            here.cancel()
            for follower in (other, stopped):
                kill(follower)
    values = values_of(whole)
    for who in (other, stopped, here):
        assert list(seen.values[who]) == sorted(seen.values[who])
        assert {at for at, value in seen.values[who].items() if value != values[at]} == set()
    assert len(seen.values[stopped]) < len(changing(values))


async def all_scavenged(file: Path) -> None:
    """Return once no progress is left in a session that is at rest."""
    with closing(open_reader(file)) as reader:
        while reader.read_display("main", before=1_000_000):  # noqa: ASYNC110 - another process deletes
            await trio.sleep(0.01)


async def test_what_cannot_be_shown_any_more_is_left_out_and_a_snapshot_goes_on_after_it() -> None:
    """Positions below ``scavenged_to`` that have lost something are passed over in silence."""
    log, story = MemoryLog(), told(2)
    store = Opened(stored(log, story))
    async with follow(store) as view:
        story.commit((ROOT, EntryAppended(kind="before")))
        for _ in range(3):
            story.commit((ROOT, PARTIAL))
        story.commit((ROOT, EntryAppended(kind="inexact")))
        story.commit((ROOT, EntryAppended(kind="exact")))
        story.commit((ROOT, EntryAppended(kind="after")))
        # Without a pause in between, so that the follower finds it like this.
        epoch = stored(log, story).claim("main", now_us=0).epoch
        assert log.scavenge("main", epoch=epoch, positions=[6, 5], through=8) is None
        frames = await frames_to(view, 9)
        assert [(frame.position, frame.snapshot is None) for frame in frames] == [
            (3, True),
            (8, False),
            (9, True),
        ]
        assert exact(frames[1].snapshot) == exact(value_of(await replay(store, to=8), ROOT))
        assert exact(view.value) == exact(value_of(story.state(), ROOT))


PARTIAL = PartialStreamed(deltas=(Delta(part=0, type="text", text="so far"),))


def changing(values: dict[int, str]) -> list[int]:
    """The positions at which the value is another than before."""
    positions = sorted(values)
    return positions[:1] + [at for before, at in pairwise(positions) if values[before] != values[at]]


class Seen:
    """What each follower has seen, by position."""

    def __init__(self) -> None:
        self.values: dict[object, dict[int, str]] = {}
        self._changed = trio.Event()

    def add(self, who: object, position: int, value: str) -> None:
        seen = self.values.setdefault(who, {})
        assert position not in seen
        seen[position] = value
        self._changed.set()
        self._changed = trio.Event()

    async def reached(self, position: int, *those: object) -> None:
        """Return once all *those* have seen something at *position*."""
        while not all(max(self.values.get(who, {0: ""})) >= position for who in those):
            await self._changed.wait()

    async def listen(self, follower: Program) -> None:
        """Take what the other process has seen until it ends; one that is killed may leave half a line."""
        assert follower.stdout is not None
        alone = trio.CapacityLimiter(1)
        while (said := await trio.to_thread.run_sync(follower.stdout.readline, limiter=alone)).endswith("\n"):
            position, _, value = said.strip().partition(" ")
            self.add(follower, int(position), value)

    async def follow(self, file: Path, scope: trio.CancelScope) -> None:
        """Follow in this process until *scope* is cancelled."""
        with scope:
            async with follow(file) as view:
                self.add(scope, view.position, exact(view.value))
                async for frame in view:
                    self.add(scope, frame.position, exact(view.value))


async def line(program: Program) -> int:
    return int(await trio.to_thread.run_sync(partial(line_of, program)))


async def ask(writer: Program) -> int:
    """Let the writer ask once more; its position after that."""
    tell(writer)
    return await line(writer)

"""Views over the network: whoever joins, pauses, dies or returns sees what the log says. X80, X97, O248."""

import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from pi_actors import open_session
from pi_actors.core.errors import NotFound, NotSupported
from pi_actors.core.text import Json
from pi_actors.models import ScriptedModel, reply
from pi_actors.server import open_server
from projections import AttachFailed, attach
from projections.attach import remote_of
from tests.cli.commandline import let_go, says, script, waits
from tests.server.processes import free_port, serving
from tests.server.viewers import Seen, check, positions_of_frames

LONG = "one two three four five six seven eight nine ten " * 6


async def submit(url: str, text: str, request_id: str) -> int:
    """Hand over an input and return its submission."""
    body = {"content": text, "request_id": request_id}
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{url}/sessions/main/agents/1/submit", json=body)
    assert answer.status_code == 200, answer.text
    submission: int = answer.json()["submission"]
    return submission


async def settled(url: str, submission: int) -> None:
    """Wait until the submission's run is over."""
    async with attach(url) as view:
        while not (
            view.position >= submission
            and view.value["docs"]["pi.live"]["run"] is None
            and not view.value["docs"]["pi.inbox"]["items"]
        ):
            await anext(view)


class Crowd:
    """Viewers of one server, and how far the first of them has come, by which the others are timed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.viewers: list[Seen] = []
        self.last: list[int] = []
        self.frames = 0
        self.over = False
        self._came = trio.lowlevel.ParkingLot()

    async def lead(self) -> None:
        """Watch all the time."""
        await self.watch(lambda seen: False)

    async def watch(self, leave: Callable[[Seen], bool], chance: random.Random | None = None) -> None:
        """Watch until *leave*; with *chance* stop looking now and then."""
        seen = Seen()
        self.viewers.append(seen)
        async with attach(self.url) as view:
            seen.begin(view)
            async for frame in view:
                seen.take(frame, view)
                if chance is None:
                    self.frames += 1
                    self._came.unpark_all()
                elif chance.random() < 0.05:
                    await self.wait_for(chance.randrange(1, 20))
                if leave(seen):
                    return

    async def wait_for(self, frames: int) -> None:
        """Wait until the leader has seen so many more, or has seen all."""
        wanted = self.frames + frames
        while self.frames < wanted and not self.over:
            await self._came.park()

    def end(self) -> None:
        """Nothing more will come."""
        self.over = True
        self._came.unpark_all()

    async def come_and_go(self, chance: random.Random) -> None:
        """Join at some moment, leave or be killed at some other, and come back."""
        while not self.over:
            await self.wait_for(chance.randrange(1, 15))
            stay, live = chance.randrange(1, 25), chance.randrange(1, 40)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._kill_after, live, nursery.cancel_scope)
                await self.watch(partial(self._has_seen, stay), chance)
                nursery.cancel_scope.cancel()

    def _has_seen(self, frames: int, seen: Seen) -> bool:
        return self.over or len(seen.frames) >= frames

    async def _kill_after(self, frames: int, scope: trio.CancelScope) -> None:
        await self.wait_for(frames)
        scope.cancel()


@pytest.mark.parametrize("seed", [1, 2])
async def test_viewers_who_join_pause_die_and_return_all_see_what_the_log_says(
    tmp_path: Path, seed: int
) -> None:
    turns = [
        says(LONG, ("bash", {"command": "for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done"})),
        LONG,
    ] * 2
    model = script(tmp_path, *turns, chunk_ms=4)
    chance = random.Random(seed)
    with serving("work.db", "--model", model, "--keep-progress", cwd=tmp_path) as server:
        crowd = Crowd(server.url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crowd.lead)
            for _ in range(5):
                nursery.start_soon(crowd.come_and_go, random.Random(chance.random()))
            for number in range(2):
                await settled(server.url, await submit(server.url, "go", f"go-{number}"))
            crowd.end()
            nursery.cancel_scope.cancel()
    assert sum(len(seen.frames) for seen in crowd.viewers) > 50
    for seen in crowd.viewers:
        await check(seen, tmp_path / "work.db")


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """Where a test works; no command that it has started waits on after it."""
    yield tmp_path
    let_go(tmp_path)


async def test_a_view_goes_on_where_it_was_after_its_server_was_killed_and_came_back(folder: Path) -> None:
    model, port, store = (
        script(folder, says(LONG, waits()), LONG, chunk_ms=4),
        free_port(),
        folder / "work.db",
    )
    seen = Seen()
    serving_again = partial(serving, "work.db", "--model", model, "--keep-progress", cwd=folder, port=port)
    with serving_again() as first:
        async with attach(first.url) as view:
            seen.begin(view)
            submission = await submit(first.url, "go", "once")
            while not any(slot["output"] for slot in view.value["docs"]["pi.live"]["tools"]):
                seen.take(await anext(view), view)
            first.kill()
            before = view.position
            with serving_again() as second:
                assert await submit(second.url, "go", "once") == submission, (
                    "it is the same one after a restart"
                )
                while view.value["docs"]["pi.live"]["run"] is not None:
                    seen.take(await anext(view), view)
    assert [frame.snapshot for frame in seen.frames] == [None] * len(seen.frames), (
        "it was never told all anew"
    )
    await check(seen, store)
    known = [frame.position for frame in seen.frames if frame.position > before]
    assert known == positions_of_frames(store, after=before, through=known[-1])


async def test_a_view_that_nobody_looks_at_stays_small_and_goes_on_from_a_snapshot(folder: Path) -> None:
    """X96: a screen that stops reading is told to start over from where things are."""
    async with (
        open_session(folder / "work.db", model=ScriptedModel(lambda _: reply("Hello."))) as session,
        open_server(session, port=0) as server,
        attach(server.url) as view,
        attach(server.url) as other,
    ):
        seen = Seen()
        seen.begin(view)
        for number in range(60):
            await session.root.ask(f"Hello {number}")
        while other.position < session.position:
            await anext(other)
        frame = await anext(view)
        assert frame.snapshot is not None
        seen.take(frame, view)
        while view.position < session.position:
            seen.take(await anext(view), view)
    await check(seen, folder / "work.db")


async def test_what_is_refused_is_said_clearly(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(AttachFailed, match=f"^{nobody} cannot be reached: "):
        await first_value(nobody)
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(session, port=0, token="secret") as server,
    ):
        with pytest.raises(AttachFailed, match="refuses: this server wants a token"):
            await first_value(server.url)
        with pytest.raises(AttachFailed, match="refuses: this server wants a token"):
            await first_value(server.url, token="guess")
        assert (await first_value(server.url, token="secret"))["agent"]["id"] == 1
        with pytest.raises(NotFound, match="no session 'other'"):
            await first_value(f"{server.url}/sessions/other", token="secret")
        with pytest.raises(NotFound, match="no agent 7 at position 1; its agents are: 1"):
            await first_value(f"{server.url}/sessions/main/agents/7", token="secret")


@pytest.mark.parametrize(
    "url", ["work.db", "127.0.0.1:8765", "ftp://x", "http://", "http://x/y", "http://x/sessions/a/b"]
)
async def test_what_is_no_address_is_not_tried(url: str) -> None:
    with pytest.raises(NotSupported, match="is no address of a server; write http://HOST:PORT"):
        await first_value(url)


def test_an_address_may_name_a_session_and_an_agent() -> None:
    assert remote_of("http://h:1/").agent_url == "http://h:1/sessions/main/agents/1"
    assert remote_of("http://h:1", 5).agent_url == "http://h:1/sessions/main/agents/5"
    assert remote_of("https://h/sessions/a%2Fb").agent_url == "https://h/sessions/a%2Fb/agents/1"
    assert remote_of("http://h:1/sessions/x/agents/9/", 5).agent_url == "http://h:1/sessions/x/agents/9"


async def test_a_view_is_not_carried_on_with_another_session_of_the_same_name(folder: Path) -> None:
    model, port = script(folder, "Hello."), free_port()
    with serving("one.db", "--model", model, cwd=folder, port=port) as first:
        await settled(first.url, await submit(first.url, "Hello?", "one"))
        async with attach(first.url) as view:
            value = view.value
            first.kill()
            with serving("two.db", "--model", model, cwd=folder, port=port) as second:
                await submit(second.url, "Hello?", "one")
                with pytest.raises(AttachFailed, match="is not the session that was watched up to position"):
                    await anext(view)
            assert view.value == value


async def test_what_the_body_raises_leaves_as_it_is(tmp_path: Path) -> None:
    async with open_session(tmp_path / "work.db") as session, open_server(session, port=0) as server:
        with pytest.raises(KeyError, match="mine"):
            async with attach(server.url):
                raise KeyError("mine")


async def first_value(url: str, token: str | None = None) -> Json:
    async with attach(url, token=token) as view:
        return view.value

"""Commands over the network: each does its work once, however often it is sent."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from pi_actors import Session, Settings, open_session
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.settings import CompactionSettings
from pi_actors.core.text import Json
from pi_actors.models import ScriptedModel, call, reply, stall
from pi_actors.models.plays import Item
from pi_actors.server import open_server
from pi_actors.tools import Tool, tool
from tests.server.asking import AGENT, asking, error_of, post


class Gate:
    """A tool that runs until it is opened."""

    def __init__(self) -> None:
        self.opened = trio.Event()
        self.entered = trio.Event()

    @property
    def tool(self) -> Tool:
        """The tool, by the name ``wait``."""

        @tool(name="wait", replay="safe")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            await self.opened.wait()
            return "waited"

        return wait


@asynccontextmanager
async def busy(store: Path) -> AsyncGenerator[tuple[Session, httpx.AsyncClient, Gate]]:
    """A session whose agent is in a run until the gate is opened."""
    gate = Gate()
    model = ScriptedModel([reply("", call("wait")), *[reply("Done.")] * 5])
    async with (
        open_session(store, model=model, tools=[gate.tool]) as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        await post(client, "submit", {"content": "work", "request_id": "first"})
        await gate.entered.wait()
        yield session, client, gate


async def test_an_input_is_handed_over_once_however_often_it_is_sent(tmp_path: Path) -> None:
    body = {"content": "Hello?", "request_id": "one"}
    async with open_session(tmp_path / "work.db", model=ScriptedModel([reply("Hello.")])) as session:
        async with open_server(session, port=0) as server, asking(server) as client:
            answers: list[Json] = []

            async def send() -> None:
                answers.append((await post(client, "submit", body))["submission"])

            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(send)
            assert len(set(answers)) == 1
        settled = await session.submission(answers[0]).wait()
        assert settled.text == "Hello."
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        before = session.position
        assert await post(client, "submit", body) == {"submission": answers[0], "status": "done"}
        assert session.position == before, "also after a restart"


async def test_an_input_may_hold_images(tmp_path: Path) -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "blob", "media_type": "image/png", "data": "aGVsbG8="},
    ]
    async with (
        open_session(tmp_path / "work.db", model=ScriptedModel([reply("Nice.")])) as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        await post(client, "submit", {"content": parts})
        view = (await client.get(f"{AGENT}/view")).json()["value"]
        assert view["entries"][0]["messages"][0]["parts"] == parts


async def test_a_busy_agent_queues_is_steered_or_refuses_as_it_was_asked(tmp_path: Path) -> None:
    async with busy(tmp_path / "work.db") as (session, client, gate):
        follow_up = await post(client, "submit", {"content": "later"})
        assert follow_up["status"] == "queued"
        steer = await post(client, "steer", {"content": "now", "request_id": "s"})
        assert (await post(client, "steer", {"content": "now", "request_id": "s"})) == steer
        modes = [item["mode"] for item in (await session.root.documents())["pi.inbox"]["items"]]
        assert modes == ["follow_up", "steer"]
        body = {"content": "only if free", "when_busy": "reject"}
        assert (await error_of(await client.post(f"{AGENT}/submit", json=body), 409))[0] == "agent_busy"
        gate.opened.set()
        await session.wait_idle()
        texts = [entry.text for entry in await session.root.entries() if entry.kind == "pi.user"]
        assert texts == ["work", "now", "later"]


async def test_what_was_not_placed_yet_can_be_withdrawn(tmp_path: Path) -> None:
    async with busy(tmp_path / "work.db") as (session, client, gate):
        queued = (await post(client, "submit", {"content": "later"}))["submission"]
        other = await session.spawn()
        wish = {"submission": queued}
        answer = await client.post(f"/sessions/main/agents/{other.id}/withdraw", json=wish)
        assert await error_of(answer, 404) == ("not_found", f"agent {other.id} has no submission {queued}")
        assert await post(client, "withdraw", wish) == {"status": "withdrawn"}
        before = session.position
        assert await post(client, "withdraw", wish) == {"status": "settled"}
        assert session.position == before
        assert (await error_of(await client.post(f"{AGENT}/withdraw", json={"submission": 99}), 404))[
            0
        ] == "not_found"
        gate.opened.set()
        await session.wait_idle()


async def test_an_abort_stops_the_run_that_it_names_and_no_later_one(tmp_path: Path) -> None:
    async with busy(tmp_path / "work.db") as (session, client, _):
        run = (await session.root.documents())["pi.live"]["run"]["id"]
        assert await post(client, "abort", {"run": run + 1}) == {"status": "not_running"}
        assert session.live.line.shown.actors[1].busy
        assert await post(client, "abort", {"run": run, "request_id": "a"}) == {"status": "idle"}
        live = (await session.root.documents())["pi.live"]
        assert live["run"] is None
        before = session.position
        assert await post(client, "abort", {"run": run}) == {"status": "not_running"}
        for _ in range(2):
            await session.live.passivation.look()
        assert await post(client, "abort", {"run": run}) == {"status": "not_running"}, "also while passive"
        assert session.position == before


async def test_an_abort_that_is_sent_again_does_not_stop_what_was_begun_since(tmp_path: Path) -> None:
    async with busy(tmp_path / "work.db") as (session, client, gate):
        assert await post(client, "abort", {"request_id": "a"}) == {"status": "idle"}
        gate.opened.set()
        await session.root.submit("again")
        assert await post(client, "abort", {"request_id": "a"}) == {"status": "idle"}
        await session.wait_idle()
        assert (await session.root.entries())[-1].text == "Done."
        assert (await post(client, "abort", {}))["status"] == "idle", "one without an id is not remembered"


async def test_a_context_is_summarised_once_however_often_that_is_asked(tmp_path: Path) -> None:
    body = {"instructions": "Mind the words.", "request_id": "c"}
    async with open_session(tmp_path / "work.db", model=talkative(), settings=UNASKED) as session:
        for _ in range(3):
            await session.root.ask("Talk.")
        async with open_server(session, port=0) as server, asking(server) as client:
            begun = await post(client, "compact", body)
            assert set(begun) == {"actor", "status", "reason", "detail"}
            assert (await session.wait_actor(begun["actor"])).status == "completed"
            assert (await session.root.entries())[0].kind == "pi.compaction"
            settled = {"actor": begun["actor"], "status": "completed", "reason": None, "detail": None}
            assert await post(client, "compact", body) == settled
    async with (
        open_session(tmp_path / "work.db", settings=UNASKED) as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        before = session.position
        assert await post(client, "compact", body) == settled
        assert session.position == before, "also after a restart"
        spawned = await session.live.recorded(begun["actor"])
        assert spawned is not None
        assert isinstance(spawned.event, WorkSpawned)
        assert b"Mind the words." in spawned.event.input


async def test_a_compaction_says_whether_it_goes_on_was_stopped_or_had_nothing_to_do(tmp_path: Path) -> None:
    async with (
        open_session(tmp_path / "work.db", model=talkative(stall()), settings=UNASKED) as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        nothing = await post(client, "compact", {})
        assert (nothing["status"], nothing["reason"]) == ("completed", "nothing_to_compact")
        assert nothing["detail"] == "the context is too small to leave anything out"
        for _ in range(3):
            await session.root.ask("Talk.")
        begun = await post(client, "compact", {"request_id": "c"})
        assert (begun["status"], begun["reason"]) == ("live", None)
        assert await post(client, "compact", {"request_id": "c"}) == begun
        assert await post(client, "abort", {}) == {"status": "idle"}
        assert (await post(client, "compact", {"request_id": "c"})) == {**begun, "status": "aborted"}


UNASKED = Settings(compaction=CompactionSettings(enabled=False))
"""Nothing is summarised that nobody has asked for."""


def talkative(*summaries: Item) -> ScriptedModel:
    """A model with a small window that gives long answers."""
    answers = [reply("word " * 180)] * 3
    return ScriptedModel(answers, summaries=[*summaries] or None, context_window=800)


async def test_a_session_that_is_only_read_takes_no_commands(tmp_path: Path) -> None:
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(tmp_path / "work.db", port=0) as server,
        asking(server) as client,
    ):
        bodies: dict[str, Json] = {
            "submit": {"content": "x"},
            "steer": {"content": "x"},
            "withdraw": {"submission": 1},
            "abort": {},
            "compact": {},
        }
        for command, body in bodies.items():
            code, message = await error_of(await client.post(f"{AGENT}/{command}", json=body), 409)
            assert code == "read_only"
            assert message == "this server only reads session 'main'; commands go to the process that owns it"
        assert session.position == 1


@pytest.mark.parametrize("command", ["submit", "steer", "abort", "compact"])
async def test_commands_for_an_agent_that_is_not_there_are_404(tmp_path: Path, command: str) -> None:
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        body = {} if command in ("abort", "compact") else {"content": "x"}
        assert (await error_of(await client.post(f"/sessions/main/agents/9/{command}", json=body), 404))[
            0
        ] == "not_found"
        if command == "abort":
            answer = await client.post("/sessions/main/agents/9/abort", json={"run": 5})
            assert await error_of(answer, 404) == ("not_found", "session 'main' has no agent 9")


async def test_a_request_id_that_was_used_for_something_else_is_refused(tmp_path: Path) -> None:
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        await session.root.submit_write("note", data=1, request_id="taken")
        answer = await client.post(f"{AGENT}/submit", json={"content": "x", "request_id": "taken"})
        code, message = await error_of(answer, 409)
        assert code == "refused"
        assert "was used for write" in message
        answer = await client.post(f"{AGENT}/compact", json={"request_id": "taken"})
        assert await error_of(answer, 409) == (code, message.replace("an input", "a compaction"))
        answer = await client.post(f"{AGENT}/submit", json={"content": "x", "request_id": "x" * 501})
        assert (await error_of(answer, 409))[0] == "refused"

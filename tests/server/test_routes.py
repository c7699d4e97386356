"""What can be asked for, and how streams begin and go on."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from pi_actors import Session, open_session, open_store
from pi_actors.core.text import Json
from pi_actors.models import ScriptedModel, reply
from pi_actors.server import Server, open_server
from projections import apply_frame, attach, replay
from projections.attach import Remote
from projections.frames import Frame
from projections.view import value_of, value_with
from tests.server.asking import AGENT, asking, error_of, events
from tests.server.viewers import positions_of_frames

TALKS = ScriptedModel(lambda request: reply("Hello."))


@asynccontextmanager
async def served(
    store: Path | str, name: str = "main"
) -> AsyncGenerator[tuple[Session, Server, httpx.AsyncClient]]:
    """A session, its server and a client."""
    async with (
        open_session(store, name, model=TALKS) as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        yield session, server, client


async def value_now(session: Session) -> Json:
    """What a view of the root shows now."""
    return value_with(await session.folded(), 1, await session.root.entries())


def value_after(frames: list[Json], value: Json = None) -> Json:
    """The value that *frames*, as JSON, make of *value*."""
    for frame in frames:
        value = apply_frame(value or {}, msgspec.convert(frame, Frame))
    return value


async def test_sessions_are_listed_with_what_one_can_do_with_them(tmp_path: Path) -> None:
    async with open_store(tmp_path / "work.db") as store:
        async with store.open_session("other"):
            pass
        async with (
            store.open_session("mine") as mine,
            open_server(mine, store, port=0) as server,
            asking(server) as client,
        ):
            listed = (await client.get("/sessions")).json()["sessions"]
    assert [(line["id"], line["position"], line["commands"]) for line in listed] == [
        ("mine", 1, True),
        ("other", 1, False),
    ]
    assert listed[0]["held_by"].startswith("process ")
    assert listed[1]["held_by"] is None
    assert set(listed[0]) == {"id", "position", "live", "size_bytes", "updated_at", "held_by", "commands"}


@pytest.mark.parametrize("store", ["work.db", "memory:"])
async def test_a_view_is_the_value_at_a_position(tmp_path: Path, store: str) -> None:
    async with served(store if store == "memory:" else tmp_path / store) as (session, _, client):
        await session.root.ask("Hello?")
        answer = (await client.get(f"{AGENT}/view")).json()
        assert answer["value"] == await value_now(session)
        assert answer["position"] == session.position
        assert answer["at"] == answer["value"]["entries"][-1]["at"]


async def test_a_stream_begins_with_a_snapshot_and_goes_on_with_frames(tmp_path: Path) -> None:
    """O246, O248."""
    async with served(tmp_path / "work.db") as (session, _, client):
        await session.root.ask("Hello?")
        begun = session.position
        await session.root.ask("And?")
        whole = await events(client, to=session.position)
        assert [frame["position"] for frame in whole] == [session.position]
        assert value_after(whole) == await value_now(session)
        rest = await events(client, to=session.position, after=begun)
        known = value_of(await replay(tmp_path / "work.db", to=begun), 1)
        assert value_after(rest, known) == await value_now(session)
        assert all("snapshot" not in frame for frame in rest)
        changes = positions_of_frames(tmp_path / "work.db", after=begun, through=session.position)
        assert [frame["position"] for frame in rest] == changes


async def test_what_a_client_says_on_reconnecting_counts_more_than_its_address(tmp_path: Path) -> None:
    async with served(tmp_path / "work.db") as (session, _, client):
        await session.root.ask("Hello?")
        begun = session.position
        await session.root.ask("And?")
        headers = {"last-event-id": str(begun)}
        rest = await events(client, to=session.position, headers=headers, after=1)
        assert rest == await events(client, to=session.position, after=begun)
        assert rest != await events(client, to=session.position, after=1)


async def test_positions_of_another_session_or_from_the_future_are_answered_with_a_snapshot(
    tmp_path: Path,
) -> None:
    async with served(tmp_path / "work.db") as (session, _, client):
        await session.root.ask("Hello?")
        await session.root.ask("And?")
        end = session.position
        for after, uuid in ((end + 50, None), (end - 3, "another"), (0, None)):
            (snapshot,) = await events(client, to=end, after=after, uuid=uuid)
            assert "snapshot" in snapshot
        assert "snapshot" not in (await events(client, to=end, after=end - 3, uuid=session.uuid))[0]


async def test_more_than_100_missed_frames_are_answered_with_a_snapshot(tmp_path: Path) -> None:
    async with served(tmp_path / "work.db") as (session, _, client):
        while (
            len(changes := positions_of_frames(tmp_path / "work.db", after=1, through=session.position)) < 110
        ):
            await session.root.ask("Hello?")
        end = session.position
        assert [frame["position"] for frame in await events(client, to=end, after=changes[-101])] == changes[
            -100:
        ]
        (snapshot,) = await events(client, to=end, after=changes[-102])
        assert "snapshot" in snapshot
        assert len(await events(client, to=end, after=changes[-101])) == 100


async def test_the_state_at_any_position_can_be_asked_for(tmp_path: Path) -> None:
    async with served(tmp_path / "work.db") as (session, _, client):
        await session.root.ask("Hello?")
        for to in range(1, session.position + 2):
            answer = (await client.get(f"{AGENT}/replay", params={"to": to})).json()
            state = await replay(tmp_path / "work.db", to=to)
            assert (answer["position"], answer["value"]) == (state.position, value_of(state, 1))
            assert [node["id"] for node in answer["tree"]] == [node.id for node in state.tree()]
        newest = (await client.get(f"{AGENT}/replay")).json()
        assert newest["position"] == session.position
        assert (await error_of(await client.get(f"{AGENT}/replay?to=0"), 404))[0] == "not_found"


async def test_the_ends_of_commits_come_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path / "work.db") as (session, _, client):
        await session.root.ask("Hello?")
        whole = (await client.get("/sessions/main/positions")).json()
        assert whole["end"] == session.position
        assert whole["next"] is None
        ends = [line["position"] for line in whole["positions"]]
        assert ends == [
            to
            for to in range(1, session.position + 1)
            if (await replay(tmp_path / "work.db", to=to)).position == to
        ]
        assert "RunStarted" in whole["positions"][1]["topics"]
        pages: list[Json] = []
        after: int | None = 0
        while after is not None:
            page = (await client.get(f"{AGENT}/positions", params={"after": after, "limit": 2})).json()
            assert len(page["positions"]) <= 2
            pages += page["positions"]
            after = page["next"]
        assert pages == whole["positions"]


async def test_the_tree_and_what_is_below_one_agent_can_be_asked_for_and_watched(tmp_path: Path) -> None:
    async with served(tmp_path / "work.db") as (session, _, client):
        other = await session.spawn()
        whole = (await client.get("/sessions/main/tree")).json()
        assert whole["position"] == session.position
        assert [node["id"] for node in whole["tree"]] == [1, other.id]
        assert set(whole["tree"][0]) == {
            "id", "kind", "agent", "owner", "background", "state", "waiting_on", "abort_requested", "blocked",
            "forked_from",
        }  # fmt: skip
        below = (await client.get(f"/sessions/main/agents/{other.id}/tree")).json()
        assert [node["id"] for node in below["tree"]] == [other.id]
        watched = await events(client, to=session.position, path="/sessions/main/tree/events")
        assert watched == [whole]
        code, message = await error_of(await client.get("/sessions/main/agents/99/tree"), 404)
        assert (code, message) == ("not_found", f"no agent 99; the session's agents are: 1, {other.id}")


async def test_what_is_not_there_is_404(tmp_path: Path) -> None:
    async with served(tmp_path / "work.db") as (_, __, client):
        for what in ("view", "events", "replay", "tree", "positions"):
            code, message = await error_of(await client.get(f"/sessions/nope/agents/1/{what}"), 404)
            assert (code, message) == (
                "not_found",
                "this server has no session 'nope'; GET /sessions lists them",
            )
        for what in ("view", "events", "replay"):
            code, message = await error_of(await client.get(f"/sessions/main/agents/7/{what}"), 404)
            assert (code, message) == ("not_found", "no agent 7 at position 1; its agents are: 1")
        for agent in ("x", "-1", "9" * 40, "1.0", "%31x"):
            assert (await error_of(await client.get(f"/sessions/main/agents/{agent}/view"), 404))[
                0
            ] == "not_found"
        for bad in ("x", "-1", "1.5", "9" * 30, "%00"):
            for what in (f"replay?to={bad}", f"positions?after={bad}", f"events?after={bad}"):
                assert (await error_of(await client.get(f"{AGENT}/{what}"), 400))[0] == "bad_parameter"


@pytest.mark.parametrize("name", ["a/b", "a b", "ü", "x/agents/1", "100%", "?#"])
async def test_a_session_may_have_any_name(tmp_path: Path, name: str) -> None:
    async with served(tmp_path / "work.db", name) as (session, server, client):
        remote = Remote(base=server.url, session=session.id)
        assert (await client.get(f"{remote.agent_url}/view")).json()["position"] == 1
        async with attach(remote.session_url) as view:
            assert view.position == 1


async def test_a_store_that_somebody_else_writes_is_followed(tmp_path: Path) -> None:
    async with (
        open_session(tmp_path / "work.db", model=TALKS) as session,
        open_server(tmp_path / "work.db", port=0) as server,
        asking(server) as client,
    ):
        begun = session.position
        await session.root.ask("Hello?")
        frames = await events(client, to=session.position, after=begun)
        assert all("snapshot" not in frame for frame in frames)
        assert (await client.get(f"{AGENT}/view")).json()["value"] == await value_now(session)
        tree = (await client.get("/sessions/main/tree")).json()
        assert [node["id"] for node in tree["tree"]] == [1]
        async with open_session(tmp_path / "work.db", "later"):
            assert (await client.get("/sessions/later/agents/1/view")).json()["position"] == 1


async def test_a_store_that_is_replaced_ends_its_streams_and_the_next_ones_show_the_new_one(
    tmp_path: Path,
) -> None:
    store = tmp_path / "work.db"
    for name in ("work.db", "new.db"):
        async with open_session(tmp_path / name, model=TALKS) as session:
            await session.root.ask(f"Is this {name}?")
    async with open_server(store, port=0) as server, asking(server) as client:
        before = (await client.get(f"{AGENT}/view")).json()
        told = b""
        async with client.stream("GET", f"{AGENT}/events") as response:
            async for piece in response.aiter_raw():
                if b"data: " not in told and b"data: " in piece:
                    (tmp_path / "new.db").replace(store)
                    async with open_session(store, model=TALKS) as session:
                        await session.root.ask("And now?")
                told += piece
        event, data = told.decode().splitlines()[-3:-1]
        assert event == "event: end"
        assert '"code":"store_failed"' in data
        after = (await client.get(f"{AGENT}/view")).json()
    assert after["value"]["agent"]["session_uuid"] not in ("", before["value"]["agent"]["session_uuid"])

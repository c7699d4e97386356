"""Forks over the network: who they are, and that what they inherit is shown like what they said."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from pi_actors import Agent, Session, open_session
from pi_actors.core.text import Json
from pi_actors.models import ScriptedModel, reply
from pi_actors.server import open_server
from tests.server.asking import asking, events

ECHO = ScriptedModel(lambda request: reply(f"{len(request.messages)} messages"))


@asynccontextmanager
async def forked(store: Path, *, follow: bool) -> AsyncGenerator[tuple[Session, Agent, httpx.AsyncClient]]:
    """A session whose root has said three answers and was forked at the second; *follow*: only read."""
    async with open_session(store, model=ECHO) as session:
        for question in ("one", "two", "three"):
            await session.root.ask(question)
        fork = await session.root.fork((await session.root.entries())[3].id)
        async with open_server(store if follow else session, port=0) as server, asking(server) as client:
            yield session, fork, client


def texts(value: Json) -> list[str]:
    """What is said in a view's entries."""
    parts = [part for entry in value["entries"] for message in entry["messages"] for part in message["parts"]]
    return [part["text"] for part in parts]


INHERITED = ["one", "1 messages", "two", "3 messages"]


@pytest.mark.parametrize("follow", [False, True])
async def test_the_tree_says_what_an_agent_was_forked_from(tmp_path: Path, follow: bool) -> None:
    async with forked(tmp_path / "work.db", follow=follow) as (session, fork, client):
        tree = (await client.get("/sessions/main/tree")).json()["tree"]
        origin = {"agent": 1, "entry": (await session.root.entries())[3].id}
        assert [(node["id"], node["forked_from"]) for node in tree] == [(1, None), (fork.id, origin)]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_view_of_a_fork_has_the_entries_that_it_inherits(tmp_path: Path, follow: bool) -> None:
    async with forked(tmp_path / "work.db", follow=follow) as (_, fork, client):
        agent = f"/sessions/main/agents/{fork.id}"
        assert texts((await client.get(f"{agent}/view")).json()["value"]) == INHERITED
        await fork.ask("and now?")
        now = [*INHERITED, "and now?", "5 messages"]
        assert texts((await client.get(f"{agent}/view")).json()["value"]) == now


@pytest.mark.parametrize("follow", [False, True])
async def test_a_fork_at_a_position_of_the_past_has_what_it_inherits(tmp_path: Path, follow: bool) -> None:
    async with forked(tmp_path / "work.db", follow=follow) as (session, fork, client):
        agent, born = f"/sessions/main/agents/{fork.id}", session.position
        await fork.ask("and now?")
        past = (await client.get(f"{agent}/replay", params={"to": born})).json()
        assert (past["position"], texts(past["value"])) == (born, INHERITED)
        positions = (await client.get(f"{agent}/positions")).json()
        assert born in [line["position"] for line in positions["positions"]]


@pytest.mark.parametrize("follow", [False, True])
async def test_frames_of_a_fork_begin_with_what_it_inherits_and_go_on(tmp_path: Path, follow: bool) -> None:
    async with forked(tmp_path / "work.db", follow=follow) as (session, fork, client):
        await fork.ask("and now?")
        path = f"/sessions/main/agents/{fork.id}/events"
        (first, *_) = await events(client, to=session.position, path=path)
        assert texts(first["snapshot"]) == [*INHERITED, "and now?", "5 messages"]

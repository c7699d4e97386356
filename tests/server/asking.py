"""Requests to a server of the test's own process: by a client, or byte for byte."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import httpx
import msgspec
import trio
from httpx_sse import EventSource

from pi_actors.core.text import Json
from pi_actors.server import Server

AGENT = "/sessions/main/agents/1"


@asynccontextmanager
async def asking(server: Server, **headers: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of *server*."""
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30, trust_env=False) as client:
        yield client


async def post(client: httpx.AsyncClient, what: str, body: Json, agent: str = AGENT) -> Json:
    """What a command is answered; it must be carried out."""
    answer = await client.post(f"{agent}/{what}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def error_of(answer: httpx.Response, status: int) -> tuple[str, str]:
    """Code and message of a refusal with *status*."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) == {"code", "message"}
    return error["code"], error["message"]


async def events(
    client: httpx.AsyncClient,
    *,
    to: int,
    path: str = f"{AGENT}/events",
    headers: dict[str, str] | None = None,
    after: int | None = None,
    uuid: str | None = None,
) -> list[Json]:
    """The events of a stream up to the one whose id is *to*: their data, ids checked."""
    asked = {"after": after, "uuid": uuid}
    params = {name: value for name, value in asked.items() if value is not None}
    found: list[Json] = []
    async with client.stream("GET", path, params=params, headers=headers or {}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        with trio.CancelScope() as enough:
            async with aclosing(EventSource(response).aiter_sse()) as stream:
                async for event in stream:
                    if event.data and not enough.cancel_called:
                        found.append(msgspec.json.decode(event.data))
                        assert event.id == str(found[-1]["position"])
                    if found and found[-1]["position"] >= to:
                        enough.cancel()
    return found


async def raw(server: Server, request: bytes) -> bytes:
    """All that is answered to *request*, until the server closes the connection."""
    stream = await trio.open_tcp_stream(server.host, server.port)
    async with stream:
        await stream.send_all(request)
        answer = b""
        while piece := await stream.receive_some():
            answer += piece
        return answer

"""Whatever comes through the door, a clear answer in JSON leaves by it. Real bytes on real connections."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from pi_actors import open_session
from pi_actors.core.errors import NotSupported
from pi_actors.server import Limits, Server, open_server
from tests.server.asking import AGENT, asking, error_of, raw

TOKEN = "a-long-secret"
JSON = {"content-type": "application/json"}
LIMITS = Limits()


@asynccontextmanager
async def served(
    store: Path, token: str | None = None, limits: Limits = LIMITS
) -> AsyncGenerator[tuple[Server, httpx.AsyncClient]]:
    """A server of one session, and a client without a token."""
    async with (
        open_session(store / "work.db") as session,
        open_server(session, port=0, token=token, limits=limits) as server,
        asking(server) as client,
    ):
        yield server, client


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b'{"content": "x"}', {}, 415, "not_json"),
        (b'{"content": "x"}', {"content-type": "text/plain"}, 415, "not_json"),
        (b"content=x", {"content-type": "application/x-www-form-urlencoded"}, 415, "not_json"),
        (b"", JSON, 400, "bad_json"),
        (b"{", JSON, 400, "bad_json"),
        (b"\xff\xfe", JSON, 400, "bad_json"),
        (b'{"content": "\xff"}', JSON, 400, "bad_json"),
        (b"[" * 100_000, JSON, 400, "bad_body"),
        (b"[]", JSON, 400, "bad_body"),
        (b"{}", JSON, 400, "bad_body"),
        (b'{"content": 5}', JSON, 400, "bad_body"),
        (b'{"content": "x", "when_busy": "soon"}', JSON, 400, "bad_body"),
        (b'{"content": "x", "unknown": 1}', JSON, 400, "bad_body"),
        (b'{"content": [{"type": "text", "text": "x"}, {"type": "code"}]}', JSON, 400, "bad_body"),
        (b'{"content": []}', JSON, 400, "invalid_value"),
        (b'{"content": "' + b"x" * (8 * 1024 * 1024) + b'"}', JSON, 413, "body_too_large"),
    ],
)
async def test_a_body_that_is_not_what_is_expected_is_refused(
    tmp_path: Path, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    async with served(tmp_path) as (_, client):
        answer = await client.post(f"{AGENT}/submit", content=content, headers=headers)
        assert (await error_of(answer, status))[0] == code
        assert (await client.get(f"{AGENT}/view")).json()["position"] == 1, "nothing was stored"


class Unannounced:
    """A body of 13 MiB that does not say so."""

    def __init__(self) -> None:
        self._left = 208

    def __aiter__(self) -> "Unannounced":
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._left == 0:
            raise StopAsyncIteration
        self._left -= 1
        return b"x" * 65_536


async def test_a_body_without_an_announced_size_is_counted(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        answer = await client.post(f"{AGENT}/submit", content=Unannounced(), headers=JSON)
        assert (await error_of(answer, 413))[0] == "body_too_large"


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(body_s=0.2)) as (server, client):
        head = f"POST {AGENT}/submit HTTP/1.1\r\nhost: x.localhost\r\n".replace("x.localhost", "localhost")
        answer = await raw(
            server, f"{head}content-type: application/json\r\ncontent-length: 9\r\n\r\n{{".encode()
        )
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"body_too_slow"' in answer
        assert (await client.get("/sessions")).status_code == 200


async def test_a_refused_sender_of_a_large_body_still_gets_its_answer(tmp_path: Path) -> None:
    async with served(tmp_path, token=TOKEN) as (_, client):
        answer = await client.post(f"{AGENT}/submit", content=b"x" * 900_000, headers=JSON)
        assert (await error_of(answer, 401))[0] == "unauthorized"


async def test_paths_and_methods_that_are_not_there_are_told_in_json(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        for path in (
            "/nope",
            "/sessions/",
            "/sessions/main",
            f"{AGENT}/",
            f"{AGENT}/nope",
            "/page/index.html",
            "/../x",
        ):
            assert (await error_of(await client.get(path), 404))[0] == "not_found"
        for method, path in (
            ("POST", "/sessions"),
            ("GET", f"{AGENT}/submit"),
            ("DELETE", f"{AGENT}/view"),
            ("OPTIONS", "/sessions"),
        ):
            assert (await error_of(await client.request(method, path), 405))[0] == "method_not_allowed"


async def test_every_answer_tells_browsers_to_be_careful(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        for path in ("/", "/sessions", f"{AGENT}/view", "/nope"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert "server" not in headers
            assert not [name for name in headers if name.startswith("access-control")]
        async with client.stream("GET", f"{AGENT}/events") as stream:
            assert stream.headers["cache-control"] == "no-store"
            assert stream.headers["x-content-type-options"] == "nosniff"


async def test_a_token_is_asked_for_by_everything_but_the_page(tmp_path: Path) -> None:
    async with served(tmp_path, token=TOKEN) as (server, client):
        assert (await client.get("/")).status_code == 200
        for path in (
            "/sessions",
            f"{AGENT}/view",
            f"{AGENT}/events",
            f"{AGENT}/replay",
            "/nope",
            "/sessions/main/tree",
        ):
            answer = await client.get(path)
            code, message = await error_of(answer, 401)
            assert code == "unauthorized"
            assert TOKEN not in message
            assert answer.headers["www-authenticate"] == "Bearer"
            assert (await error_of(await client.get(path, headers={"authorization": "Bearer x"}), 401))[
                0
            ] == code
        assert (await error_of(await client.post(f"{AGENT}/submit", json={"content": "x"}), 401))[
            0
        ] == "unauthorized"
        assert (await error_of(await client.get("/sessions", params={"token": TOKEN}), 401))[
            0
        ] == "unauthorized"
        async with asking(server, authorization=f"Bearer {TOKEN}") as known:
            assert (await known.get("/sessions")).status_code == 200


async def test_pages_of_others_get_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client):
        for path in ("/", "/sessions", f"{AGENT}/events"):
            assert (await error_of(await client.get(path, headers={"host": "evil.example"}), 403))[
                0
            ] == "host_refused"
            assert (await error_of(await client.get(path, headers={"origin": "http://evil.example"}), 403))[
                0
            ] == "origin_refused"
        body = {"content": "x"}
        for headers in (
            {"origin": "null"},
            {"origin": "http://evil.example"},
            {"sec-fetch-site": "cross-site"},
        ):
            answer = await client.post(f"{AGENT}/submit", json=body, headers=headers)
            assert (await error_of(answer, 403))[0] == "origin_refused"
        answer = await client.post(f"{AGENT}/submit", json=body, headers={"origin": server.url})
        assert answer.status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
async def test_who_can_be_reached_from_elsewhere_needs_a_token(tmp_path: Path, host: str) -> None:
    async with open_session(tmp_path / "work.db") as session:
        with pytest.raises(NotSupported, match="can be reached from other machines, so a token is needed"):
            async with open_server(session, host=host, port=0):
                pass
        with pytest.raises(NotSupported, match="the token is empty"):
            async with open_server(session, host=host, port=0, token=" "):
                pass


async def test_a_server_for_others_answers_for_its_addresses_and_the_names_it_was_given(
    tmp_path: Path,
) -> None:
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(session, host="0.0.0.0", port=0, token=TOKEN, names=["Box.example"]) as server,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{server.port}", headers={"authorization": f"Bearer {TOKEN}"}
        ) as client,
    ):
        assert (await client.get("/sessions")).status_code == 200
        assert (await client.get("/sessions", headers={"host": "box.example:80"})).status_code == 200
        assert (await error_of(await client.get("/sessions", headers={"host": "other.example"}), 403))[
            0
        ] == "host_refused"


async def test_what_nobody_foresaw_is_told_without_a_traceback_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_session(tmp_path / "work.db") as session,
        open_server(session, port=0) as server,
        asking(server) as client,
    ):
        session.live.line.shown = None  # type: ignore[assignment] # as a bug would
        answer = await client.get(f"{AGENT}/view")
        session.live.line.shown = session.live.line.ahead
        told = await error_of(answer, 500)
        assert told == ("internal", "the server failed at this; its own log says why")
        while not caplog.records:
            await trio.lowlevel.checkpoint()
        (record,) = caplog.records
        assert record.exc_info is not None
        assert (await client.get(f"{AGENT}/view")).status_code == 200


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b""),
        (b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n", b"404"),
        (b"CONNECT x:1 HTTP/1.1\r\nhost: localhost\r\n\r\n", b"404"),
        (b"GET http://localhost/ HTTP/1.1\r\nhost: localhost\r\n\r\n", b"404"),
        (b"GET / HTTP/1.0\r\n\r\n", b"403"),
        (
            (
                b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            ),
            b"500",
        ),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: h2c\r\nhttp2-settings: AAAA\r\n\r\n", b"101"),
    ],
)
async def test_what_is_no_http_ends_its_own_connection_only(
    tmp_path: Path, request_head: bytes, status: bytes
) -> None:
    async with served(tmp_path, limits=Limits(idle_s=2)) as (server, client):
        answer = await raw(server, request_head)
        assert status in answer.split(b"\r\n")[0]
        assert b"Traceback" not in answer
        assert (await client.get("/")).status_code == 200

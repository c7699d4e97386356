"""Clients that are slow, stuck or many cost a bounded amount, and the writer nothing. X96."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from pi_actors import open_session
from pi_actors.server import Limits, Server, open_server
from pi_actors.server.connections import Connection
from tests.server.asking import AGENT, asking, error_of, events, raw
from tests.server.processes import serving

MEGABYTE = 1024 * 1024
WATCH = f"GET {AGENT}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


async def stuck(port: int) -> trio.SocketStream:
    """A client that asks for events and never reads them."""
    connection = trio.socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await connection.connect(("127.0.0.1", port))
    stream = trio.SocketStream(connection)
    await stream.send_all(WATCH)
    return stream


async def test_a_client_that_takes_nothing_is_let_go() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        connection = Connection(stream, Limits(write_s=0.1))
        with pytest.raises(trio.BrokenResourceError, match=r"took nothing for 0\.1 s"):
            await connection.send_all(b"x" * 10 * MEGABYTE)
        with pytest.raises(trio.ClosedResourceError):
            await connection.send_all(b"x")


async def test_cutting_a_connection_ends_what_is_being_sent_on_it() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        connection = Connection(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), Limits())
        begun = trio.Event()

        async def send(connection: Connection) -> None:
            begun.set()
            with trio.CancelScope(shield=True), pytest.raises(trio.ClosedResourceError):
                await connection.send_all(b"x" * 10 * MEGABYTE)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_once, begun, connection)
            await connection.converse(send)
        with pytest.raises(trio.ClosedResourceError):
            await connection.send_all(b"x")


async def cut_once(begun: trio.Event, connection: Connection) -> None:
    await begun.wait()
    await trio.testing.wait_all_tasks_blocked()
    connection.cut()


async def test_a_conversation_that_breaks_is_logged_and_ends_its_own_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)

        async def break_down(_: Connection) -> None:
            await trio.lowlevel.checkpoint()
            raise KeyError("a bug")

        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        await Connection(stream, Limits()).converse(break_down)
        assert theirs.recv(1) == b"", "it is closed"
    assert [record.message for record in caplog.records] == ["a connection has failed"]


async def test_stuck_clients_cost_neither_memory_nor_the_writers_time(tmp_path: Path) -> None:
    """The server is a process of its own, so that its memory can be measured."""
    async with open_session(tmp_path / "work.db") as session:
        with serving("work.db", "--follow", cwd=tmp_path) as server:
            port = int(server.url.rpartition(":")[2])
            client_of = asking(Server(url=server.url, host="127.0.0.1", port=port))
            async with await stuck(port), await stuck(port), await stuck(port), client_of as client:
                await events(client, to=session.position)
                before = resident_bytes(server.process.pid)
                for _ in range(100):
                    await session.root.submit_write("large", data="x" * MEGABYTE)
                    await session.root.reset()
                await events(client, to=session.position)
                assert resident_bytes(server.process.pid) - before < 60 * MEGABYTE
    wal = tmp_path / "work.db-wal"
    assert not wal.exists() or wal.stat().st_size < 50 * MEGABYTE, "readers do not keep it from shrinking"


def resident_bytes(pid: int) -> int:
    """How much memory a process takes."""
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) * 1024


@asynccontextmanager
async def served(store: Path, limits: Limits) -> AsyncGenerator[Server]:
    """A server of one session."""
    async with (
        open_session(store / "work.db") as session,
        open_server(session, port=0, limits=limits) as server,
    ):
        yield server


async def test_a_head_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, Limits(idle_s=0.2)) as server:
        assert await raw(server, b"") == b""
        assert await raw(server, b"GET / HTTP/1.1\r\nhost: loc") == b""


async def test_a_connection_that_nobody_uses_any_more_is_closed(tmp_path: Path) -> None:
    async with served(tmp_path, Limits(idle_s=0.2)) as server:
        answer = await raw(server, b"GET /sessions HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"]}")


async def test_there_are_never_more_connections_than_allowed(tmp_path: Path) -> None:
    async with served(tmp_path, Limits(connections=2)) as server:
        first, second, third = [await trio.open_tcp_stream("127.0.0.1", server.port) for _ in range(3)]
        answered: list[str] = []

        async def watch(name: str, stream: trio.SocketStream) -> None:
            await stream.send_all(WATCH)
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
            answered.append(name)

        await watch("first", first)
        await watch("second", second)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, "third", third)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert answered == ["first", "second"], "the third waits outside"
            await second.aclose()
        assert answered == ["first", "second", "third"]
        await first.aclose()
        await third.aclose()


async def test_there_are_never_more_viewers_than_allowed(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Limits(viewers=1)) as server,
        asking(server) as client,
        client.stream("GET", f"{AGENT}/events") as first,
    ):
        assert first.status_code == 200
        for path in (f"{AGENT}/events", "/sessions/main/tree/events"):
            code, message = await error_of(await client.get(path), 503)
            assert (code, message) == ("too_many_viewers", "1 viewers watch already; try again later")
        assert (await client.get(f"{AGENT}/view")).status_code == 200


async def test_a_stream_that_says_nothing_for_a_while_shows_that_it_is_alive(tmp_path: Path) -> None:
    async with served(tmp_path, Limits(silence_s=0.05)) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(WATCH)
            answer = b""
            while answer.count(b"\n:\n\n") + answer.count(b"\r\n3\r\n:\n\n\r\n") < 3:
                answer += await stream.receive_some()


async def test_a_server_ends_at_once_also_with_clients_that_are_stuck(tmp_path: Path) -> None:
    async with open_session(tmp_path / "work.db") as session:
        for _ in range(8):
            await session.root.submit_write("large", data="x" * MEGABYTE)
        async with open_server(session, port=0) as server:
            streams = [await stuck(server.port) for _ in range(3)]
            async with asking(server) as client:
                await events(client, to=session.position)
        for stream in streams:
            await stream.aclose()

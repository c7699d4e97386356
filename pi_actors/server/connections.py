"""Connections that end: a client that does not take what it is sent is let go.

The HTTP server shields what it writes from cancellation, so the limit lies below it, in the stream.
Every connection can also be cut from above, by whoever answers on it.
"""

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

import msgspec
import trio
from starlette.types import Scope

from pi_actors.runtime.scopes import background

LOG: Final = logging.getLogger("pi_actors.server")

PIECE_BYTES: Final = 64 * 1024
"""A client must take each piece of this size within the write limit."""

Converse: TypeAlias = Callable[["Connection"], Awaitable[None]]
"""Speaks HTTP on one connection until that ends."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What clients may cost a server, in counts and seconds.

    ``viewers`` watch at a time, all sessions together. ``write_s``: to take a piece of 64 KiB.
    ``idle_s``: to send a request's head, and between requests. ``body_s``: to send a body.
    ``silence_s``: how long a stream of events says nothing before it shows that it is alive.
    """

    connections: int = 256
    viewers: int = 200
    write_s: float = 30.0
    idle_s: float = 15.0
    body_s: float = 20.0
    silence_s: float = 15.0


class Connection(trio.abc.HalfCloseableStream):
    """A TCP connection within ``limits``."""

    def __init__(self, stream: trio.SocketStream, limits: Limits) -> None:
        self.socket = stream.socket
        self.limits = limits
        self._stream = stream
        self._scope = trio.CancelScope()
        self._answering = 0
        self._answered = 0

    async def converse(self, converse: Converse) -> None:
        """Have *converse* speak on this connection until it ends, or until it is cut."""
        try:
            with self._scope:
                async with background(self._cut_when_idle):
                    await converse(self)
        except Exception:  # what a client says must not end the connections of others
            LOG.exception("a connection has failed")
        finally:
            await trio.aclose_forcefully(self._stream)

    def cut(self) -> None:
        """End the connection now, with all that is being answered on it and what is being sent."""
        self._scope.cancel()
        self.socket.close()

    @contextmanager
    def answering(self) -> Generator[None]:
        """A request is being answered in the body, so the connection is in use."""
        self._answering += 1
        try:
            yield
        finally:
            self._answering -= 1
            self._answered += 1

    async def _cut_when_idle(self) -> None:
        """End a connection on which nothing is asked, in whatever words it is kept open."""
        seen = None
        while self._answering or seen != self._answered:
            seen = self._answered
            await trio.sleep(self.limits.idle_s)
        self.cut()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send *data*.

        Raises:
            BrokenResourceError: the client is gone, or does not take it. The connection is closed.
        """
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            await self._send_piece(view[start : start + PIECE_BYTES])

    async def _send_piece(self, piece: memoryview) -> None:
        with trio.move_on_after(self.limits.write_s) as patience:
            await self._stream.send_all(piece)
        if patience.cancelled_caught:
            await trio.aclose_forcefully(self._stream)
            raise trio.BrokenResourceError(f"the client took nothing for {self.limits.write_s} s")

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


def connection_of(scope: Scope) -> Connection:
    """The connection that a request came on."""
    connection = scope["state"]["connection"]
    assert isinstance(connection, Connection), connection
    return connection


class Connections:
    """All connections of a server."""

    def __init__(self, converse: Converse, limits: Limits) -> None:
        self._converse = converse
        self._limits = limits
        self._room = trio.Semaphore(limits.connections)
        self._open: set[Connection] = set()

    async def accept_all(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Serve whoever connects, until cancelled. While it is full others wait outside."""
        entrances = [_Entrance(listener, self._room) for listener in listeners]
        await trio.serve_listeners(self._serve, entrances)

    def cut_all(self) -> None:
        """End every connection now."""
        for connection in tuple(self._open):
            connection.cut()

    async def _serve(self, stream: trio.SocketStream) -> None:
        connection = Connection(stream, self._limits)
        self._open.add(connection)
        try:
            await connection.converse(self._converse)
        finally:
            self._open.discard(connection)
            self._room.release()


class _Entrance(trio.abc.Listener[trio.SocketStream]):
    """Lets a connection in once there is room for it; its handler gives the room back."""

    def __init__(self, listener: trio.SocketListener, room: trio.Semaphore) -> None:
        self._listener = listener
        self._room = room

    async def accept(self) -> trio.SocketStream:
        await self._room.acquire()
        with ExitStack() as undo:
            undo.callback(self._room.release)
            stream = await self._listener.accept()
            undo.pop_all()
        return stream

    async def aclose(self) -> None:
        await self._listener.aclose()

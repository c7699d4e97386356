"""Connections that end: a client that does not take what it is sent is let go.

The HTTP server shields what it writes from cancellation, so the limit lies below it, in the stream.
Every connection can also be cut from above, by whoever answers on it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import trio

PIECE_BYTES: Final = 64 * 1024
"""A client must take each piece of this size within the write limit."""

Converse: TypeAlias = Callable[["Connection"], Awaitable[None]]
"""Speaks HTTP on one connection until that ends."""


class Connection(trio.abc.HalfCloseableStream):
    """A TCP connection on which a client must take each piece within *write_s* seconds."""

    def __init__(self, stream: trio.SocketStream, write_s: float) -> None:
        self.socket = stream.socket
        self._stream = stream
        self._write_s = write_s
        self._scope = trio.CancelScope()

    async def converse(self, converse: Converse) -> None:
        """Have *converse* speak on this connection until it ends, or until it is cut."""
        try:
            with self._scope:
                await converse(self)
        finally:
            await trio.aclose_forcefully(self._stream)

    def cut(self) -> None:
        """End the connection now, with all that is being answered on it and what is being sent."""
        self._scope.cancel()
        self.socket.close()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send *data*.

        Raises:
            BrokenResourceError: the client is gone, or does not take it. The connection is closed.
        """
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            await self._send_piece(view[start : start + PIECE_BYTES])

    async def _send_piece(self, piece: memoryview) -> None:
        with trio.move_on_after(self._write_s) as patience:
            await self._stream.send_all(piece)
        if patience.cancelled_caught:
            await trio.aclose_forcefully(self._stream)
            raise trio.BrokenResourceError(f"the client took nothing for {self._write_s} s")

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Connections:
    """All connections of a server, of which there are never more than *most*."""

    def __init__(self, converse: Converse, *, most: int, write_s: float) -> None:
        self._converse = converse
        self._write_s = write_s
        self._room = trio.Semaphore(most)
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
        connection = Connection(stream, self._write_s)
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
        try:
            return await self._listener.accept()
        except BaseException:
            self._room.release()
            raise

    async def aclose(self) -> None:
        await self._listener.aclose()

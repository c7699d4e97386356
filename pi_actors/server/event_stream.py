"""Server-sent events: a client is sent what is new to it, as long as it is there and takes it.

A stream begins with ``retry: 1000``. An event has a position as its ``id`` and JSON as its ``data``.
A comment is sent where nothing else was for a while, so that either side notices when the other is
gone. Where there will be nothing more to see, the last event is of the type ``end`` and says why:
``{"error": {"code", "message"}}``.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, Protocol

import msgspec
import trio
from starlette.types import Message, Receive, Scope, Send

from pi_actors.core.errors import PiActorsError
from pi_actors.runtime.scopes import background
from pi_actors.server.connections import connection_of
from pi_actors.server.refusals import refusal_of

PIECE_BYTES: Final = 64 * 1024
PAUSE_S: Final = 0.02
"""What comes faster than this is sent together, so that many viewers leave time for the work they watch."""
BEGINNING: Final = b"retry: 1000\n\n"
HEARTBEAT: Final = b":\n\n"


class Watcher(Protocol):
    """Knows what a client has not seen yet."""

    async def new(self) -> Sequence[bytes]:
        """The next events for the client, whole ones; none where it has seen all."""
        ...

    async def wait(self) -> None:
        """Return when there may be more."""
        ...


class EventStream:
    """The answer of a route: events until the client leaves or there is nothing more to see."""

    def __init__(self, watching: AbstractAsyncContextManager[Watcher]) -> None:
        self._watching = watching

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = trio.CancelScope()
        async with background(partial(_wait_gone, receive, body)):
            with body:
                async with self._watching as watcher:
                    # What is refused at once is refused with a status of its own.
                    first = await watcher.new()
                    await send(_start())
                    if scope["method"] != "HEAD":
                        await _send_events(send, first, watcher, connection_of(scope).limits.silence_s)
                    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_events(send: Send, events: Sequence[bytes], watcher: Watcher, silence_s: float) -> None:
    await send(_body(BEGINNING))
    sent_at = trio.current_time()
    try:
        while True:
            for piece in pieces(events, PIECE_BYTES):
                await send(_body(piece))
                sent_at = trio.current_time()
            with trio.move_on_at(sent_at + silence_s) as patience:
                if not events:
                    await watcher.wait()
                await trio.sleep_until(sent_at + PAUSE_S)
            events = (HEARTBEAT,) if patience.cancelled_caught else await watcher.new()
    except PiActorsError as error:
        await send(_body(end_event(error)))


def end_event(error: PiActorsError) -> bytes:
    """The event that says why there are no more."""
    refused = refusal_of(error)
    told = {"error": {"code": refused.code, "message": refused.message}}
    return b"event: end\ndata: %b\n\n" % msgspec.json.encode(told)


def pieces(events: Sequence[bytes], size: int) -> Iterator[bytes]:
    """*events* in pieces of at most *size* bytes: small ones together, a large one in several."""
    piece = bytearray()
    for event in events:
        for start in range(0, len(event), size):
            part = memoryview(event)[start : start + size]
            if len(piece) + len(part) > size:
                yield bytes(piece)
                piece.clear()
            piece += part
    if piece:
        yield bytes(piece)


def _start() -> Message:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _body(piece: bytes) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": True}


async def _wait_gone(receive: Receive, body: trio.CancelScope) -> None:
    """Stop sending as soon as the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    body.cancel()

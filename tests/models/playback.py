"""A real HTTP server on 127.0.0.1 that plays given bytes and keeps the bytes it was sent.

It says what no public test server says: errors inside a stream, thinking with signatures, calls
without ids, and it keeps request bodies as they came.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import msgspec
import trio

from pi_actors.core.text import Json
from pi_actors.models import StreamDelta
from pi_actors.models.plays import Cut, Failure, Play, Reply, Stall


def unseen(delta: StreamDelta) -> None:
    """Take a delta that the test does not look at."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came over the socket."""

    path: str
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What to answer. ``then``: end the body, drop the connection, or say nothing until the client leaves."""

    status: int = 200
    headers: dict[str, str] = msgspec.field(default_factory=lambda: {"content-type": "text/event-stream"})
    pieces: tuple[bytes, ...] = ()
    then: Literal["end", "drop", "stall"] = "end"


class Playback:
    """Answers the requests in order; the last answer repeats."""

    def __init__(self) -> None:
        self.answers: list[HttpAnswer] = []
        self.recorded: list[Recorded] = []
        self.client_left = trio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, stream: trio.SocketStream) -> None:
        try:
            self.recorded.append(await _read_request(stream))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            await self._send(answer, stream)
        except trio.BrokenResourceError:
            self.client_left.set()

    async def _send(self, answer: HttpAnswer, stream: trio.SocketStream) -> None:
        head = [f"HTTP/1.1 {answer.status} Played", "transfer-encoding: chunked"]
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        await stream.send_all("\r\n".join([*head, "", ""]).encode())
        for piece in answer.pieces:
            await stream.send_all(b"%x\r\n%s\r\n" % (len(piece), piece))
        if answer.then == "end":
            await stream.send_all(b"0\r\n\r\n")
        elif answer.then == "stall":
            await stream.receive_some(1)
            self.client_left.set()


async def _read_request(stream: trio.SocketStream) -> Recorded:
    received = b""
    while b"\r\n\r\n" not in received:
        received += await stream.receive_some(65_536)
    head, body = received.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length"))
    while len(body) < length:
        body += await stream.receive_some(65_536)
    return Recorded(path=lines[0].split(" ")[1], body=body)


@asynccontextmanager
async def open_playback() -> AsyncGenerator[Playback, None]:
    playback = Playback()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    playback.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, playback.handle, listeners)
        yield playback
        nursery.cancel_scope.cancel()


# What a provider would send for a play.


def answer_for(play: Play, protocol: Literal["chat", "anthropic"]) -> HttpAnswer:
    pieces = chat_pieces if protocol == "chat" else anthropic_pieces
    match play:
        case Reply():
            return HttpAnswer(pieces=pieces(play))
        case Cut(reply=reply):
            return HttpAnswer(pieces=pieces(reply, finished=False))
        case Stall(text=text):
            return HttpAnswer(pieces=pieces(Reply(text=text), finished=False), then="stall")
        case Failure():
            return failed_answer(play, protocol)


def failed_answer(play: Failure, protocol: Literal["chat", "anthropic"]) -> HttpAnswer:
    kinds = {"retryable": (529, "overloaded_error"), "fatal": (401, "authentication_error")}
    status, code = kinds.get(play.kind, (400, "invalid_request_error"))
    message = "prompt is too long: 9 tokens > 8 maximum" if play.kind == "overflow" else play.message
    error = {"type": "error", "error": {"type": code, "message": message}}
    if play.after:
        pieces = chat_pieces if protocol == "chat" else anthropic_pieces
        last = event(error, None if protocol == "chat" else "error")
        return HttpAnswer(pieces=(*pieces(Reply(text=play.after), finished=False), last))
    headers = {"content-type": "application/json"}
    if play.retry_after_ms is not None:
        headers["retry-after-ms"] = str(play.retry_after_ms)
    return HttpAnswer(status=status, headers=headers, pieces=(json.dumps(error).encode(),))


def event(data: Json, name: str | None = None) -> bytes:
    return f"{f'event: {name}' + chr(10) if name else ''}data: {json.dumps(data)}\n\n".encode()


def halves(text: str) -> list[str]:
    """Two pieces, so that everything streams."""
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def chat_pieces(reply: Reply, *, finished: bool = True) -> tuple[bytes, ...]:
    deltas: list[Json] = []
    if reply.thinking is not None:
        deltas += [{"reasoning_content": piece} for piece in halves(reply.thinking.text)]
    deltas += [{"content": piece} for piece in halves(reply.text)]
    for index, wish in enumerate(reply.calls):
        wire_id = f"call_{index}" if wish.wire_id is None else wish.wire_id
        function = {"name": wish.name, "arguments": ""}
        deltas.append(
            {"tool_calls": [{"index": index, "id": wire_id, "type": "function", "function": function}]}
        )
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in halves(wish.arguments)
        ]
    pieces = [chat_event(delta, None) for delta in deltas]
    if finished:
        stop = reply.stop or ("calls" if reply.calls else "stop")
        pieces.append(chat_event({}, {"stop": "stop", "calls": "tool_calls", "length": "length"}[stop]))
        if reply.usage != "unreported":
            usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
            pieces.append(event({**CHAT_HEAD, "choices": [], "usage": usage}))
        pieces.append(b"data: [DONE]\n\n")
    return tuple(pieces)


CHAT_HEAD: Json = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "played"}


def chat_event(delta: Json, finish_reason: str | None) -> bytes:
    return event({**CHAT_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def anthropic_pieces(reply: Reply, *, finished: bool = True) -> tuple[bytes, ...]:
    blocks: list[tuple[Json, list[Json]]] = []
    if reply.thinking is not None:
        deltas: list[Json] = [
            {"type": "thinking_delta", "thinking": piece} for piece in halves(reply.thinking.text)
        ]
        deltas += [{"type": "signature_delta", "signature": reply.thinking.opaque or "c2ln"}]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in halves(reply.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for index, wish in enumerate(reply.calls):
        wire_id = f"toolu_{index}" if wish.wire_id is None else wish.wire_id
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(wish.arguments)]
        blocks.append(({"type": "tool_use", "id": wire_id, "name": wish.name, "input": {}}, deltas))
    pieces = [event(anthropic_start(), "message_start")]
    for index, (start, deltas) in enumerate(blocks):
        begin = {"type": "content_block_start", "index": index, "content_block": start}
        pieces.append(event(begin, "content_block_start"))
        pieces += [
            event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            for delta in deltas
        ]
        pieces.append(event({"type": "content_block_stop", "index": index}, "content_block_stop"))
    if finished:
        stop = reply.stop or ("calls" if reply.calls else "stop")
        reason = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens"}[stop]
        end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}
        pieces += [event(end, "message_delta"), event({"type": "message_stop"}, "message_stop")]
    return tuple(pieces)


def anthropic_start() -> Json:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1_000,
        "output_tokens": 1,
    }
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-opus-4-6",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message}

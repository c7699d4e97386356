"""The door: every request passes the guard, and whatever goes wrong leaves as an answer in JSON.

What a request failed of is told to its client in one sentence, never with a traceback. What nobody
foresaw is also written to this process's log.
"""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pi_actors.core.errors import PiActorsError
from pi_actors.server.answers import SECURITY_HEADERS, refusal_answer
from pi_actors.server.connections import Connection, connection_of
from pi_actors.server.guard import Guard
from pi_actors.server.page_files import PageFile, file_answer
from pi_actors.server.refusals import Refused, refusal_of

LOG: Final = logging.getLogger("pi_actors.server")

HEAD_BYTES_MAX: Final = 16 * 1024

UNREAD_SECONDS_MAX: Final = 2
"""For so long a body that nobody wants is read all the same, so that its sender gets the answer."""


class Door:
    """The whole application: the page for everybody, the sessions for who may see them."""

    def __init__(self, guard: Guard, files: Mapping[str, PageFile], routes: list[BaseRoute]) -> None:
        self._guard = guard
        self._files = files
        self._inside = Starlette(routes=routes, exception_handlers=_HANDLERS)
        self._inside.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        # Names in a path may hold a slash, so it is taken apart before it is decoded.
        scope = {**scope, "path": scope["raw_path"].decode("ascii")}
        connection = connection_of(scope)
        exchange = _Exchange(connection, receive, send)
        with connection.answering():
            try:
                await self._chosen(scope)(scope, exchange.receive, exchange.send)
            except Exception:  # whatever it is, it must not end other clients' connections
                LOG.exception("%s %s failed", scope["method"], scope["path"])
            finally:
                exchange.end()

    def _chosen(self, scope: Scope) -> ASGIApp:
        """What answers: a file, a refusal, or what is inside."""
        request = Request(scope)
        try:
            if scope["http_version"] not in ("1.0", "1.1"):
                raise Refused(505, "not_http_1", "this server speaks HTTP/1.1")
            if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_BYTES_MAX:
                raise Refused(431, "head_too_large", f"the headers take more than {HEAD_BYTES_MAX} bytes")
            self._guard.check_origin(request.headers)
            file = file_answer(request, self._files) if request.method in ("GET", "HEAD") else None
            if file is None:
                self._guard.check_token(request.headers)
        except Refused as refused:
            return refusal_answer(refused)
        return self._inside if file is None else file


class _Exchange:
    """One request and its answer: adds what every answer has, and leaves no body unread."""

    def __init__(self, connection: Connection, receive: Receive, send: Send) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self._unread = True

    async def receive(self) -> Message:
        message = await self._receive()
        if not (message["type"] == "http.request" and message.get("more_body")):
            self._unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._read_the_rest()
            message = {**message, "headers": self._with_security(message.get("headers", ()))}
        elif self._unread:
            # An ordinary end would wait for the body; the connection is cut instead.
            message = {**message, "more_body": True}
        await self._send(message)

    def end(self) -> None:
        """Let go of a client that is still sending what nobody wants."""
        if self._unread:
            self._connection.cut()

    async def _read_the_rest(self) -> None:
        with trio.move_on_after(UNREAD_SECONDS_MAX):
            while self._unread:
                await self.receive()

    def _with_security(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        given = {name.lower() for name, _ in headers}
        ours = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
        closing = [(b"connection", b"close")] if self._unread else []
        return [*headers, *(header for header in ours if header[0] not in given), *closing]


async def _refused(_: Request, error: Exception) -> Response:
    await trio.lowlevel.checkpoint()
    assert isinstance(error, Refused), error
    return refusal_answer(error)


async def _failed(_: Request, error: Exception) -> Response:
    await trio.lowlevel.checkpoint()
    assert isinstance(error, PiActorsError), error
    return refusal_answer(refusal_of(error))


async def _not_routed(request: Request, error: Exception) -> Response:
    """No such path, or not with this method."""
    await trio.lowlevel.checkpoint()
    assert isinstance(error, HTTPException), error
    code = HTTPStatus(error.status_code).name.lower()
    message = f"{request.method} {request.url.path[:200]}: {HTTPStatus(error.status_code).phrase.lower()}"
    return refusal_answer(Refused(error.status_code, code, message, error.headers))


async def _not_foreseen(_: Request, __: Exception) -> Response:
    """The error itself goes on to whoever logs it."""
    await trio.lowlevel.checkpoint()
    return refusal_answer(Refused(500, "internal", "the server failed at this; its own log says why"))


_HANDLERS: Final = {
    Refused: _refused,
    PiActorsError: _failed,
    HTTPException: _not_routed,
    Exception: _not_foreseen,
}

"""Watching an agent over the network: a view that reconnects by itself and misses nothing.

It asks a server of ``pi_actors.server`` for the frames after the last position that it has seen. Where
those are too many, or no more to be had, the server sends a snapshot instead, and the view goes on
from that.
"""

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
import trio

from pi_actors.core.errors import NotFound, NotSupported, PiActorsError
from pi_actors.core.ids import ROOT, ActorId, SessionId
from projections.fold import Document
from projections.frames import Frame, FrameDoesNotFit, apply_frame
from projections.pacing import Feed, View

if TYPE_CHECKING:
    import httpx

CONNECT_S: Final = 10.0
SILENCE_S: Final = 45.0
"""A server says something every 15 s; one that says nothing for this long is given up and asked anew."""

PAUSE_MIN_S: Final = 0.1
PAUSE_MAX_S: Final = 10.0


class AttachFailed(PiActorsError):
    """The server cannot be reached, or refuses; the message says why and what to do."""


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of a session on a server. ``base`` has no slash at its end."""

    base: str
    session: SessionId = "main"
    agent: ActorId = ROOT

    @property
    def session_url(self) -> str:
        """Where the session is."""
        return f"{self.base}/sessions/{quote(self.session, safe='')}"

    @property
    def agent_url(self) -> str:
        """Where the agent is."""
        return f"{self.session_url}/agents/{self.agent}"


@asynccontextmanager
async def attach(url: str, *, token: str | None = None, agent: ActorId = ROOT) -> AsyncGenerator[View]:
    """A view of an agent on a server, for the time of the body.

    *url*: the server's (then it is the session "main"), or that of a session or an agent on it, such as
    ``http://127.0.0.1:8765/sessions/work/agents/1``.

    A connection that breaks, or a server that restarts, is no error: the view reconnects and goes on
    where it was. At equal positions it has the same values as every other view of the agent.

    Raises:
        AttachFailed: the server cannot be reached in the beginning, or refuses. Raised from the iteration
            where a server that was reached refuses later, or has another session under that name now.
        NotFound: the server has no such session, or the session has no such agent (yet).
        NotSupported: *url* is no address of a server, or what this needs is not installed.
    """
    remote = remote_of(url, agent)
    async with client_for(remote, token) as client, _Reading(_Reader(client, remote)) as feed:
        view = View(feed)
        try:
            yield view
        finally:
            view.end()


def remote_of(url: str, agent: ActorId = ROOT) -> Remote:
    """What *url* names; *agent* where it names none. Raises NotSupported where it is no such address."""
    parts = urlsplit(url)
    match [unquote(step) for step in parts.path.split("/") if step]:
        case []:
            session = "main"
        case ["sessions", session]:
            pass
        case ["sessions", session, "agents", str(number)] if number.isdecimal():
            agent = int(number)
        case _:
            session = ""
    if parts.scheme not in ("http", "https") or not parts.netloc or not session:
        raise NotSupported(
            f"{url!r} is no address of a server; write http://HOST:PORT, or http://HOST:PORT/sessions/NAME"
        )
    return Remote(base=f"{parts.scheme}://{parts.netloc}", session=session, agent=agent)


def client_for(remote: Remote, token: str | None) -> "httpx.AsyncClient":
    """An HTTP client for what is below *remote*'s base. Raises NotSupported where none is installed."""
    try:
        import httpx
    except ImportError:
        raise NotSupported("this needs the client libraries: pip install 'pi-actors[server]'") from None
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    nearby = urlsplit(remote.base).hostname in ("localhost", "127.0.0.1", "::1")
    timeout = httpx.Timeout(CONNECT_S, read=SILENCE_S)
    return httpx.AsyncClient(headers=headers, timeout=timeout, trust_env=not nearby)


def refused(remote: Remote, response: "httpx.Response") -> PiActorsError:
    """Why the server refuses, from an answer that was read to its end."""
    try:
        told = msgspec.json.decode(response.content, type=_Told).error.message
    except msgspec.DecodeError:
        told = f"it answered {response.status_code} {response.reason_phrase}"
    if response.status_code == 404:
        return NotFound(f"{remote.base}: {told}")
    return AttachFailed(f"{remote.base} refuses: {told}")


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that says why there is none."""

    error: _Error


class _Interrupted(Exception):
    """The stream of frames has ended, for a reason that passes."""


class _Reader:
    """Reads frames, connecting as often as it takes, and publishes them."""

    def __init__(self, client: "httpx.AsyncClient", remote: Remote) -> None:
        self._client = client
        self._remote = remote
        self._feed: Feed | None = None
        self._now: Frame | None = None
        self._session_uuid = ""
        self._pause_s = PAUSE_MIN_S

    async def run(self, task_status: trio.TaskStatus[Feed]) -> None:
        """Read until cancelled, or until the server refuses. Started means: there is a first value."""
        while True:
            try:
                await self._read_stream(task_status)
            except _Interrupted as interrupted:
                if self._feed is None:
                    raise AttachFailed(f"{self._remote.base} cannot be reached: {interrupted}") from None
            except FrameDoesNotFit:
                self._now = None  # the next stream begins with a snapshot
            except PiActorsError as error:
                if self._feed is None:
                    raise
                self._feed.finish(error)
                return
            await trio.sleep(self._pause_s * (0.5 + random.random() / 2))  # noqa: S311 - spreads the load
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    async def _read_stream(self, task_status: trio.TaskStatus[Feed]) -> None:
        """Read one stream of frames to its end, which is always an interruption.

        Raises:
            AttachFailed, NotFound: the server refuses.
            FrameDoesNotFit: a frame was lost or came twice.
        """
        import httpx

        request = self._client.build_request("GET", f"{self._remote.agent_url}/events", params=self._known())
        try:
            response = await self._client.send(request, stream=True)
            async with aclosing(response):
                await self._check(response)
                await self._take_all(response, task_status)
        except (httpx.TransportError, httpx.DecodingError, msgspec.DecodeError) as error:
            raise _Interrupted(str(error) or type(error).__name__) from None
        raise _Interrupted("the server ended the stream")

    async def _take_all(self, response: "httpx.Response", task_status: trio.TaskStatus[Feed]) -> None:
        """Take the frames of one stream to its end, or to the first that cannot be taken.

        The client's generators are never left half read, which trio would complain of: they are
        cancelled instead, so that each of them ends.
        """
        from httpx_sse import EventSource

        problem: PiActorsError | msgspec.DecodeError | None = None
        with trio.CancelScope() as reading:
            async with aclosing(EventSource(response).aiter_sse()) as events:
                async for event in events:
                    if problem is not None or event.event != "message" or not event.data:
                        continue
                    try:
                        self._take(msgspec.json.decode(event.data, type=Frame), task_status)
                    except (PiActorsError, msgspec.DecodeError) as error:
                        problem = error
                        reading.cancel()
        if problem is not None:
            raise problem

    def _known(self) -> dict[str, str]:
        """Up to where, and of which session, all was seen."""
        if self._now is None:
            return {}
        return {"after": str(self._now.position), "uuid": self._session_uuid}

    async def _check(self, response: "httpx.Response") -> None:
        if response.status_code == 200:
            return
        await response.aread()
        if response.status_code >= 500 or response.status_code in (408, 429):
            raise _Interrupted(str(refused(self._remote, response)))
        raise refused(self._remote, response)

    def _take(self, frame: Frame, task_status: trio.TaskStatus[Feed]) -> None:
        before = self._now
        if frame.snapshot is None and (before is None or frame.position <= before.position):
            raise FrameDoesNotFit(f"a frame of position {frame.position} came twice, or without a value")
        value = apply_frame({} if before is None or before.snapshot is None else before.snapshot, frame)
        now = Frame(position=frame.position, at=frame.at, snapshot=value)
        self._pause_s = PAUSE_MIN_S
        if self._feed is None:
            self._feed, self._session_uuid = Feed(now), value["agent"]["session_uuid"]
            task_status.started(self._feed)
        else:
            self._require_same(value, frame, self._feed)
            self._feed.publish([frame], now)
        self._now = now

    def _require_same(self, value: Document, frame: Frame, feed: Feed) -> None:
        """The view goes on with the session that it began with.

        Raises:
            AttachFailed: there is another one now, or an older copy of it.
        """
        if value["agent"]["session_uuid"] != self._session_uuid or frame.position < feed.backlog.now.position:
            raise AttachFailed(
                f"{self._remote.session_url} is not the session that was watched up to position "
                f"{feed.backlog.now.position}: its store was replaced. Attach again to see the new one."
            )


class _Reading:
    """Runs a reader beside the body of ``async with``, and cancels it after that.

    The nursery never sees what the body raises, so that leaves as it is and in no group.
    """

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._manager = trio.open_nursery()
        self._scope = trio.CancelScope()

    async def __aenter__(self) -> Feed:
        nursery = await self._manager.__aenter__()
        self._scope = nursery.cancel_scope
        feed: Feed | None = None
        try:
            feed = await nursery.start(self._reader.run)
        finally:
            if feed is None:
                await self._end()
        assert feed is not None, "a reader that has started has a feed"
        return feed

    async def __aexit__(self, *_raised: object) -> None:
        await self._end()

    async def _end(self) -> None:
        self._scope.cancel()
        await self._manager.__aexit__(None, None, None)

"""The routes, and what each of them reads.

GET   /sessions                                    {"sessions": [...]}
GET   /sessions/{session}/agents/{agent}/view      {"position", "at", "value"}
GET   /sessions/{session}/agents/{agent}/events    frames, as server-sent events
GET   /sessions/{session}/agents/{agent}/replay    ?to=N: {"position", "at", "value", "tree"}
POST  /sessions/{session}/agents/{agent}/submit    and steer, withdraw, abort, compact: see ``commands``
GET   /sessions/{session}/tree                     {"position", "at", "tree"}
GET   /sessions/{session}/tree/events              the same each time it changes
GET   /sessions/{session}/positions                ?after=N&limit=M: {"positions", "next", "end"}

``tree`` and ``positions`` may also be asked for below an agent: its subtree, the same positions.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias
from urllib.parse import unquote

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from pi_actors.core.ids import ROOT, ActorId, Position
from pi_actors.server.answers import JSON_TYPE, json_answer, number_of, whole_number
from pi_actors.server.commands import Commands
from pi_actors.server.connections import connection_of
from pi_actors.server.event_stream import EventStream, Watcher
from pi_actors.server.feed import Feed, Feeds
from pi_actors.server.history import History
from pi_actors.server.refusals import Refused
from pi_actors.server.served import Served, Sessions
from pi_actors.server.timeline import PAGE_MAX, positions_page
from pi_actors.server.trees import tree_of
from pi_actors.server.watchers import FrameWatcher, TreeWatcher
from projections.fold import iso
from projections.session import FoldedState
from projections.view import value_with

SessionRoute: TypeAlias = Callable[[Request, Served], Awaitable[ASGIApp]]
AgentRoute: TypeAlias = Callable[[Request, Served, ActorId], Awaitable[ASGIApp]]


class Routes:
    """What is served of *sessions*."""

    def __init__(self, sessions: Sessions, history: History) -> None:
        self._sessions = sessions
        self._history = history
        self._feeds = Feeds(history)
        self._commands = Commands()
        self._viewers = 0

    def all(self) -> list[BaseRoute]:
        """Every route."""
        session, agent = "/sessions/{session}", "/sessions/{session}/agents/{agent}"
        reads: dict[str, AgentRoute] = {
            "view": self._view,
            "events": self._events,
            "replay": self._replay,
            "tree": self._subtree,
            "positions": self._positions,
        }
        commands: dict[str, AgentRoute] = {
            "submit": self._commands.submit,
            "steer": self._commands.steer,
            "withdraw": self._commands.withdraw,
            "abort": self._commands.abort,
            "compact": self._commands.compact,
        }
        return [
            Route("/sessions", self._listed),
            Route(f"{session}/tree", self._of_session(self._tree)),
            Route(f"{session}/tree/events", self._of_session(self._tree_events)),
            Route(f"{session}/positions", self._of_session(self._positions)),
            *(Route(f"{agent}/{name}", self._of_agent(read)) for name, read in reads.items()),
            *(
                Route(f"{agent}/{name}", self._of_agent(command), methods=["POST"])
                for name, command in commands.items()
            ),
        ]

    # What each of them answers.

    async def _listed(self, _: Request) -> Response:
        return json_answer({"sessions": await self._sessions.listed()})

    async def _view(self, _: Request, served: Served, agent: ActorId) -> Response:
        async with self._feeds.watching(served, None) as feed:
            state = await feed.state()
        return Response(await served.read(partial(_view_json, served, state, agent)), media_type=JSON_TYPE)

    async def _replay(self, request: Request, served: Served, agent: ActorId) -> Response:
        end = await served.news.position()
        to = number_of(request, "to", end)
        state = await self._history.state_at(served, min(to, end))
        return Response(
            await served.read(partial(_view_json, served, state, agent, tree=True)), media_type=JSON_TYPE
        )

    async def _events(self, request: Request, served: Served, agent: ActorId) -> ASGIApp:
        after, uuid = _last_seen(request), request.query_params.get("uuid")
        await trio.lowlevel.checkpoint()
        return EventStream(self._frames(request, served, agent, after, uuid))

    async def _tree(self, _: Request, served: Served) -> Response:
        async with self._feeds.watching(served, None) as feed:
            return json_answer(await tree_of(served, feed))

    async def _subtree(self, _: Request, served: Served, agent: ActorId) -> Response:
        async with self._feeds.watching(served, None) as feed:
            return json_answer(await tree_of(served, feed, agent))

    async def _tree_events(self, request: Request, served: Served) -> ASGIApp:
        await trio.lowlevel.checkpoint()
        return EventStream(self._trees(request, served))

    async def _positions(self, request: Request, served: Served, _: ActorId = ROOT) -> Response:
        end = await served.news.position()
        after, limit = number_of(request, "after", 0), number_of(request, "limit", PAGE_MAX)
        page = partial(positions_page, served, end, after=after, limit=max(1, min(limit, PAGE_MAX)))
        return json_answer(await served.read(page))

    # Who watches.

    @asynccontextmanager
    async def _frames(
        self, request: Request, served: Served, agent: ActorId, after: Position | None, uuid: str | None
    ) -> AsyncGenerator[Watcher]:
        async with self._feed(request, served, agent) as feed:
            yield FrameWatcher(served, feed, agent, after, uuid)

    @asynccontextmanager
    async def _trees(self, request: Request, served: Served) -> AsyncGenerator[Watcher]:
        async with self._feed(request, served, None) as feed:
            yield TreeWatcher(served, feed)

    @asynccontextmanager
    async def _feed(self, request: Request, served: Served, agent: ActorId | None) -> AsyncGenerator[Feed]:
        """The session's feed for one more viewer.

        Raises:
            Refused: there are too many viewers.
        """
        most = connection_of(request.scope).limits.viewers
        if self._viewers >= most:
            raise Refused(503, "too_many_viewers", f"{most} viewers watch already; try again later")
        self._viewers += 1
        try:
            async with self._feeds.watching(served, agent) as feed:
                yield feed
        finally:
            self._viewers -= 1

    # From the path to what it names.

    def _of_session(self, answer: SessionRoute) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def route(request: Request) -> ASGIApp:
            return await answer(request, await self._served(request))

        return route

    def _of_agent(self, answer: AgentRoute) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def route(request: Request) -> ASGIApp:
            served = await self._served(request)
            return await answer(request, served, _agent_of(request))

        return route

    async def _served(self, request: Request) -> Served:
        return await self._sessions.find(unquote(request.path_params["session"]))


def _agent_of(request: Request) -> ActorId:
    """The agent in the path. Raises Refused where that is no id at all."""
    agent = whole_number(request.path_params["agent"])
    if agent is None:
        raise Refused(404, "not_found", "an agent's id is a whole number; the root agent is 1")
    return agent


def _last_seen(request: Request) -> Position | None:
    """Up to where the client has seen all: what it says itself on reconnecting, else what its URL says."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is None:
        return None
    position = whole_number(given)
    if position is None:
        raise Refused(400, "bad_parameter", "after and Last-Event-ID must be a position: a whole number")
    return position


def _view_json(served: Served, state: FoldedState, agent: ActorId, *, tree: bool = False) -> bytes:
    value = value_with(state, agent, served.entries(state, agent))
    shown = {"position": state.position, "at": iso(state.at_us), "value": value}
    return msgspec.json.encode({**shown, "tree": state.tree()} if tree else shown)

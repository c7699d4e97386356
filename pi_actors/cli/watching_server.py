"""An agent and the tree around it, watched on a server: the view as it changes, the tree now and then."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import httpx
import msgspec
import trio

from pi_actors.cli.watching import Seen, Watched
from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import Position
from pi_actors.runtime.scopes import background
from projections import AttachFailed, View, attach
from projections.attach import Remote, client_for, refused
from projections.tree import ActorNode

ASK_EVERY_S: Final = 0.5
"""How often a server is asked for the tree."""


class _TreeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    position: Position
    at: str
    tree: tuple[ActorNode, ...]


@asynccontextmanager
async def watch_server(remote: Remote, token: str | None, *, whole: bool) -> AsyncGenerator[Watched]:
    """Watch an agent on a server and what is below it, or the *whole* tree, for the time of the body.

    Raises:
        AttachFailed, NotFound: the server cannot be reached, or refuses.
    """
    watched = Watched(remote.session_url)
    async with client_for(remote, token) as client:
        trees = _Trees(client, remote, watched, whole=whole)
        await trees.begin()
        if whole:
            trees.show()
            async with background(trees.run):
                yield watched
            return
        async with attach(remote.agent_url, token=token) as view:
            trees.view = view
            trees.show()
            async with background(trees.run, partial(_take_frames, view, trees)):
                yield watched


class _Trees:
    """Asks for the tree again and again, and shows it beside the view."""

    def __init__(self, client: httpx.AsyncClient, remote: Remote, watched: Watched, *, whole: bool) -> None:
        self.view: View | None = None
        self.watched = watched
        self._client = client
        self._remote = remote
        self._url = f"{remote.session_url if whole else remote.agent_url}/tree"
        self._answer: _TreeAnswer | None = None

    async def begin(self) -> None:
        try:
            await self._ask()
        except httpx.TransportError as error:
            raise AttachFailed(f"{self._remote.base} cannot be reached: {error}") from None

    async def run(self) -> None:
        while True:
            await trio.sleep(ASK_EVERY_S)
            try:
                await self._ask()
                self._tell(None)
            except httpx.TransportError:
                self._tell("the server cannot be reached; trying again")
            except PiActorsError as error:
                self._tell(str(error))
            self.show()

    def show(self) -> None:
        """Show what is known by now."""
        answer, view = self._answer, self.view
        assert answer is not None, "it begins with an answer"
        if view is None:
            self.watched.show(Seen(position=answer.position, at=answer.at, tree=answer.tree))
        else:
            self.watched.show(Seen(position=view.position, at=answer.at, tree=answer.tree, value=view.value))

    async def _ask(self) -> None:
        response = await self._client.get(self._url)
        if response.status_code != 200:
            raise refused(self._remote, response)
        self._answer = msgspec.json.decode(response.content, type=_TreeAnswer)

    def _tell(self, trouble: str | None) -> None:
        if trouble != self.watched.trouble:
            self.watched.trouble = trouble
            self.watched.wake()


async def _take_frames(view: View, trees: _Trees) -> None:
    try:
        async for _ in view:
            trees.show()
    except PiActorsError as error:
        trees.watched.fail(error)

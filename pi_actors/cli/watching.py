"""An agent and the tree around it, watched in a file or on a server; newest values only.

Whoever draws takes what is there when it is ready to draw, so nothing piles up.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final

import msgspec
import trio

from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import ROOT, ActorId, Position, SessionId
from pi_actors.runtime.scopes import background
from projections.attach import Remote, remote_of
from projections.fold import Document, iso
from projections.replay import Source, opened
from projections.session import FoldedState, fold_commit
from projections.tail import Tail
from projections.tree import ActorNode
from projections.view import Viewed

LOOK_EVERY_S: Final = 0.05


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A session as of a position. ``value``: the agent's view, None where only the tree is watched."""

    position: Position
    at: str
    tree: tuple[ActorNode, ...] = ()
    value: Document | None = None


class Watched:
    """What is known by now. ``trouble``: why it may be old, in words."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.trouble: str | None = None
        self._seen: Seen | None = None
        self._error: PiActorsError | None = None
        self._changed = trio.Event()

    @property
    def seen(self) -> Seen:
        """The newest."""
        assert self._seen is not None, "a watch begins with a first value"
        return self._seen

    def show(self, seen: Seen) -> None:
        """There is something newer."""
        if seen != self._seen:
            self._seen = seen
            self.wake()

    def fail(self, error: PiActorsError) -> None:
        """There will be nothing more."""
        self._error = error
        self.wake()

    def wake(self) -> None:
        """Something has changed."""
        self._changed.set()

    async def change(self) -> None:
        """Return when something has changed since the last call. Raises what has ended the watch."""
        await self._changed.wait()
        self._changed = trio.Event()
        if self._error is not None:
            raise self._error


def watching(
    where: str, session: SessionId | None, agent: ActorId | None, token: str | None
) -> AbstractAsyncContextManager[Watched]:
    """Watch *where*: a server's address, else a store's file. *agent* None: the tree only.

    Raises:
        NotFound, StoreUnreadable, AttachFailed, NotSupported: it cannot be watched.
    """
    if not is_address(where):
        return _in_file(where, session or "main", agent)
    from pi_actors.cli.watching_server import watch_server

    return watch_server(named_remote(where, session, agent or ROOT), token, whole=agent is None)


def named_remote(where: str, session: SessionId | None, agent: ActorId) -> Remote:
    """What *where* names, or *session* there. Raises NotSupported where it is no address."""
    remote = remote_of(where, agent)
    return remote if session is None else msgspec.structs.replace(remote, session=session)


def is_address(where: str) -> bool:
    """Whether *where* is a server's address, and no file."""
    return where.startswith(("http://", "https://"))


@asynccontextmanager
async def _in_file(store: str, session: SessionId, agent: ActorId | None) -> AsyncGenerator[Watched]:
    async with opened(store) as source:
        follower = _Follower(source, session, agent, Watched(f"{store}, session {session}"))
        await follower.begin()
        async with background(follower.run):
            yield follower.watched


class _Follower:
    """Folds a log on and on."""

    def __init__(self, source: Source, session: SessionId, agent: ActorId | None, watched: Watched) -> None:
        self.watched = watched
        self._source = source
        self._session = session
        self._tail: Tail | None = None
        self._agent = agent
        self._viewed: Viewed | None = None
        self._state: FoldedState | None = None

    async def begin(self) -> None:
        self._state, self._tail = await self._source.current(self._session)
        if self._agent is not None:
            self._viewed = await self._source.call(partial(self._view, self._state, self._agent))
        self._show(self._state)

    async def run(self) -> None:
        while True:
            try:
                state = await self._source.call(self._advance)
            except PiActorsError as error:
                self.watched.fail(error)
                return
            if state is None:
                await trio.sleep(LOOK_EVERY_S)
            else:
                self._show(state)

    def _view(self, state: FoldedState, agent: ActorId) -> Viewed:
        return Viewed(state, agent, self._source.entries(self._session, state.entry_ids(agent)))

    def _advance(self) -> FoldedState | None:
        """The state after the next page, None where there is none yet."""
        assert self._tail is not None, "it begins with a state"
        assert self._state is not None, "it begins with a state"
        commits = self._tail.read()
        for commit in commits:
            self._state = fold_commit(self._state, commit)
            if self._viewed is not None:
                self._viewed.show(self._state, commit)
        return self._state if commits else None

    def _show(self, state: FoldedState) -> None:
        value = None if self._viewed is None else self._viewed.value
        tree = tuple(state.tree())
        self.watched.show(Seen(position=state.position, at=iso(state.at_us), tree=tree, value=value))

"""Following a session's log from any process, without a server, owning and changing nothing.

A follower looks at the session's head many times a second and reads on where it has moved. Each look
and each page is a short transaction on a connection of its own, so that a follower that stops, is
stuck or is killed never keeps the store from being checkpointed, and leaves no file behind.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import ROOT, ActorId, SessionId
from projections.frames import Frame
from projections.pacing import Feed, View
from projections.replay import OpenStore, Source, opened
from projections.tail import Tail
from projections.view import Viewed

LOOK_EVERY_S: Final = 0.05


@asynccontextmanager
async def follow(
    store: str | Path | OpenStore, session_id: SessionId = "main", *, agent: ActorId = ROOT
) -> AsyncGenerator[View]:
    """A view of an agent from the log in *store*, for the time of the body.

    It shows what is stored, about 50 ms later, with the same values at the same positions as a view
    of the open session; nobody needs to have the session open. Its iteration does not end by itself:
    the session may be opened again at any time.

    Progress that was scavenged before it was read leaves out the positions that cannot be shown any
    more; a frame with a snapshot goes on after them.

    Raises:
        NotFound: the store has no such session, or the session has no such agent (yet).
        NotSupported: a store that only its own process can read, or a kind that is not built yet.
        StoreUnreadable: the store cannot be opened; the message says what is missing.
        LogCorrupt: a row is damaged. As for the rest, what goes wrong later is raised from the iteration:
            also StoreError where the store was removed, or replaced by another.
    """
    async with opened(store) as source:
        state, tail = await source.current(session_id)
        entries = await source.call(partial(source.entries, session_id, state.entry_ids(agent)))
        followed = _Followed(tail, Viewed(state, agent, entries))
        feed = Feed(followed.viewed.snapshot())
        view = View(feed)
        try:
            async with _Beside(partial(_read_on, source, followed, feed)):
                yield view
        finally:
            view.end()


async def _read_on(source: Source, followed: "_Followed", feed: Feed) -> None:
    """Publish what is stored as soon as it is seen, until cancelled or until that fails."""
    viewed = followed.viewed
    while True:
        before = viewed.position
        try:
            frames = await source.call(followed.advance)
        except PiActorsError as error:
            feed.finish(error)
            return
        if viewed.position == before:
            await trio.sleep(LOOK_EVERY_S)
        elif followed.is_exact:
            feed.publish(frames, viewed.snapshot())


class _Followed:
    """A view that goes on with a tail. ``is_exact``: its value is the one that belongs to its position."""

    def __init__(self, tail: Tail, viewed: Viewed) -> None:
        self.viewed = viewed
        self.is_exact = True
        self._tail = tail

    def advance(self) -> list[Frame]:
        """Read the next page; the frames of its commits, of those that can be shown."""
        frames: list[Frame] = []
        for commit in self._tail.read():
            frame, was_exact = self.viewed.advance(commit), self.is_exact
            self.is_exact = self.viewed.position >= self._tail.exact_from
            if self.is_exact and not was_exact:
                frame = self.viewed.snapshot()
            if self.is_exact and frame is not None:
                frames.append(frame)
        return frames


class _Beside:
    """Runs a task beside the body of ``async with``, and cancels it after that.

    The nursery never sees what the body raises, so that leaves as it is and in no group.
    """

    def __init__(self, task: Callable[[], Awaitable[None]]) -> None:
        self._task = task
        self._manager = trio.open_nursery()
        self._scope = trio.CancelScope()

    async def __aenter__(self) -> None:
        nursery = await self._manager.__aenter__()
        self._scope = nursery.cancel_scope
        nursery.start_soon(self._task)

    async def __aexit__(self, *_raised: object) -> None:
        self._scope.cancel()
        await self._manager.__aexit__(None, None, None)

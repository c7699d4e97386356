"""What viewers of a session are sent: folded, compared and encoded once for all who watch.

A feed is pulled: whoever wants to know goes on reading the log, for all. A viewer holds nothing but
the position that it has reached, so one that is slow or stuck costs neither memory nor the writer's
time; when it comes back it gets the frames it missed, or a snapshot where those are too many. The
last viewer takes the feed with it.
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import trio

from pi_actors.core.errors import StoreError
from pi_actors.core.ids import ActorId, Position
from pi_actors.server.history import History
from pi_actors.server.kept_frames import Batch, KeptFrames
from pi_actors.server.served import Served
from projections.session import EMPTY, FoldedState, fold_commit
from projections.tail import Tail


class Feeds:
    """The feeds of a server, one for each session that is watched."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._feeds: dict[Served, Feed] = {}

    @asynccontextmanager
    async def watching(self, served: Served, agent: ActorId | None) -> AsyncGenerator["Feed"]:
        """The session's feed, for one who watches *agent* (None: the whole) for the time of the body."""
        feed = self._feeds.get(served)
        if feed is None or feed.failed:
            feed = self._feeds[served] = Feed(served, self._history)
        feed.watchers[agent] += 1
        try:
            yield feed
        finally:
            feed.watchers[agent] -= 1
            feed.forget_unwatched()
            if not feed.watchers and self._feeds.get(served) is feed:
                del self._feeds[served]


class Feed:
    """One session as its viewers see it.

    ``watchers``: how many watch each agent. ``read_to``: how far the log was read. ``failed``: it could
    not be read on; who comes next begins with a feed of its own.
    """

    def __init__(self, served: Served, history: History) -> None:
        self.watchers: Counter[ActorId | None] = Counter()
        self.read_to: Position = 0
        self.failed = False
        self._served = served
        self._history = history
        self._lock = trio.Lock()
        self._state = EMPTY
        self._tail: Tail | None = None
        self._agents: dict[ActorId, KeptFrames] = {}

    async def next(
        self,
        agent: ActorId,
        after: Position | None,
        *,
        uuid: str | None = None,
        read_to: Position | None = None,
    ) -> Batch:
        """What a viewer of *agent* is sent that has seen all up to *after* (None: nothing).

        *uuid*: of the session that it has seen; of another session nothing can be continued.
        *read_to*: as far as the feed had read when the viewer last asked. Of all viewers that a
        commit wakes only the first then looks at the log.

        Raises:
            NotFound: the session has no such agent.
            StoreError, SessionFailed, SessionClosed: there is nothing more to see.
        """
        async with self._lock:
            if read_to is None or self.read_to <= read_to:
                await self._catch_up(after)
            if uuid is not None and uuid != self._state.uuid:
                after = None
            frames = self._agents.get(agent)
            if frames is None:
                frames = await self._served.read(partial(_kept, self._served, self._state, agent))
                self._agents[agent] = frames
            if after is not None and frames.lost_to <= after < frames.floor:
                await self._reach_back(frames, after)
            if frames.continues(after):
                return frames.since(after)
            return await self._served.read(partial(frames.since, None))

    async def state(self) -> FoldedState:
        """Everything folded, as of now. Raises as ``next``."""
        async with self._lock:
            await self._catch_up(None)
            return self._state

    def forget_unwatched(self) -> None:
        """Give up what is kept for agents that nobody watches any more."""
        self.watchers = +self.watchers
        for agent in self._agents.keys() - self.watchers.keys():
            del self._agents[agent]

    async def _catch_up(self, after: Position | None) -> None:
        """Fold what may be shown by now. A beginning folds up to *after* first, as that is needed next.

        Progress may be scavenged while it is read. What cannot be shown then is passed over: there
        always is a later commit by now that can.
        """
        while await self._read_on(after):
            pass

    async def _read_on(self, after: Position | None) -> bool:
        """Fold what is new, and return whether there must be more before anything can be shown."""
        end = await self._served.news.position()
        if self._tail is None:
            if after is not None and after < end:
                await self._history.state_at(self._served, after)
            self._state, self._tail = await self._history.folded(self._served, end)
            self.read_to = end
        try:
            while self.read_to < end and await self._served.read(partial(self._advance, self._tail, end)):
                pass
        except StoreError:
            self.failed = True
            raise
        self.read_to = end
        return self._state.position < self._tail.exact_from

    def _advance(self, tail: Tail, end: Position) -> bool:
        """Fold the next page, if there is one. In a thread, with the lock held."""
        commits = tail.read(to=end)
        for commit in commits:
            self._state = fold_commit(self._state, commit)
            is_exact = self._state.position >= tail.exact_from
            for frames in tuple(self._agents.values()):
                frames.show(self._state, commit, is_exact=is_exact)
        return bool(commits)

    async def _reach_back(self, frames: KeptFrames, after: Position) -> None:
        """Find the frames between *after* and the oldest that is kept, unless they are too many."""
        head = await self._served.read(partial(self._served.log.head, self._served.session_id))
        if head is None or after < head.scavenged_to:
            return
        start, tail = await self._history.folded(self._served, after)
        if frames.agent in start.folds and start.position >= tail.exact_from:
            await self._served.read(partial(_reach_back, self._served, frames, start, tail))


def _kept(served: Served, state: FoldedState, agent: ActorId) -> KeptFrames:
    """The agent's view from *state* on. Blocks."""
    return KeptFrames(state, agent, served.entries(state, agent))


def _reach_back(served: Served, frames: KeptFrames, start: FoldedState, tail: Tail) -> None:
    """Find the frames from *start* on. Blocks."""
    frames.reach_back(_kept(served, start, frames.agent), tail)

"""The views of an open session's agents: one feed for each agent that somebody looks at."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from pi_actors.core.errors import SessionFailed
from pi_actors.core.ids import ActorId
from pi_actors.core.messages import Entry
from pi_actors.core.record import Commit
from pi_actors.runtime.live import LiveSession
from pi_actors.session.folded import FoldedSession
from projections.pacing import Feed, View
from projections.session import FoldedState
from projections.view import Viewed


class Views:
    """Feeds of the acknowledged commits, made for an agent's first viewer and given up with the last."""

    def __init__(self, live: LiveSession, folded: FoldedSession) -> None:
        self._live = live
        self._folded = folded
        self._watched: dict[ActorId, _Watched] = {}
        self._lock = trio.Lock()
        live.waits.at_end(self._finish)

    @asynccontextmanager
    async def view(self, agent: ActorId) -> AsyncGenerator[View]:
        """A view of the agent for the time of the body."""
        watched = await self._join(agent)
        view = View(watched.feed)
        try:
            self._live.line.check_open()
            yield view
        finally:
            view.end()
            self._leave(agent)

    async def _join(self, agent: ActorId) -> "_Watched":
        async with self._lock:
            watched = self._watched.get(agent)
            if watched is None:
                watched = await self._folded.follow(agent, partial(_Watched, agent))
                self._watched[agent] = watched
            watched.viewers += 1
        return watched

    def _leave(self, agent: ActorId) -> None:
        watched = self._watched[agent]
        watched.viewers -= 1
        if watched.viewers == 0:
            del self._watched[agent]
            self._folded.leave(watched)

    def _finish(self) -> None:
        """The session is over; views keep their last value."""
        try:
            self._live.line.check_not_failed()
            error = None
        except SessionFailed as failed:
            error = failed
        for watched in self._watched.values():
            watched.feed.finish(error)


class _Watched:
    """An agent that somebody looks at."""

    def __init__(self, agent: ActorId, state: FoldedState, entries: Sequence[Entry]) -> None:
        """Raises NotFound where there is no such agent."""
        self.viewers = 0
        self._viewed = Viewed(state, agent, entries)
        self.feed = Feed(self._viewed.snapshot())

    def show(self, state: FoldedState, commit: Commit) -> None:
        frame = self._viewed.show(state, commit)
        self.feed.publish([] if frame is None else [frame], self._viewed.snapshot())

"""The acknowledged commits of an open session on their way to a screen.

A screen may be slow, so commits wait here and are shown in a thread: the session never waits.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import trio

from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState
from pi_actors.runtime.scopes import background
from pi_actors.session import Session

Show: TypeAlias = Callable[[Commit], None]
"""Shows one commit. Runs in a thread, one commit at a time, and may block."""


class Feed:
    """What was acknowledged and is not shown yet."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._waiting: list[Commit] = []
        self._arrived = trio.Event()
        self._lock = trio.Lock()
        self._limiter = trio.CapacityLimiter(1)

    def take(self, commit: Commit, _: SessionState) -> None:
        """Take a commit; the session calls this as soon as it is acknowledged. Never blocks."""
        self._waiting.append(commit)
        self._arrived.set()

    async def show_all(self) -> None:
        """Return once all that was acknowledged before the call is shown. Raises what showing raises."""
        async with self._lock:
            commits, self._waiting = self._waiting, []
            if commits:
                await trio.to_thread.run_sync(self._show_each, commits, limiter=self._limiter)

    async def run(self) -> None:
        """Show commits as they come, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = trio.Event()
            await self.show_all()

    def _show_each(self, commits: list[Commit]) -> None:
        for commit in commits:
            self._show(commit)


@asynccontextmanager
async def showing(session: Session, show: Show) -> AsyncGenerator[Feed]:
    """Show the session's commits from now on, for the time of the body and to its end.

    Open the session with ``resume=False`` and resume it in the body, and nothing is missed.
    """
    feed = Feed(show)
    stop_listening = session.live.line.listen(feed.take)
    try:
        async with background(feed.run):
            yield feed
            await feed.show_all()
    finally:
        stop_listening()

"""The read side's folds beside an open session: made when first asked for, then kept up."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState as CoreState
from pi_actors.runtime.live import LiveSession
from projections.replay import replay
from projections.session import SessionState, fold_commit


class Follower(Protocol):
    """Someone who is shown every state."""

    def show(self, state: SessionState) -> None:
        """Called with the state after each commit. Never blocks."""
        ...


F = TypeVar("F", bound=Follower)


class FoldedSession:
    """Starts from the log at the first ask, then follows the acknowledged commits.

    Once somebody has asked for the state it is kept; until then, only while there are followers.
    """

    def __init__(self, live: LiveSession) -> None:
        self._live = live
        self._state: SessionState | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._followers: list[Follower] = []
        self._asked = False
        self._lock = trio.Lock()

    async def current(self) -> SessionState:
        """The folds' state at the session's shown position."""
        async with self._lock:
            state = await self._started()
            self._asked = True
        return state

    async def follow(self, begin: Callable[[SessionState], F]) -> F:
        """Show every state to come to what *begin* makes of the state as of now.

        What *begin* raises is raised, and nobody follows.
        """
        async with self._lock:
            state = await self._started()
            try:
                follower = begin(state)
                self._followers.append(follower)
            finally:
                self._give_up_unless_needed()
        return follower

    def leave(self, follower: Follower) -> None:
        """Show *follower* nothing more; with the last one the state is given up."""
        self._followers.remove(follower)
        self._give_up_unless_needed()

    async def _started(self) -> SessionState:
        """The state as of now, folded from the log unless that was done."""
        self._live.line.check_open()
        if self._state is None:
            missed: list[Commit] = []
            stop_missing = self._live.line.listen(lambda commit, _: missed.append(commit))
            try:
                state = await self._read()
            finally:
                stop_missing()
            for commit in missed:
                state = fold_commit(state, commit)
            self._state = state
            self._stop_listening = self._live.line.listen(self._follow)
        return self._state

    async def _read(self) -> SessionState:
        """The state that was shown when this was called."""
        line = self._live.line
        with line.reading():
            return await replay(self._live.store, line.session_id, to=line.shown.position)

    def _follow(self, commit: Commit, _: CoreState) -> None:
        assert self._state is not None, "commits are folded once the log is"
        self._state = fold_commit(self._state, commit)
        for follower in tuple(self._followers):
            follower.show(self._state)

    def _give_up_unless_needed(self) -> None:
        if self._stop_listening is not None and not self._asked and not self._followers:
            self._stop_listening()
            self._stop_listening, self._state = None, None

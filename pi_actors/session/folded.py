"""The read side's folds beside an open session: made when first asked for, then kept up."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import trio

from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState as CoreState
from pi_actors.runtime.live import LiveSession
from projections.backlog import FRAMES_MAX
from projections.replay import newest_states
from projections.session import SessionState, fold_commit

STATES_MAX = FRAMES_MAX + 1
"""So many states lead to as many frames as anyone is given at once."""

Follower: TypeAlias = Callable[[SessionState], None]
"""Called with the state after each commit. Never blocks."""


class FoldedSession:
    """Starts from the log at the first ask, then follows the acknowledged commits.

    Once somebody has asked for the state it is kept; until then, only while there are followers.
    """

    def __init__(self, live: LiveSession) -> None:
        self._live = live
        self._newest: deque[SessionState] = deque(maxlen=STATES_MAX)
        self._followers: list[Follower] = []
        self._asked = False
        self._stop_listening: Callable[[], None] | None = None
        self._lock = trio.Lock()

    async def current(self) -> SessionState:
        """The folds' state at the session's shown position."""
        self._live.line.check_open()
        async with self._lock:
            await self._start()
            self._asked = True
        return self._newest[-1]

    async def follow(self, begin: Callable[[Sequence[SessionState]], Follower]) -> Follower:
        """Call what *begin* returns with every state to come; *begin* is given those up to now.

        These are the states after each of the last 100 commits and the one before, oldest first.
        """
        self._live.line.check_open()
        async with self._lock:
            try:
                await self._start()
                follower = begin(tuple(self._newest))
                self._followers.append(follower)
            finally:
                self._give_up_unless_needed()
        return follower

    def leave(self, follower: Follower) -> None:
        """Stop calling *follower*; the states are given up with the last one."""
        self._followers.remove(follower)
        self._give_up_unless_needed()

    async def _start(self) -> None:
        """Fold the log, unless that was done."""
        if self._stop_listening is not None:
            return
        line = self._live.line
        missed: list[Commit] = []
        stop_missing = line.listen(lambda commit, _: missed.append(commit))
        try:
            with line.reading():
                states = await newest_states(
                    self._live.store, line.session_id, to=line.shown.position, count=STATES_MAX
                )
        finally:
            stop_missing()
        self._newest.extend(states)
        for commit in missed:
            self._advance(commit, line.shown)
        self._stop_listening = line.listen(self._advance)

    def _advance(self, commit: Commit, _: CoreState) -> None:
        state = fold_commit(self._newest[-1], commit)
        self._newest.append(state)
        for follower in tuple(self._followers):
            follower(state)

    def _give_up_unless_needed(self) -> None:
        if self._stop_listening is None or self._asked or self._followers:
            return
        self._stop_listening()
        self._stop_listening = None
        self._newest.clear()

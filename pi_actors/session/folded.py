"""The read side's folds beside an open session: made when first asked for, then kept up."""

import trio

from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState as CoreState
from pi_actors.runtime.live import LiveSession
from projections.replay import replay
from projections.session import EMPTY, SessionState, fold_commit


class FoldedSession:
    """Starts from the log at the first ask, then follows the acknowledged commits."""

    def __init__(self, live: LiveSession) -> None:
        self._live = live
        self._state: SessionState | None = None
        self._lock = trio.Lock()

    async def current(self) -> SessionState:
        """The folds' state at the session's shown position."""
        self._live.line.check_open()
        async with self._lock:
            if self._state is None:
                self._state = await self._start()
        return self._state

    async def _start(self) -> SessionState:
        missed: list[Commit] = []
        stop_missing = self._live.line.listen(lambda commit, _: missed.append(commit))
        try:
            state = await replay(self._live.store, self._live.line.session_id)
        finally:
            stop_missing()
        for commit in missed:
            state = fold_commit(state, commit)
        self._live.line.listen(self._follow)
        return state

    def _follow(self, commit: Commit, _: CoreState) -> None:
        self._state = fold_commit(EMPTY if self._state is None else self._state, commit)

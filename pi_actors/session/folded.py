"""The read side's folds beside an open session: made when first asked for, then kept up."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import trio

from pi_actors.core.ids import ActorId, EntryId
from pi_actors.core.messages import Entry
from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState as CoreState
from pi_actors.runtime.live import LiveSession
from projections.entries import read_entries
from projections.folding import begin, fold_rest
from projections.session import FoldedState, fold_commit


class Follower(Protocol):
    """Someone who is shown every state."""

    def show(self, state: FoldedState, commit: Commit) -> None:
        """Called with each commit and the state after it. Never blocks."""
        ...


F = TypeVar("F", bound=Follower)


class FoldedSession:
    """Starts from the log at the first ask, then follows the acknowledged commits.

    Once somebody has asked for the state it is kept; until then, only while there are followers.
    """

    def __init__(self, live: LiveSession) -> None:
        self._live = live
        self._state: FoldedState | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._followers: list[Follower] = []
        self._asked = False
        self._lock = trio.Lock()

    @property
    def newest(self) -> FoldedState | None:
        """The folds' state at the session's shown position, if it is kept; otherwise None."""
        return self._state

    async def current(self) -> FoldedState:
        """The folds' state at the session's shown position."""
        async with self._lock:
            state = await self._started()
            self._asked = True
        return state

    async def follow(self, agent: ActorId, begin: Callable[[FoldedState, Sequence[Entry]], F]) -> F:
        """Show every state to come to what *begin* makes of the state as of now and *agent*'s entries.

        Raises:
            NotFound: there is no such agent. What *begin* raises is raised too; then nobody follows.
        """
        async with self._lock:
            state, missed = await self._started(), _Missed()
            self._followers.append(missed)
            try:
                follower = begin(state, await self._entries(state.entry_ids(agent)))
                for state, commit in missed.shown:
                    follower.show(state, commit)
                self._followers.append(follower)
            finally:
                self.leave(missed)
        return follower

    def leave(self, follower: Follower) -> None:
        """Show *follower* nothing more; with the last one the state is given up."""
        self._followers.remove(follower)
        self._give_up_unless_needed()

    async def _started(self) -> FoldedState:
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

    async def _read(self) -> FoldedState:
        """The state that was shown when this was called, from a snapshot where there is one."""
        line, store = self._live.line, self._live.store
        to = line.shown.position
        begun = await self._live.read(partial(begin, store.log, store.topics, line.session_id, to=to))
        return await fold_rest(self._live.read, begun, to)

    async def _entries(self, ids: Sequence[EntryId]) -> Sequence[Entry]:
        store = self._live.store
        return await self._live.read(read_entries, store.log, store.topics, self._live.line.session_id, ids)

    def _follow(self, commit: Commit, _: CoreState) -> None:
        assert self._state is not None, "commits are folded once the log is"
        self._state = fold_commit(self._state, commit)
        for follower in tuple(self._followers):
            follower.show(self._state, commit)

    def _give_up_unless_needed(self) -> None:
        if self._stop_listening is not None and not self._asked and not self._followers:
            self._stop_listening()
            self._stop_listening, self._state = None, None


class _Missed:
    """What was shown while entries were being read for a new follower."""

    def __init__(self) -> None:
        self.shown: list[tuple[FoldedState, Commit]] = []

    def show(self, state: FoldedState, commit: Commit) -> None:
        self.shown.append((state, commit))

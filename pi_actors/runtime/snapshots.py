"""Snapshots of an open session's state: now and then in the background, and at an orderly close.

They are taken of what is shown, so they never cover an event that is not stored.
"""

from functools import partial
from typing import Final

import trio

from pi_actors.core.errors import SessionFailed
from pi_actors.core.ids import Position
from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState
from pi_actors.runtime.commit_line import CommitLine
from pi_actors.runtime.kept import Kept
from pi_actors.runtime.opening import STATE
from pi_actors.runtime.store import LiveStore
from pi_actors.storage.log import Snapshot

SNAPSHOT_EVERY: Final = 10_000
"""Positions between two snapshots, at least. Folding as many events takes about a quarter of a second,
which is what an opening after a crash may lose.
"""

BYTES_A_POSITION: Final = 50
"""A large snapshot is taken more rarely: there must be one more position for so many bytes of the last one.
So taking them never costs more than about a twentieth of what storing the events did.
"""


class Snapshots:
    """Takes the snapshots of one open session, one at a time. ``newest``: the position of the newest one."""

    def __init__(self, line: CommitLine, store: LiveStore, kept: Kept, newest: Position) -> None:
        """*newest*: the position of the snapshot that the session was opened from, 0 without one."""
        self._line = line
        self._store = store
        self._kept = kept
        self.newest = newest
        self._substitutions = line.substitutions
        self._every = SNAPSHOT_EVERY
        self._due = trio.Event()
        self._one_at_a_time = trio.Lock()
        line.listen(self._follow)

    async def run(self) -> None:
        """Take one whenever it is due, until cancelled or the store fails."""
        self._follow((), self._line.shown)
        try:
            while True:
                await self._due.wait()
                await self.take()
                self._due = trio.Event()
                self._follow((), self._line.shown)
        except SessionFailed:
            return

    async def take(self) -> None:
        """Take one of what is shown now, unless the newest one is of just that.

        One of the same position takes its place: agents that gave up their memory since are smaller in it.

        Raises:
            SessionFailed: the store failed.
        """
        async with self._one_at_a_time:
            state, substitutions = self._line.shown, self._line.substitutions
            if (state.position, substitutions) == (self.newest, self._substitutions):
                return
            with self._line.reading():
                body = await self._store.read(self._kept.codec.pack, state)
                await self._store.write(
                    partial(
                        self._kept.log.save_snapshot,
                        self._line.session_id,
                        self._line.epoch,
                        Snapshot(STATE, state.position, body),
                    )
                )
            self.newest, self._substitutions = state.position, substitutions
            self._every = max(SNAPSHOT_EVERY, len(body) // BYTES_A_POSITION)

    def _follow(self, _: Commit, state: SessionState) -> None:
        if state.position - self.newest >= self._every:
            self._due.set()

"""A served session's state at any position, folded from the log.

States that were folded lately are kept for a while, so that whoever moves back and forth in a long
session pays for the way from the nearest of them, not from the beginning.
"""

from collections import OrderedDict
from functools import partial
from typing import Final, NamedTuple

import trio

from pi_actors.core.ids import Position, SessionId
from pi_actors.server.served import Served
from pi_actors.storage.log import Row
from projections.session import EMPTY, SessionState, fold_commit
from projections.tail import Tail

KEPT_MAX: Final = 8
KEPT_SECONDS: Final = 60.0


class History:
    """Folds sessions up to a position. A server has one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[SessionId, Position], _Kept] = OrderedDict()

    async def state_at(self, served: Served, to: Position) -> SessionState:
        """The state of the last commit that ends at or before *to*.

        Raises:
            NotFound, StoreError: the session is not there, or cannot be read.
        """
        state = await self._start(served, to)
        tail = Tail(served.log, served.topics, served.session_id, after=state.position)
        while True:
            folded = await served.read(partial(_fold_page, tail, state, to))
            if folded is None:
                break
            state = folded
        await self._keep(served, state)
        return state

    async def run(self) -> None:
        """Give up what nobody has asked for lately, until cancelled."""
        while True:
            await trio.sleep(KEPT_SECONDS)
            self._forget_idle()

    def _forget_idle(self) -> None:
        now = trio.current_time()
        for key, kept in list(self._kept.items()):
            if now - kept.used_at > KEPT_SECONDS:
                del self._kept[key]

    async def _start(self, served: Served, to: Position) -> SessionState:
        """The nearest state that is kept and still is the log's."""
        positions = [at for session, at in self._kept if session == served.session_id and at <= to]
        if not positions:
            return EMPTY
        key = served.session_id, max(positions)
        kept = self._kept[key]
        if await _row_at(served, kept.state.position) != kept.row:
            self._kept.pop(key, None)
            return EMPTY
        return kept.state

    async def _keep(self, served: Served, state: SessionState) -> None:
        row = await _row_at(served, state.position)
        if row is None:
            return
        key = served.session_id, state.position
        self._kept[key] = _Kept(state, row, trio.current_time())
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


class _Kept(NamedTuple):
    """A state and the last row in it, by which it is seen to be of this very log."""

    state: SessionState
    row: Row
    used_at: float


async def _row_at(served: Served, position: Position) -> Row | None:
    rows = await served.read(partial(served.log.read_at, served.session_id, [position]))
    return rows[0] if rows else None


def _fold_page(tail: Tail, state: SessionState, to: Position) -> SessionState | None:
    """The state after the next page, None at the end."""
    commits = tail.read(to=to)
    for commit in commits:
        state = fold_commit(state, commit)
    return state if commits else None

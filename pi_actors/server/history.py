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
from projections.folding import fold_page
from projections.session import EMPTY, FoldedState
from projections.tail import Tail

KEPT_MAX: Final = 8
KEPT_SECONDS: Final = 60.0


class Folded(NamedTuple):
    """A state, and the log from there on."""

    state: FoldedState
    tail: Tail


class History:
    """Folds sessions up to a position. A server has one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[SessionId, Position], _Kept] = OrderedDict()

    async def state_at(self, served: Served, to: Position) -> FoldedState:
        """The state of the last commit that ends at or before *to*. Raises as ``folded``."""
        return (await self.folded(served, to)).state

    async def folded(self, served: Served, to: Position) -> Folded:
        """The same, and what comes after it.

        Raises:
            NotFound, StoreError: the session is not there, or cannot be read.
        """
        state, tail = await self._start(served, to)
        while (further := await served.read(partial(fold_page, tail, state, to))) is not None:
            state = further
        if tail.last is not None and tail.last.position == state.position:
            self._keep(served, state, tail.last)
        return Folded(state, tail)

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

    async def _start(self, served: Served, to: Position) -> Folded:
        """The nearest state that is kept and still is the log's."""
        positions = [at for session, at in self._kept if session == served.session_id and at <= to]
        if positions:
            key = served.session_id, max(positions)
            state, row, _ = self._kept[key]
            if await _row_at(served, row.position) == row:
                return Folded(state, served.tail(after=row.position, last=row))
            self._kept.pop(key, None)
        return Folded(EMPTY, served.tail())

    def _keep(self, served: Served, state: FoldedState, row: Row) -> None:
        key = served.session_id, state.position
        self._kept[key] = _Kept(state, row, trio.current_time())
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


class _Kept(NamedTuple):
    """A state and the last row in it, by which it is seen to be of this very log."""

    state: FoldedState
    row: Row
    used_at: float


async def _row_at(served: Served, position: Position) -> Row | None:
    rows = await served.read(partial(served.log.read_at, served.session_id, [position]))
    return rows[0] if rows else None

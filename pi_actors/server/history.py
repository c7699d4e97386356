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
from pi_actors.storage.log import PAGE_ROWS, Row
from projections.folding import Folding, begin, fold_rest
from projections.session import EMPTY, FoldedState

KEPT_MAX: Final = 8
KEPT_SECONDS: Final = 60.0


class History:
    """Folds sessions up to a position. A server has one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[SessionId, Position], _Kept] = OrderedDict()

    async def state_at(self, served: Served, to: Position) -> FoldedState:
        """The state of the last commit that ends at or before *to*. Raises as ``folded``."""
        return (await self.folded(served, to)).state

    async def folded(self, served: Served, to: Position) -> Folding:
        """The same, and what comes after it.

        Raises:
            NotFound, StoreError: the session is not there, or cannot be read.
        """
        start = await self._start(served, to)
        state, tail = await fold_rest(served.read, start, to), start.tail
        if tail.last is not None and tail.last.position == state.position:
            self._keep(served, state, tail.last, tail.exact_from)
        return Folding(state, tail)

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

    async def _start(self, served: Served, to: Position) -> Folding:
        """The nearest state that is kept, or in a snapshot where that spares more than a page."""
        kept = await self._nearest(served, to)
        if to - kept.state.position <= PAGE_ROWS:
            return kept
        begun = await served.read(partial(_begin, served, to))
        return begun if begun.state.position > kept.state.position else kept

    async def _nearest(self, served: Served, to: Position) -> Folding:
        """The nearest state that is kept and still is the log's."""
        positions = [at for session, at in self._kept if session == served.session_id and at <= to]
        if positions:
            key = served.session_id, max(positions)
            state, row, exact_from, _ = self._kept[key]
            if await _row_at(served, row.position) == row:
                return Folding(state, served.tail(after=row.position, last=row, exact_from=exact_from))
            self._kept.pop(key, None)
        return Folding(EMPTY, served.tail())

    def _keep(self, served: Served, state: FoldedState, row: Row, exact_from: Position) -> None:
        key = served.session_id, state.position
        self._kept[key] = _Kept(state, row, exact_from, trio.current_time())
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


class _Kept(NamedTuple):
    """A state and the last row in it, by which it is seen to be of this very log.

    ``exact_from``: where states are exact again, if progress was missing on the way to this one.
    """

    state: FoldedState
    row: Row
    exact_from: Position
    used_at: float


def _begin(served: Served, to: Position) -> Folding:
    """The nearest snapshot. Blocks.

    Before ``scavenged_to`` it would show progress that the log does not show any more.
    """
    head = served.log.head(served.session_id)
    if head is None or to < head.scavenged_to:
        return Folding(EMPTY, served.tail())
    return begin(served.log, served.topics, served.session_id, to=to)


async def _row_at(served: Served, position: Position) -> Row | None:
    rows = await served.read(partial(served.log.read_at, served.session_id, [position]))
    return rows[0] if rows else None

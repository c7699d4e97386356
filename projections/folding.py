"""Folding a stored session page by page."""

from pi_actors.core.ids import Position
from projections.session import FoldedState, fold_commit
from projections.tail import Tail


def fold_page(tail: Tail, state: FoldedState, to: Position | None = None) -> FoldedState | None:
    """The state after the next page of commits that end at or before *to*, None where there is none. Blocks.

    Raises:
        NotFound, LogCorrupt, StoreError: as ``Tail.read``.
    """
    commits = tail.read(to=to)
    for commit in commits:
        state = fold_commit(state, commit)
    return state if commits else None

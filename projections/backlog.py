"""The newest frames of a view, kept for those who have not seen them yet."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pi_actors.core.ids import Position
from projections.fold import Document
from projections.frames import Frame
from projections.view import Viewed

FRAMES_MAX: Final = 100


class Backlog:
    """Any number of readers at their own pace, for the memory of at most 100 frames.

    Whoever lags by more gets one snapshot instead. ``value`` is as of ``position``.
    """

    def __init__(self, viewed: Viewed) -> None:
        self.position: Position = viewed.position
        self.value: Document = viewed.value
        self._snapshot = viewed.snapshot()
        self._frames: list[Frame] = []
        self._known_from = viewed.position

    def add(self, frames: Sequence[Frame], viewed: Viewed) -> None:
        """Go on to where *viewed* is now, by *frames*."""
        self.position, self.value, self._snapshot = viewed.position, viewed.value, viewed.snapshot()
        self._frames.extend(frames)
        surplus = len(self._frames) - FRAMES_MAX
        if surplus > 0:
            self._known_from = self._frames[surplus - 1].position
            del self._frames[:surplus]

    def next(self, position: Position) -> Frame | None:
        """The frame that follows the value as of *position*, None where that is the newest value.

        It is a snapshot where the frames since then are not known, or *position* is none of this log.
        """
        if not self._known_from <= position <= self.position:
            return self._snapshot
        place = bisect_right(self._frames, position, key=attrgetter("position"))
        return self._frames[place] if place < len(self._frames) else None

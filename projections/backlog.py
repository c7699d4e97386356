"""The newest frames of a view, kept for those who have not seen them yet."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pi_actors.core.ids import Position
from projections.frames import Frame

FRAMES_MAX: Final = 100


class Backlog:
    """Any number of readers at their own pace, for the memory of at most 100 frames.

    ``now`` is the newest value as a snapshot; whoever lags by more than 100 frames gets it instead.
    """

    def __init__(self, now: Frame) -> None:
        self.now = now
        self._frames: list[Frame] = []
        self._known_from = now.position

    def add(self, frames: Sequence[Frame], now: Frame) -> None:
        """Go on to the value *now*, by *frames*."""
        self.now = now
        self._frames.extend(frames)
        surplus = len(self._frames) - FRAMES_MAX
        if surplus > 0:
            self._known_from = self._frames[surplus - 1].position
            del self._frames[:surplus]

    def next(self, position: Position) -> Frame | None:
        """The frame that follows the value as of *position*, None where that is the newest value."""
        if position < self._known_from:
            return self.now
        place = bisect_right(self._frames, position, key=attrgetter("position"))
        return self._frames[place] if place < len(self._frames) else None

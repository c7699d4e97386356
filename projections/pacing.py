"""Views at the pace of whoever looks: commits come as they come, each reader takes frames when it can.

A feed takes what is published without waiting for anyone. A reader who is slow, stuck or dead costs
it nothing; one who lags by more than 100 frames goes on from a snapshot.
"""

from collections.abc import Sequence
from typing import Final

import trio

from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import Position
from projections.backlog import Backlog
from projections.fold import Document
from projections.frames import Frame, apply_frame
from projections.view import Viewed

NOTHING_SEEN: Final[Position] = -1
"""The position of someone who has no value yet."""


class View:
    """An agent's value as of a position, and the frames that change it, one for each commit that does.

    Iterate to get the frames. From then on ``value`` is what the frames so far have made of it, and
    ``position`` says which commit it is as of. As long as nobody iterates, both are as of now at every
    look, and the frames will follow the ``value`` that was looked at last (or, before any look, the
    one at the time of attaching).

    Whoever lags by more than 100 frames gets one frame with a snapshot in their place. The iteration
    ends when the session is closed or the view's context manager has ended; ``value`` stays.
    """

    def __init__(self, feed: "Feed") -> None:
        self._feed: Feed | None = feed
        self._value = feed.backlog.value
        self._frames = Frames(feed, feed.backlog.position)
        self._others: list[Frames] = []
        self._iterated = False

    @property
    def value(self) -> Document:
        """The view's value, as JSON. It shares what it can with other values: do not change it."""
        if self._feed is not None and not self._iterated:
            self._value, self._frames.position = self._feed.backlog.value, self._feed.backlog.position
        return self._value

    @property
    def position(self) -> Position:
        """The end of the commit that ``value`` is as of."""
        if self._feed is None or self._iterated:
            return self._frames.position
        return self._feed.backlog.position

    def __aiter__(self) -> "View":
        return self

    async def __anext__(self) -> Frame:
        """The next frame, as soon as there is one. Cancelled, nothing is lost.

        Raises:
            SessionFailed: the store has failed under the session.
            StoreError, LogCorrupt: a log that is followed cannot be read any further.
        """
        self._iterated = True
        frame = await anext(self._frames)
        self._value = apply_frame(self._value, frame)
        return frame

    def since(self, position: Position | None) -> "Frames":
        """The frames for someone who holds the value as of *position*; None: who holds none.

        They begin with a snapshot where that position is too far behind, or of another log. They are
        independent of the view's own iteration, and end with the view.
        """
        frames = Frames(self._feed, NOTHING_SEEN if position is None else position)
        self._others = [*(other for other in self._others if not other.ended), frames]
        return frames

    def end(self) -> None:
        """End the iteration for good, keeping the value. Called by whoever made the view."""
        self._value, self._feed = self.value, None
        for frames in (self._frames, *self._others):
            frames.end()


class Frames:
    """The frames after a position, one by one.

    ``position``: of the last frame, or while waiting, of the last commit that is known to have
    changed nothing since.
    """

    def __init__(self, feed: "Feed | None", position: Position) -> None:
        self.position = position
        self._feed = feed

    @property
    def ended(self) -> bool:
        """Whether no frame will come any more."""
        return self._feed is None

    def __aiter__(self) -> "Frames":
        return self

    async def __anext__(self) -> Frame:
        """The next frame. Cancellation and errors are as for a view."""
        await trio.lowlevel.checkpoint()
        while self._feed is not None:
            backlog = self._feed.backlog
            frame = backlog.next(self.position)
            if frame is not None:
                self.position = frame.position
                return frame
            self.position = backlog.position
            await self._feed.change()
        raise StopAsyncIteration

    def end(self) -> None:
        """End the iteration, also where somebody waits for the next frame."""
        if self._feed is not None:
            feed, self._feed = self._feed, None
            feed.wake()


class Feed:
    """A view's backlog and those who wait for it to grow. Publishing never waits."""

    def __init__(self, viewed: Viewed) -> None:
        self.backlog = Backlog(viewed)
        self._waiting = trio.lowlevel.ParkingLot()
        self._ended = False
        self._error: PiActorsError | None = None

    def publish(self, frames: Sequence[Frame], viewed: Viewed) -> None:
        """Show where *viewed* is now, and the frames that led there."""
        self.backlog.add(frames, viewed)
        self.wake()

    def finish(self, error: PiActorsError | None = None) -> None:
        """There is nothing more to come. Readers get what they have not seen, and then *error*."""
        if not self._ended:
            self._ended, self._error = True, error
            self.wake()

    def wake(self) -> None:
        """Let everyone who waits look again."""
        self._waiting.unpark_all()

    async def change(self) -> None:
        """Return when there may be something new.

        Raises:
            StopAsyncIteration: nothing more will come.
            PiActorsError: nor anything after this.
        """
        if self._error is not None:
            raise self._error
        if self._ended:
            raise StopAsyncIteration
        await self._waiting.park()

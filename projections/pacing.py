"""Views at the pace of whoever looks: commits come as they come, each viewer takes frames when it can.

A feed takes what is published without waiting for anyone. A viewer who is slow, stuck or dead costs
it nothing; one who lags by more than 100 frames goes on from a snapshot.
"""

from collections.abc import Sequence

import trio

from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import Position
from projections.backlog import Backlog
from projections.fold import Document
from projections.frames import Frame, apply_frame


class View:
    """An agent's value as of a position, and the frames that change it, one for each commit that does.

    Iterate to get the frames. From then on ``value`` is what the frames so far have made of it, and
    ``position`` says as of which commit that is. As long as nobody iterates, both are as of now at
    every look, and the frames will follow the ``value`` that was looked at last (or, before any
    look, the one at the time of attaching).

    Whoever lags by more than 100 frames gets one frame with a snapshot in their place. The iteration
    ends when the session is closed or the view's context manager has ended; ``value`` stays.
    """

    def __init__(self, feed: "Feed") -> None:
        self._feed: Feed | None = feed
        self._iterated = False
        self._position = feed.backlog.now.position
        self._value = feed.value

    @property
    def value(self) -> Document:
        """The view's value, as JSON. It shares what it can with other values: do not change it."""
        if self._feed is not None and not self._iterated:
            self._value, self._position = self._feed.value, self._feed.backlog.now.position
        return self._value

    @property
    def position(self) -> Position:
        """The end of the commit that ``value`` is as of."""
        if self._feed is None or self._iterated:
            return self._position
        return self._feed.backlog.now.position

    def __aiter__(self) -> "View":
        return self

    async def __anext__(self) -> Frame:
        """The next frame, as soon as there is one. Cancelled, nothing is lost.

        Raises:
            SessionFailed: the store has failed under the session.
            StoreError, LogCorrupt: a log that is followed cannot be read any further.
        """
        await trio.lowlevel.checkpoint()
        self._iterated = True
        while self._feed is not None:
            frame = self._feed.backlog.next(self._position)
            if frame is not None:
                self._value, self._position = apply_frame(self._value, frame), frame.position
                return frame
            # Commits since then have changed nothing here.
            self._position = self._feed.backlog.now.position
            await self._feed.change()
        raise StopAsyncIteration

    def end(self) -> None:
        """End the iteration for good and keep the value. Called by whoever made the view."""
        self._value, feed, self._feed = self.value, self._feed, None
        if feed is not None:
            feed.wake()


class Feed:
    """What the viewers of one agent share: the backlog, and the news that it has grown."""

    def __init__(self, now: Frame) -> None:
        """Start with the value *now*, a snapshot."""
        self.backlog = Backlog(now)
        self._waiting = trio.lowlevel.ParkingLot()
        self._ended = False
        self._error: PiActorsError | None = None

    @property
    def value(self) -> Document:
        """The newest value."""
        value = self.backlog.now.snapshot
        assert value is not None, "the newest value is a snapshot"
        return value

    def publish(self, frames: Sequence[Frame], now: Frame) -> None:
        """Go on to the value *now*, a snapshot, by *frames*. Never waits."""
        self.backlog.add(frames, now)
        self.wake()

    def finish(self, error: PiActorsError | None = None) -> None:
        """Nothing more will come. Viewers get what they have not seen yet, and after that *error*."""
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

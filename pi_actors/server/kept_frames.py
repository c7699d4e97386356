"""The newest frames of one agent's view, encoded as they are sent, for all who watch it."""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from pi_actors.core.ids import ActorId, Position
from pi_actors.core.messages import Entry
from pi_actors.core.record import Commit
from projections.frames import Frame
from projections.session import FoldedState, fold_commit
from projections.tail import Tail
from projections.view import Viewed

FRAMES_MAX: Final = 100
"""A viewer that has missed more than these gets a snapshot."""

BYTES_MAX: Final = 8 * 1024 * 1024
"""So does one whose missed frames take more than this together."""

BATCH_BYTES: Final = 1024 * 1024
"""About how much a viewer is sent at once."""


class Encoded(NamedTuple):
    """A frame as it is sent."""

    position: Position
    event: bytes


class Batch(NamedTuple):
    """What a viewer is sent next, and the position that it has reached with that."""

    position: Position
    events: tuple[bytes, ...]


class KeptFrames:
    """The view of one agent and its newest frames.

    Whoever has seen all up to ``floor`` or more can be continued by frames; whoever has not seen all
    up to ``lost_to`` has missed too much. ``began_at``: as of where it was made. Its methods are called
    by one thread at a time.
    """

    def __init__(self, state: FoldedState, agent: ActorId, entries: Sequence[Entry]) -> None:
        """Begin with *state* and the *entries* of the agent's active transcript in it.

        Raises:
            NotFound: the session has no such agent.
        """
        self.agent = agent
        self.began_at: Position = state.position
        self.floor: Position = state.position
        self.lost_to: Position = 0
        self._viewed = Viewed(state, agent, entries)
        self._frames: deque[Encoded] = deque()
        self._bytes = 0
        self._is_exact = True
        self._snapshot: Encoded | None = None

    @property
    def state(self) -> FoldedState:
        """The state that was shown last."""
        return self._viewed.state

    def show(self, state: FoldedState, commit: Commit, *, is_exact: bool = True) -> None:
        """Go on with the next commit, to *state*.

        Where that is not exact, nobody can be shown it; once it is again, everyone needs a snapshot.
        """
        frame = self._viewed.show(state, commit)
        was_exact, self._is_exact = self._is_exact, is_exact
        if is_exact and not was_exact:
            self._begin_anew()
        elif is_exact and frame is not None:
            self._snapshot = None
            self._frames.append(encoded(frame))
            self._bytes += len(self._frames[-1].event)
        while len(self._frames) > FRAMES_MAX or self._bytes > BYTES_MAX:
            self._drop()

    def continues(self, after: Position | None) -> bool:
        """Whether frames continue a viewer that has seen all up to *after*, so that it needs no snapshot."""
        return after is not None and self.floor <= after <= self._viewed.position

    def since(self, after: Position | None) -> Batch:
        """What continues a viewer that has seen all up to *after*: frames, or a snapshot."""
        position = self._viewed.position
        if after is None or not self.continues(after):
            return Batch(position, (self._whole().event,))
        events: list[bytes] = []
        size = 0
        for frame in self._frames:
            if frame.position <= after:
                continue
            if size > BATCH_BYTES:
                return Batch(after, tuple(events))
            events.append(frame.event)
            after, size = frame.position, size + len(frame.event)
        return Batch(position, tuple(events))

    def reach_back(self, older: "KeptFrames", tail: Tail) -> None:
        """Keep the frames from the beginning of *older* on too.

        Nothing is kept where they are too many, or where not all can be shown any more. *tail*: the log
        from there on. Blocks.
        """
        while commits := tail.read(to=self.floor):
            for commit in commits:
                older.show(fold_commit(older.state, commit), commit)
                if older.state.position < tail.exact_from or not self._has_room_for(older):
                    self.lost_to = older.began_at + 1
                    return
        self._frames.extendleft(reversed(older._frames))
        self._bytes += older._bytes
        self.floor = older.floor

    def _begin_anew(self) -> None:
        self._snapshot = None
        self._frames.clear()
        self._bytes = 0
        self.floor = self.lost_to = self._viewed.position

    def _has_room_for(self, older: "KeptFrames") -> bool:
        count, size = len(older._frames) + len(self._frames), older._bytes + self._bytes
        return older.lost_to == 0 and count <= FRAMES_MAX and size <= BYTES_MAX

    def _drop(self) -> None:
        frame = self._frames.popleft()
        self._bytes -= len(frame.event)
        self.floor = self.lost_to = frame.position

    def _whole(self) -> Encoded:
        if self._snapshot is None:
            self._snapshot = encoded(self._viewed.snapshot())
        return self._snapshot


def encoded(frame: Frame) -> Encoded:
    """*frame* as a server-sent event whose id is its position."""
    data = msgspec.json.encode(frame)
    return Encoded(frame.position, b"id: %d\ndata: %b\n\n" % (frame.position, data))

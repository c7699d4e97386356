"""Viewers that write down all they see, and what the log says they should have seen."""

from contextlib import closing
from pathlib import Path

from pi_actors.core.text import Json
from pi_actors.storage.opening import open_reader
from projections import Frame, View, replay
from projections.view import value_of
from tests.projections.stored import values_of


class Seen:
    """The values of a viewer by position, and which frames led there."""

    def __init__(self) -> None:
        self.values: dict[int, Json] = {}
        self.frames: list[Frame] = []

    def begin(self, view: View) -> None:
        """Write down what there was to begin with."""
        self.values[view.position] = view.value

    def take(self, frame: Frame, view: View) -> None:
        """Write down a frame, which must lead further, and what it led to."""
        assert view.position == frame.position
        assert not self.frames or frame.position > self.frames[-1].position, "a frame came again"
        self.frames.append(frame)
        self.values[frame.position] = view.value


async def check(seen: Seen, store: Path, session: str = "main", agent: int = 1) -> None:
    """Every value that was seen is the one that the log has at its position."""
    for position, value in seen.values.items():
        state = await replay(store, session, to=position)
        assert state.position == position, "no commit ends there"
        assert value_of(state, agent) == value


def positions_of_frames(store: Path, *, after: int, through: int, agent: int = 1) -> list[int]:
    """Where the value of the agent's view changes between two positions, as the log tells it."""
    changed: list[int] = []
    before: Json = None
    with closing(open_reader(store)) as reader:
        for position, value in values_of(reader, agent=agent, through=through):
            if value != before and position > after:
                changed.append(position)
            before = value
    return changed

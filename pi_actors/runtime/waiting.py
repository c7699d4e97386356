"""Waits for stored facts: that something has settled, that a tree is idle."""

from collections.abc import Callable

import trio

from pi_actors.actors.topics import index_of
from pi_actors.core.ids import Position
from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState
from pi_actors.runtime.commit_line import CommitLine


class Waits:
    """Who waits for what in one open session. Every wait ends when the session does."""

    def __init__(self, line: CommitLine) -> None:
        self._line = line
        self._settling: dict[Position, trio.Event] = {}
        self._idling: list[tuple[Callable[[SessionState], bool], trio.Event]] = []
        line.listen(self._follow)

    def settling(self, id: Position) -> trio.Event:
        """An event that is set when the submission or actor *id* settles, or the session ends."""
        return self._settling.setdefault(id, trio.Event())

    async def until(self, holds: Callable[[SessionState], bool]) -> None:
        """Return once *holds* is true of the shown state.

        Raises:
            SessionFailed, SessionClosed: the session ended first.
        """
        self._line.check_open()
        while not holds(self._line.shown):
            self._line.check_open()
            changed = trio.Event()
            self._idling.append((holds, changed))
            await changed.wait()
        await trio.lowlevel.checkpoint()

    def end(self) -> None:
        """The session is over: wake everyone."""
        for event in self._settling.values():
            event.set()
        for _, event in self._idling:
            event.set()

    def _follow(self, commit: Commit, state: SessionState) -> None:
        if self._settling:
            index = index_of((each.position, each.actor, each.event) for each in commit)
            for id, _ in index.settled:
                event = self._settling.pop(id, None)
                if event is not None:
                    event.set()
        if self._idling:
            ready = [event for holds, event in self._idling if holds(state)]
            self._idling = [(holds, event) for holds, event in self._idling if event not in ready]
            for event in ready:
                event.set()

"""Waits for stored facts: that something has settled, that a tree is idle."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

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
        self._settling: dict[Position, set[trio.Event]] = {}
        self._idling: dict[trio.Event, Callable[[SessionState], bool]] = {}
        self._enders: list[Callable[[], None]] = []
        line.listen(self._follow)

    @contextmanager
    def settling(self, id: Position) -> Generator[trio.Event]:
        """An event that is set when the submission or actor *id* settles, or the session ends."""
        event = trio.Event()
        self._settling.setdefault(id, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._settling.get(id, set())
            waiting.discard(event)
            if not waiting:
                self._settling.pop(id, None)

    async def until(self, holds: Callable[[SessionState], bool]) -> None:
        """Return once *holds* is true of the shown state.

        Raises:
            SessionFailed, SessionClosed: the session ended first.
        """
        self._line.check_open()
        while not holds(self._line.shown):
            self._line.check_open()
            changed = trio.Event()
            self._idling[changed] = holds
            try:
                await changed.wait()
            finally:
                self._idling.pop(changed, None)
        await trio.lowlevel.checkpoint()

    def at_end(self, ender: Callable[[], None]) -> None:
        """Call *ender*, which must not block, when the session is over: closed, or failed, or both."""
        self._enders.append(ender)

    def end(self) -> None:
        """The session is over: wake everyone."""
        for ender in self._enders:
            ender()
        for event in (*self._idling, *(each for waiting in self._settling.values() for each in waiting)):
            event.set()

    def _follow(self, commit: Commit, state: SessionState) -> None:
        if self._settling:
            for id, _ in index_of(commit).settled:
                for event in self._settling.get(id, ()):
                    event.set()
        for event, holds in self._idling.items():
            if holds(state):
                event.set()

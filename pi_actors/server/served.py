"""The sessions of a server: those that this process owns, and those that it follows in a store.

Both are read from the log, so a viewer sees the same of either. They differ in how it is learned
that there is more to read, and in whether commands are taken.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol, TypeVar

import trio

from pi_actors.core.errors import InvalidValue, NotFound
from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.core.messages import Entry
from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState
from pi_actors.core.text import Json
from pi_actors.runtime.threads import call_log
from pi_actors.session import Session
from pi_actors.storage.codec import Topics
from pi_actors.storage.log import Head, LogReader, Row
from projections.entries import read_entries
from projections.fold import iso
from projections.replay import OpenStore
from projections.session import FoldedState
from projections.tail import Tail

LOOK_EVERY_S: Final = 0.02
"""How often a followed session is looked at, however many watch it."""

READERS_MAX: Final = 4

T = TypeVar("T")


class News(Protocol):
    """How far a session has come."""

    async def position(self) -> Position:
        """The end of the last commit that may be shown. Raises where the session is no more."""
        ...

    async def wait_beyond(self, position: Position) -> None:
        """Return once there is more to show than up to *position*."""
        ...


class Served:
    """One session of a server. ``session``: what takes its commands, None where nothing does."""

    def __init__(
        self,
        session_id: SessionId,
        store: OpenStore,
        news: News,
        session: Session | None,
        readers: trio.CapacityLimiter,
    ) -> None:
        self.session_id = session_id
        self.log: LogReader = store.log
        self.topics: Topics = store.topics
        self.news = news
        self.session = session
        self._readers = readers

    def tail(self, *, after: Position = 0, last: Row | None = None, exact_from: Position = 0) -> Tail:
        """The session's log after a position; *last* is the row there, if that is known."""
        return Tail(self.log, self.topics, self.session_id, after=after, last=last, exact_from=exact_from)

    def entries(self, state: FoldedState, agent: ActorId) -> tuple[Entry, ...]:
        """The agent's active transcript in *state*. Blocks.

        Raises:
            NotFound: the session has no such agent.
        """
        return read_entries(self.log, self.topics, self.session_id, state.entry_ids(agent))

    async def read(self, function: Callable[[], T]) -> T:
        """Run a function that reads the log, or that takes its time with what was read."""
        return await call_log(self.log, function, limiter=self._readers)


class Sessions:
    """All sessions of a server. Of two with one name the one that takes commands is served, or the first."""

    def __init__(self, owned: Iterable[Session], stores: Iterable[OpenStore]) -> None:
        self._readers = trio.CapacityLimiter(READERS_MAX)
        self._stores = tuple(stores)
        self._stops: list[Callable[[], None]] = []
        self._owned: dict[SessionId, Served] = {}
        for session in owned:
            if session.id in self._owned:
                raise InvalidValue(f"two sessions with the name {session.id!r} cannot share a server")
            self._owned[session.id] = self._own(session)
        self._followed: dict[SessionId, Served] = {}

    def close(self) -> None:
        """Let go of the sessions, which may outlive the server."""
        for stop in self._stops:
            stop()

    async def find(self, session_id: SessionId) -> Served:
        """The session of that name. Raises NotFound where there is none."""
        known = self._owned.get(session_id) or self._followed.get(session_id)
        if known is not None:
            return known
        for store in self._stores:
            read = partial(store.log.head, session_id)
            if await call_log(store.log, read, limiter=self._readers) is not None:
                return self._followed.setdefault(session_id, self._follow(session_id, store))
        raise NotFound(f"this server has no session {session_id[:200]!r}; GET /sessions lists them")

    async def listed(self) -> list[Json]:
        """A line for each session, by name."""
        lines: dict[SessionId, Json] = {}
        for served in self._owned.values():
            lines[served.session_id] = await served.read(partial(_owned_line, served))
        for store in self._stores:
            found = await call_log(store.log, partial(_lines, store.log), limiter=self._readers)
            lines = found | lines
        return [lines[name] for name in sorted(lines)]

    def _own(self, session: Session) -> Served:
        news = Announced(session)
        self._stops.append(session.live.line.listen(news.announce))
        return Served(session.id, session.live.store, news, session, self._readers)

    def _follow(self, session_id: SessionId, store: OpenStore) -> Served:
        looked_at = LookedAt(session_id, store.log, self._readers)
        return Served(session_id, store, looked_at, None, self._readers)


class Announced:
    """The news of a session of this process: each acknowledged commit announces itself."""

    def __init__(self, session: Session) -> None:
        self._line = session.live.line
        self._arrived = trio.Event()

    async def position(self) -> Position:
        await trio.lowlevel.checkpoint()
        self._line.check_open()
        return self._line.shown.position

    async def wait_beyond(self, position: Position) -> None:
        while self._line.shown.position <= position:
            await self._arrived.wait()
        await trio.lowlevel.checkpoint()

    def announce(self, _: Commit, __: SessionState) -> None:
        """There is a commit more."""
        self._arrived.set()
        self._arrived = trio.Event()


class LookedAt:
    """The news of a session that somebody else writes, or nobody: its head is looked at.

    Whoever waits holds the lock while it looks, so that all of them together look once each time.
    """

    def __init__(self, session_id: SessionId, log: LogReader, readers: trio.CapacityLimiter) -> None:
        self._session_id = session_id
        self._log = log
        self._readers = readers
        self._lock = trio.Lock()
        self._seen: Position = 0

    async def position(self) -> Position:
        head = await call_log(self._log, self._log.head, self._session_id, limiter=self._readers)
        if head is None:
            raise NotFound(f"session {self._session_id!r} is not in its store any more")
        self._seen = head.position
        return head.position

    async def wait_beyond(self, position: Position) -> None:
        while True:
            async with self._lock:
                if self._seen > position or await self.position() > position:
                    return
                await trio.sleep(LOOK_EVERY_S)


def _owned_line(served: Served) -> Json:
    head = served.log.head(served.session_id)
    assert head is not None, f"session {served.session_id!r} is open"
    return _line(served.log, head, commands=True)


def _lines(log: LogReader) -> dict[SessionId, Json]:
    return {head.session: _line(log, head, commands=False) for head in log.heads()}


def _line(log: LogReader, head: Head, *, commands: bool) -> Json:
    return {
        "id": head.session,
        "position": head.position,
        "live": head.live,
        "size_bytes": log.size_bytes(head.session),
        "updated_at": iso(head.updated_us),
        "held_by": log.holder(head.session),
        "commands": commands,
    }

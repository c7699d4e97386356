"""A session's state at any position, read from its log.

Nothing is locked and nothing is written, so this may run beside the process that writes.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import immutables
import trio

from pi_actors.actors.topics import ALL, PROGRESS
from pi_actors.core.ids import ActorId, EntryId, Position, SessionId
from pi_actors.core.messages import Entry
from pi_actors.core.record import Commit
from pi_actors.storage.codec import Topics
from pi_actors.storage.log import LogReader
from pi_actors.storage.opening import open_reader
from projections.entries import read_entries
from projections.folding import Folding, begin, fold_rest
from projections.session import EMPTY, FoldedState, fold_commit
from projections.submissions import SUBMISSIONS, Submissions
from projections.tail import Tail

T = TypeVar("T")

TOPICS = Topics(ALL, display=PROGRESS)


class OpenStore(Protocol):
    """A store that somebody has opened and will close."""

    @property
    def log(self) -> LogReader: ...

    @property
    def topics(self) -> Topics: ...


class SessionState(FoldedState, frozen=True, kw_only=True):
    """The same with all that the log tells: every submission ever made, and what the entries say.

    ``bodies``: the entries of the agents' active transcripts.
    """

    submissions: Submissions = SUBMISSIONS.initial
    bodies: "immutables.Map[EntryId, Entry]" = immutables.Map()

    def entries(self, agent_id: ActorId) -> tuple[Entry, ...]:
        """The agent's active transcript.

        Raises:
            NotFound: the session has no such agent at this position.
        """
        return tuple(self.bodies[id] for id in self.entry_ids(agent_id))


async def replay(
    store: str | Path | OpenStore, session_id: SessionId = "main", *, to: Position | None = None
) -> SessionState:
    """The session's state as of its last commit, or of the last one that ends at or before *to*.

    ``position`` of the state says which commit that is. Progress that was scavenged is missing from
    states before what superseded it; every other value is as it was shown.

    Cancellation: between pages of the log.

    Raises:
        NotFound: the store has no such session.
        LogCorrupt: a row up to there is damaged; the message names its position.
        NotSupported: a store that only its own process can read, or a kind that is not built yet.
        StoreUnreadable: the store cannot be opened; the message says what is missing.
    """
    async with opened(store) as source:
        whole = _Whole(source, session_id, to)
        while await source.call(whole.advance):
            pass
        return await source.call(whole.state)


class Source:
    """The log of an open store, and how to call what reads it."""

    def __init__(self, log: LogReader, topics: Topics, limiter: trio.CapacityLimiter) -> None:
        self.log = log
        self.topics = topics
        self._limiter = limiter

    def tail(self, session_id: SessionId) -> Tail:
        """The session from its beginning."""
        return Tail(self.log, self.topics, session_id)

    def entries(self, session_id: SessionId, ids: Sequence[EntryId]) -> tuple[Entry, ...]:
        """The session's entries *ids*, in that order. Blocks; raises as ``read_entries``."""
        return read_entries(self.log, self.topics, session_id, ids)

    async def current(self, session_id: SessionId) -> Folding:
        """The session's newest state, from a snapshot where there is one. Raises as ``replay``."""
        begun = await self.call(partial(begin, self.log, self.topics, session_id))
        return Folding(await fold_rest(self.call, begun), begun.tail)

    async def call(self, function: Callable[[], T], *, blocks: bool = False) -> T:
        """Run a function that reads the log: in a thread, or at once where nothing waits for a disk.

        *blocks*: it waits for something else. Cancelled means not started, returned means finished.
        """
        if blocks or self.log.blocks:
            return await trio.to_thread.run_sync(function, limiter=self._limiter)
        await trio.lowlevel.checkpoint()
        return function()


@asynccontextmanager
async def opened(store: str | Path | OpenStore) -> AsyncGenerator[Source]:
    """The log of *store*; one that was opened here is closed here.

    Raises:
        NotSupported, StoreUnreadable: it cannot be opened for reading.
    """
    limiter = trio.CapacityLimiter(1)
    if not isinstance(store, str | Path):
        yield Source(store.log, store.topics, limiter)
        return
    reader = await trio.to_thread.run_sync(open_reader, store, limiter=limiter)
    try:
        yield Source(reader, TOPICS, limiter)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(reader.close, limiter=limiter)


class _Whole:
    """A log being folded with all that it tells. Its methods block."""

    def __init__(self, source: Source, session_id: SessionId, to: Position | None) -> None:
        self._source = source
        self._session_id = session_id
        self._to = to
        self._tail = source.tail(session_id)
        self._folded = EMPTY
        self._submissions = SUBMISSIONS.initial

    def advance(self) -> bool:
        """Fold the next page; False where there is none."""
        commits = self._tail.read(to=self._to)
        for commit in commits:
            self._folded = fold_commit(self._folded, commit)
            self._submissions = fold_submissions(self._submissions, commit)
        return bool(commits)

    def state(self) -> SessionState:
        """Everything, as of the last page. Only now it is known which entries are in context."""
        ids = sorted({id for agent in self._folded.agents for id in self._folded.entry_ids(agent)})
        return with_all(self._folded, self._submissions, self._source.entries(self._session_id, ids))


def fold_submissions(submissions: Submissions, commit: Commit) -> Submissions:
    """Every submission there is after *commit*."""
    for recorded in commit:
        submissions = SUBMISSIONS.evolve(submissions, recorded)
    return submissions


def with_all(folded: FoldedState, submissions: Submissions, entries: Iterable[Entry]) -> SessionState:
    """*folded* with the session's *submissions* and the *entries* of its active transcripts."""
    return SessionState(
        position=folded.position,
        at_us=folded.at_us,
        uuid=folded.uuid,
        tree_state=folded.tree_state,
        folds=folded.folds,
        submissions=submissions,
        bodies=immutables.Map({entry.id: entry for entry in entries}),
    )

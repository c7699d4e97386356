"""Stories written into logs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pi_actors.core.errors import Fenced
from pi_actors.core.ids import ActorId, EntryId, Position, SessionId
from pi_actors.core.messages import Entry
from pi_actors.core.record import Commit, IndexRows
from pi_actors.core.text import Json
from pi_actors.storage.codec import Topics, encode_row
from pi_actors.storage.log import Batch, Head, Log, LogReader, Row
from pi_actors.testing import CrashingLog
from projections.entries import entries_in
from projections.replay import TOPICS
from projections.session import EMPTY, fold_commit
from projections.tail import Tail
from projections.view import value_with
from tests.projections.story import Story


@dataclass
class Opened:
    """An open store."""

    log: Log
    topics: Topics = TOPICS


class Doubled(CrashingLog):
    """A store from which rows go, each of which is also stored in *whole*, where it stays."""

    def __init__(self, log: Log, whole: Log) -> None:
        super().__init__(log, None)
        self.whole = whole

    def claim(self, session: SessionId, *, now_us: int) -> Head:
        self.whole.claim(session, now_us=now_us)
        return super().claim(session, now_us=now_us)

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        # First, so that whatever somebody can read stands there as well.
        self.whole.append(batches)
        return super().append(batches)


def stored(log: Log, story: Story, session: str = "main") -> Log:
    """*log* with all of *story* in it that was not there yet."""
    before = log.head(session)
    head = log.claim(session, now_us=0)
    for commit in story.commits:
        if before is None or commit[0].position > before.position:
            append(log, session, head.epoch, commit, rows_of(commit, session))
    return log


def rows_of(commit: Commit, session: str = "main") -> list[Row]:
    """*commit* as it is stored."""
    return [encode_row(session, recorded, TOPICS) for recorded in commit]


def append(log: Log, session: str, epoch: int, commit: Commit, rows: list[Row]) -> None:
    """Store *rows* as *commit*."""
    batch = Batch(
        session=session,
        epoch=epoch,
        after=commit[0].position - 1,
        rows=rows,
        index=IndexRows(),
        live=False,
        at_us=0,
    )
    assert log.append([batch]) == [None]


def values_of(
    log: LogReader, session: str = "main", *, agent: ActorId = 1, through: Position | None = None
) -> Iterator[tuple[Position, Json]]:
    """What the agent's view has to show at each commit's end, folded anew from the log."""
    tail, state = Tail(log, TOPICS, session), EMPTY
    known: dict[EntryId, Entry] = {}
    while commits := tail.read(to=through):
        for commit in commits:
            state = fold_commit(state, commit)
            known |= entries_in(commit)
            entries = [known[id] for id in state.entry_ids(agent)]
            yield state.position, value_with(state, agent, entries)

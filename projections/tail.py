"""Reading a log on and on, in whole commits, while somebody else extends it.

Every page is a short transaction of its own and nothing stays open in between, so that a reader who
stops never keeps the store from being checkpointed.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from pi_actors.core.errors import LogCorrupt, NotFound, StoreError
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import Commit, Recorded
from pi_actors.storage.codec import Topics, decode_rows
from pi_actors.storage.log import Head, LogReader, Row


class Tail:
    """What of a session's log was not read yet. Its methods block; one thread at a time calls them.

    Positions are dense, so rows without a gap between them have lost nothing. Where there is a gap,
    progress was scavenged, and states are exact again from the end of a later commit on.

    ``exact_from``: of the commits that were read last, a fold has the exact state at those that end
    there or later. Before that some progress is missing from it; all else is as it was.
    """

    def __init__(
        self,
        log: LogReader,
        topics: Topics,
        session: SessionId,
        *,
        after: Position = 0,
        last: Row | None = None,
        exact_from: Position = 0,
    ) -> None:
        """Start after the commit that ends at *after*. *last*: its last row, if that was read before.

        *exact_from*: what another tail said that has read up to there.
        """
        self.exact_from = exact_from
        self._scavenged_to: Position = 0
        self._log = log
        self._topics = topics
        self._session = session
        self._epoch = 0
        self._after = after
        self._last = last
        self._open: tuple[Recorded, ...] = ()

    @property
    def last(self) -> Row | None:
        """The last row that was read."""
        return self._last

    def read(self, *, to: Position | None = None) -> list[Commit]:
        """The whole commits of the next page that has any; none at the end of the log, or at *to*.

        Raises:
            NotFound: the store has no such session.
            LogCorrupt: a row is damaged; the message names its position.
            StoreError: the log is not the one that was read before, or cannot be read any more.
        """
        head = self._head()
        limit = head.position if to is None else min(to, head.position)
        while self._after < limit:
            if commits := self._page(limit):
                return commits
        return []

    def _head(self) -> Head:
        head = self._log.head(self._session)
        if head is None and self._epoch == 0:
            known = ", ".join(repr(other.session) for other in self._log.heads()) or "none"
            raise NotFound(f"the store has no session {self._session!r}; its sessions are: {known}")
        if head is None or head.epoch < self._epoch or head.position < self._after:
            raise self._replaced()
        self._epoch, self._scavenged_to = head.epoch, min(head.scavenged_to, head.position)
        return head

    def _page(self, limit: Position) -> list[Commit]:
        """The commits that are whole by the end of the next page.

        A head is never within a commit, so all of a commit that ends by *limit* has been stored;
        what is missing of it was scavenged.
        """
        rows = self._up_to_gap(self._rows(limit), limit)
        reached = rows[-1].position if rows else limit
        events = (*self._open, *decode_rows(self._session, rows, self._topics))
        whole = [event for event in events if event.end <= reached]
        self._open = tuple(event for event in events if event.end > reached)
        self._after, self._last = reached, rows[-1] if rows else self._last
        return [tuple(commit) for _, commit in groupby(whole, lambda event: event.end)]

    def _up_to_gap(self, rows: Sequence[Row], limit: Position) -> Sequence[Row]:
        """*rows*, or those before the first gap where states were exact so far.

        Raises:
            LogCorrupt: rows are missing that were not scavenged.
        """
        if rows and rows[-1].position == self._after + len(rows):
            return rows
        gaps = list(self._gaps(rows, limit))
        before_gap = gaps[0].start - self._after - 1
        if before_gap and self._after >= self.exact_from:
            return rows[:before_gap]
        # Whoever deletes rows raises scavenged_to with that, so a look after the reading tells enough.
        self._head()
        for gap in gaps:
            if gap.stop > self._scavenged_to + 1:
                missing = max(gap.start, self._scavenged_to + 1)
                raise LogCorrupt(self._session, missing, f"the rows from here to {gap.stop - 1} are missing")
        self.exact_from = max(self.exact_from, self._scavenged_to)
        return rows

    def _gaps(self, rows: Sequence[Row], limit: Position) -> Iterator[range]:
        """The positions up to the last of *rows* that have none; all up to *limit* where there are none."""
        before = self._after
        for row in rows:
            if row.position > before + 1:
                yield range(before + 1, row.position)
            before = row.position
        if not rows:
            yield range(before + 1, limit + 1)

    def _rows(self, limit: Position) -> Sequence[Row]:
        """The next rows. The last one read is read once more: the next ones follow that very row."""
        last = self._last
        if last is None:
            return self._log.read(self._session, after=self._after, through=limit)
        rows = self._log.read(self._session, after=last.position - 1, through=limit)
        if rows and rows[0] == last:
            return rows[1:]
        # Gone, it was scavenged since the last look, or this is another log.
        self._head()
        if self._scavenged_to < last.position:
            raise self._replaced()
        return rows

    def _replaced(self) -> StoreError:
        return StoreError(
            f"session {self._session!r} is not the one that was read up to position {self._after}: its store "
            "was replaced meanwhile. Nothing of the new one was shown; follow it again to see that."
        )

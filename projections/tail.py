"""Reading a log on and on, in whole commits, while somebody else extends it.

Every page is a short transaction of its own and nothing stays open in between, so that a reader who
stops never keeps the store from being checkpointed.
"""

from collections.abc import Sequence
from itertools import groupby

from pi_actors.core.errors import LogCorrupt, NotFound, StoreError
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import Commit, Recorded
from pi_actors.storage.codec import Topics, decode_rows
from pi_actors.storage.log import Head, LogReader, Row


class Tail:
    """What of a session's log was not read yet. Its methods block; one thread at a time calls them.

    ``scavenged_to``: up to there progress may be missing, as of the newest read.
    """

    def __init__(
        self,
        log: LogReader,
        topics: Topics,
        session: SessionId,
        *,
        after: Position = 0,
        last: Row | None = None,
    ) -> None:
        """Start after the commit that ends at *after*. *last*: its last row, if that was read before."""
        self.scavenged_to: Position = 0
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
        self._epoch, self.scavenged_to = head.epoch, head.scavenged_to
        return head

    def _page(self, limit: Position) -> list[Commit]:
        """The commits that are whole by the end of the next page.

        A head is never within a commit, so all of a commit that ends by *limit* has been stored;
        what is missing of it was scavenged.
        """
        rows = self._rows(limit)
        self._require_whole(rows, limit)
        reached = rows[-1].position if rows else limit
        events = (*self._open, *decode_rows(self._session, rows, self._topics))
        whole = [event for event in events if event.end <= reached]
        self._open = tuple(event for event in events if event.end > reached)
        self._after, self._last = reached, rows[-1] if rows else self._last
        return [tuple(commit) for _, commit in groupby(whole, lambda event: event.end)]

    def _require_whole(self, rows: Sequence[Row], limit: Position) -> None:
        """Above ``scavenged_to`` every position has its row."""
        before = self._after
        for position in (*(row.position for row in rows), *(() if rows else (limit + 1,))):
            if position > max(before, self.scavenged_to) + 1:
                missing = max(before, self.scavenged_to) + 1
                raise LogCorrupt(self._session, missing, f"the rows from here to {position - 1} are missing")
            before = position

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
        if self.scavenged_to < last.position:
            raise self._replaced()
        return rows

    def _replaced(self) -> StoreError:
        return StoreError(
            f"session {self._session!r} is not the one that was read up to position {self._after}: its store "
            "was replaced meanwhile. Nothing of the new one was shown; follow it again to see that."
        )

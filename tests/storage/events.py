"""Events, rows and batches for the tests of the log."""

from collections.abc import Sequence

import msgspec

from pi_actors.core.errors import Fenced
from pi_actors.core.record import IndexRows, Recorded
from pi_actors.storage.codec import Topics, encode_row
from pi_actors.storage.log import Batch, Head, Log, LogReader, Row

NOW_US = 1_767_225_600_000_000
NO_INDEX = IndexRows()


class Noted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Something was noted."""

    text: str
    times: int = 1


class Shown(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Something was shown, which nobody needs to know."""

    text: str = ""
    data: object = None


TOPICS = Topics({"Noted": Noted, "Shown": Shown}, display=frozenset({"Shown"}))


def recorded(position: int, *, end: int | None = None, text: str = "a note") -> Recorded:
    """An event at *position*, of a commit that ends at *end* or there."""
    return Recorded(
        position=position,
        end=position if end is None else end,
        at_us=NOW_US + position,
        actor=1,
        cause=0,
        topic="Noted",
        event=Noted(text=text),
    )


def commit(session: str, after: int, count: int = 1, *, text: str = "a note") -> list[Row]:
    """The rows of a commit of *count* events after *after*."""
    end = after + count
    return [
        encode_row(session, recorded(position, end=end, text=text), TOPICS)
        for position in range(after + 1, end + 1)
    ]


def batch(
    session: str,
    after: int,
    count: int = 1,
    *,
    epoch: int = 1,
    index: IndexRows = NO_INDEX,
    live: bool = False,
    text: str = "a note",
) -> Batch:
    """A commit of *count* events after *after*."""
    rows = commit(session, after, count, text=text)
    return Batch(
        session=session,
        epoch=epoch,
        after=after,
        rows=rows,
        index=index,
        live=live,
        at_us=NOW_US + after + count,
    )


def claimed(log: Log, session: str) -> Head:
    """The session's head after its epoch was raised."""
    return log.claim(session, now_us=NOW_US)


def append(log: Log, *batches: Batch) -> None:
    """Store batches that all fit."""
    assert log.append(batches) == [None] * len(batches)


def refusal(outcomes: Sequence[Fenced | None]) -> str:
    """What the one outcome says that is none."""
    (refused,) = [outcome for outcome in outcomes if outcome is not None]
    return str(refused)


def positions(log: LogReader, session: str, *, after: int = 0, through: int = 1_000_000) -> list[int]:
    """The positions of the session's stored rows, whatever their number."""
    found: list[int] = []
    while page := log.read(session, after=found[-1] if found else after, through=through):
        found += [row.position for row in page]
    return found


def shown_batch(session: str, after: int, count: int = 1, *, text: str = "a glimpse") -> Batch:
    """A commit of *count* events that are only for display."""
    whole = batch(session, after, count)
    rows = [
        encode_row(
            session,
            msgspec.structs.replace(
                recorded(row.position, end=after + count), topic="Shown", event=Shown(text=text)
            ),
            TOPICS,
        )
        for row in whole.rows
    ]
    return msgspec.structs.replace(whole, rows=rows)

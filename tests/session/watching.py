"""What a session's log holds, for tests that look at events."""

from collections.abc import Iterable

from pi_actors import Entry, Session
from pi_actors.core.record import Commit
from pi_actors.storage.codec import decode_rows, published


async def events_of(session: Session, *, after: int = 0) -> list[Commit]:
    """The whole commits stored after a position."""
    store = session.live.store
    rows = store.log.read(session.id, after=after, through=session.position)
    return list(published(decode_rows(session.id, rows, store.topics)))


async def topics_of(session: Session, *, after: int = 0) -> list[str]:
    """The topics stored after a position, in order."""
    return [each.topic for commit in await events_of(session, after=after) for each in commit]


def kinds_of(entries: Iterable[Entry]) -> list[str]:
    """The kinds of entries, in order."""
    return [entry.kind for entry in entries]

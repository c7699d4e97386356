"""Reading what transcript entries say from the log, by their ids. No entry ever changes or goes."""

from collections.abc import Iterable, Sequence
from typing import Final

from pi_actors.core.errors import LogCorrupt
from pi_actors.core.ids import EntryId, SessionId
from pi_actors.core.messages import Entry
from pi_actors.core.record import Recorded
from pi_actors.storage.codec import Topics, decode_rows
from pi_actors.storage.log import LogReader
from projections.transcript import entry_in

PAGE_ENTRIES: Final = 200
"""So many are read in one short transaction."""


def read_entries(
    log: LogReader, topics: Topics, session: SessionId, ids: Sequence[EntryId]
) -> tuple[Entry, ...]:
    """The entries *ids*, in that order. Blocks.

    Raises:
        LogCorrupt: one is missing or damaged; the message names its position.
    """
    found: dict[EntryId, Entry] = {}
    for start in range(0, len(ids), PAGE_ENTRIES):
        rows = log.read_at(session, ids[start : start + PAGE_ENTRIES])
        found |= entries_in(decode_rows(session, rows, topics))
    for id in ids:
        if id not in found:
            raise LogCorrupt(session, id, "the row of a transcript entry is missing")
    return tuple(found[id] for id in ids)


def entries_in(events: Iterable[Recorded]) -> dict[EntryId, Entry]:
    """The entries that *events* put into transcripts, by their ids."""
    entries = (entry_in(recorded) for recorded in events)
    return {entry.id: entry for entry in entries if entry is not None}

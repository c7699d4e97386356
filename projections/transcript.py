"""The active transcript: the entries that the next request may draw on, and nothing older.

An entry with a head (a summary, a reset) moves the start: it stands first, then every entry from
its head on, older such entries left out. A head that is the entry itself starts afresh. What lies
before the start stays in the log and is read from there.
"""

from typing import Final

import immutables
import msgspec

from pi_actors.actors.agent.entries import entry_of
from pi_actors.core.ids import EntryId
from pi_actors.core.messages import Entry
from pi_actors.core.record import Recorded
from projections.fold import Document, Projection, as_json, in_calendar


class TranscriptState(msgspec.Struct, frozen=True, kw_only=True):
    """``start``: the newest entry with a head. ``rest``: the others from that head on, by id."""

    start: Entry | None = None
    rest: "immutables.Map[EntryId, Entry]" = immutables.Map()


def evolve(state: TranscriptState, recorded: Recorded) -> TranscriptState:
    """The transcript after *recorded*."""
    entry = entry_of(
        recorded.event,
        position=recorded.position,
        agent=recorded.actor,
        at_us=in_calendar(recorded.at_us),
    )
    if entry is None:
        return state
    if entry.head is None:
        return TranscriptState(start=state.start, rest=state.rest.set(entry.id, entry))
    if entry.head > entry.id:
        return state
    return TranscriptState(start=entry, rest=_from(state.rest, entry.head))


def active_entries(state: TranscriptState) -> tuple[Entry, ...]:
    """The entries from the start on, in their order."""
    rest = tuple(state.rest[id] for id in sorted(state.rest))
    return rest if state.start is None else (state.start, *rest)


def document(state: TranscriptState) -> Document:
    """The entries as JSON."""
    return {"entries": [as_json(entry) for entry in active_entries(state)]}


TRANSCRIPT: Final = Projection(
    name="transcript", version=1, initial=TranscriptState(), evolve=evolve, document=document
)


def _from(entries: "immutables.Map[EntryId, Entry]", head: EntryId) -> "immutables.Map[EntryId, Entry]":
    return immutables.Map({id: entry for id, entry in entries.items() if id >= head})

"""The active transcript: which entries the next request may draw on, and nothing older.

An entry with a head (a summary, a reset) moves the start: it stands first, then every entry from
its head on, older such entries left out. Of what lies before the head the newest pi.system entry
stays, right after the start, since instructions in force are never summarised away. A head that is
the entry itself starts afresh, with nothing kept. A fork begins with what its parent had in context.

The fold knows ids only; what an entry says stands in the log and is read from there by its id. The
agent remembers the same by itself (``actors/agent/transcript.py``): neither side imports the other's
fold, and tests compare the two.
"""

from typing import Final

import msgspec

from pi_actors.actors.agent.entries import entry_of, fork_of
from pi_actors.actors.agent.messages import EntryAppended, ResponseSettled, ToolResultSettled
from pi_actors.core.chunks import Chunks, chunks_of, grow_chunks, items_of
from pi_actors.core.ids import ActorId, EntryId
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.messages import Entry
from pi_actors.core.record import Recorded
from projections.fold import Document, Projection, in_calendar

SYSTEM: Final = "pi.system"


class TranscriptState(msgspec.Struct, frozen=True, kw_only=True):
    """``start``: the newest entry with a head. ``rest``: the others, ascending.

    ``system``: the newest pi.system entry among those.
    """

    start: EntryId | None = None
    rest: Chunks[EntryId] = ()
    system: EntryId | None = None


def evolve(state: TranscriptState, recorded: Recorded) -> TranscriptState:
    """The transcript after *recorded*."""
    id = recorded.position
    if id <= _newest(state):
        return state
    match recorded.event:
        case EntryAppended(head=None, kind=kind):
            return _grown(state, id, system=id if kind == SYSTEM else state.system)
        case ResponseSettled() | ToolResultSettled():
            return _grown(state, id, system=state.system)
        case EntryAppended(head=int() as head) if head == id:
            return TranscriptState(start=id)
        case EntryAppended(head=int() as head) if head < id:
            return _started(state, id, head)
        case AgentSpawned() as event if event.input:
            return _born(id, event)
        case _:
            return state


def active_ids(state: TranscriptState) -> tuple[EntryId, ...]:
    """The entries from the start on, in their order."""
    rest = items_of(state.rest)
    return rest if state.start is None else (state.start, *rest)


def entry_in(recorded: Recorded) -> Entry | None:
    """The entry that *recorded* put into a transcript, None where it put none there."""
    return entry_of(
        recorded.event,
        position=recorded.position,
        agent=recorded.actor,
        at_us=in_calendar(recorded.at_us),
    )


def document(state: TranscriptState) -> Document:
    """The ids of the entries, as JSON."""
    return {"entries": list(active_ids(state))}


TRANSCRIPT: Final = Projection(
    name="transcript", version=2, initial=TranscriptState(), evolve=evolve, document=document
)


def _born(id: ActorId, event: AgentSpawned) -> TranscriptState:
    """What the agent *id* begins with; an input that is none of a fork is no history."""
    try:
        fork = fork_of(event)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        fork = None
    inherited = [] if fork is None else [entry for entry in fork.context if entry.id < id]
    rest = tuple(entry.id for entry in inherited if not entry.heads)
    return TranscriptState(
        start=max((entry.id for entry in inherited if entry.heads), default=None),
        rest=chunks_of(rest),
        system=max(
            (entry.id for entry in inherited if entry.part == "instructions" and not entry.heads),
            default=None,
        ),
    )


def _grown(state: TranscriptState, id: EntryId, *, system: EntryId | None) -> TranscriptState:
    return TranscriptState(start=state.start, rest=grow_chunks(state.rest, id), system=system)


def _started(state: TranscriptState, start: EntryId, head: EntryId) -> TranscriptState:
    kept = tuple(id for id in items_of(state.rest) if id >= head or id == state.system)
    return TranscriptState(start=start, rest=chunks_of(kept), system=state.system)


def _newest(state: TranscriptState) -> EntryId:
    return max(state.start or 0, state.rest[-1][-1] if state.rest else 0)

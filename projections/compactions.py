"""The live compactions of an agent: who wants them, who writes the summary, how far it is."""

from typing import TypeAlias

import immutables
import msgspec

from pi_actors.actors.compaction.messages import (
    KIND,
    CompactionInput,
    SummaryFailed,
    SummaryRepeated,
    SummarySettled,
    SummaryStarted,
    Trigger,
)
from pi_actors.core.ids import ActorId
from pi_actors.core.lifecycle import WorkEnded, WorkSpawned
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from projections.fold import iso


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """One compaction. ``part``: the number, from 0, of the part that is being summarised.

    ``due_us`` and ``error``: when the next attempt is due and why, after a failed one.
    """

    trigger: Trigger
    model: str | None = None
    part: int = 0
    attempt: int = 1
    due_us: int | None = None
    error: str | None = None


Compactions: TypeAlias = immutables.Map[ActorId, Compaction]
NO_COMPACTIONS: Compactions = immutables.Map()


def evolve_compactions(compactions: Compactions, recorded: Recorded) -> Compactions:
    """The agent's live compactions after *recorded*."""
    id, event = recorded.actor, recorded.event
    if isinstance(event, WorkSpawned):
        begun = _begun(event)
        return compactions if begun is None else compactions.set(id, begun)
    compaction = compactions.get(id)
    if compaction is None:
        return compactions
    match event:
        case WorkEnded():
            return compactions.delete(id)
        case SummaryStarted(model=model):
            changed = Compaction(trigger=compaction.trigger, model=model)
        case SummarySettled(part=part):
            changed = Compaction(trigger=compaction.trigger, model=compaction.model, part=part + 1)
        case SummaryFailed(due_us=due_us, error=error):
            changed = msgspec.structs.replace(compaction, due_us=due_us, error=error)
        case SummaryRepeated(attempt=attempt):
            changed = msgspec.structs.replace(compaction, attempt=attempt, due_us=None, error=None)
        case _:
            return compactions
    return compactions.set(id, changed)


def compactions_document(compactions: Compactions) -> list[Json]:
    """The compactions as JSON, oldest first."""
    return [_document(id, compactions[id]) for id in sorted(compactions)]


def _begun(event: WorkSpawned) -> Compaction | None:
    if event.kind != KIND:
        return None
    try:
        born = msgspec.msgpack.decode(event.input, type=CompactionInput)
    except msgspec.MsgspecError:
        return None
    return Compaction(trigger=born.trigger)


def _document(id: ActorId, compaction: Compaction) -> Json:
    due_us = compaction.due_us
    return {
        "actor": id,
        "trigger": compaction.trigger,
        "model": compaction.model,
        "part": compaction.part,
        "attempt": compaction.attempt,
        "due": None if due_us is None else iso(due_us),
        "error": compaction.error,
    }

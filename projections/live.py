"""pi.live: what the agent is doing right now, and calls whose effect nobody knows.

``{"run": None | {"id", "inputs", "recovery_attempt"},
"generation": None | {"actor", "attempt", "model", "turn", "partial": [{"type", "text", "name"}]},
"retry": None | {"attempt", "due", "error"}, "tools": [SLOT], "compactions": [],
"unknown": [{"entry", "index", "name", "since"}]}``

``attempt``, ``model`` and ``turn`` are null while no request is out; only calls have a ``name``.
``due`` and ``since`` are ISO instants; a SLOT is described in ``tool_slots``.
"""

from typing import Final

import msgspec

from pi_actors.actors.agent.messages import (
    RunEnded,
    RunRecovered,
    RunStarted,
    SubmissionPlaced,
    ToolResultSettled,
)
from pi_actors.core.ids import Position, SubmissionId
from pi_actors.core.messages import CallRef
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from projections.attempt import Generation, evolve_generation, generation_document, retry_document
from projections.compactions import (
    NO_COMPACTIONS,
    Compactions,
    compactions_document,
    evolve_compactions,
)
from projections.fold import Document, Projection, as_json, iso
from projections.tool_slots import Round, evolve_round, slots_document, slots_document_after


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The active run. ``recovery_attempt``: the newest recorded one, 0 where there was none."""

    id: Position
    inputs: tuple[SubmissionId, ...]
    recovery_attempt: int = 0


class UnknownCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that may or may not have had its effect.

    It is listed from its interrupted result until a later call of the same tool has a result of its own.
    """

    call: CallRef
    name: str
    since_us: int


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """Five small folds side by side."""

    run: Run | None = None
    generation: Generation | None = None
    round: Round = Round()
    unknown: tuple[UnknownCall, ...] = ()
    compactions: Compactions = NO_COMPACTIONS


def evolve(state: LiveState, recorded: Recorded) -> LiveState:
    """What is live after *recorded*; the same object where nothing of it has changed."""
    run = _evolve_run(state.run, recorded)
    generation = evolve_generation(state.generation, recorded)
    round = evolve_round(state.round, recorded)
    unknown = _evolve_unknown(state.unknown, recorded)
    compactions = evolve_compactions(state.compactions, recorded)
    if (
        run is state.run
        and generation is state.generation
        and round is state.round
        and unknown is state.unknown
        and compactions is state.compactions
    ):
        return state
    return LiveState(run=run, generation=generation, round=round, unknown=unknown, compactions=compactions)


def document(state: LiveState) -> Document:
    """What is live, as JSON."""
    return _document(state, slots_document(state.round))


def document_after(old: LiveState, shown: Document, new: LiveState) -> Document:
    """``document`` of *new*, sharing with what was *shown* of *old* the slots that are the same."""
    return _document(new, slots_document_after(old.round, shown["tools"], new.round))


def _document(state: LiveState, tools: list[Json]) -> Document:
    return {
        "run": None if state.run is None else as_json(state.run),
        "generation": generation_document(state.generation),
        "retry": retry_document(state.generation),
        "tools": tools,
        "compactions": compactions_document(state.compactions),
        "unknown": [_unknown_document(call) for call in state.unknown],
    }


LIVE: Final = Projection(name="pi.live", version=3, initial=LiveState(), evolve=evolve, document=document)


def _evolve_run(run: Run | None, recorded: Recorded) -> Run | None:
    match recorded.event:
        case RunStarted(inputs=inputs):
            return Run(id=recorded.position, inputs=inputs)
        case RunEnded(run=id) if run is not None and id == run.id:
            return None
        case RunRecovered(run=id, attempt=attempt) if run is not None and id == run.id:
            return Run(id=id, inputs=run.inputs, recovery_attempt=attempt)
        case SubmissionPlaced(mode="steer" | "follow_up") as placed if run is not None:
            joined = placed.submission or recorded.position
            return msgspec.structs.replace(run, inputs=(*run.inputs, joined))
        case _:
            return run


def _evolve_unknown(unknown: tuple[UnknownCall, ...], recorded: Recorded) -> tuple[UnknownCall, ...]:
    match recorded.event:
        case ToolResultSettled(own=True, name=name):
            return tuple(call for call in unknown if call.name != name)
        case ToolResultSettled(own=False, name=name, call=call, diagnostics=diagnostics):
            if all(diagnostic.code != "interrupted" for diagnostic in diagnostics):
                return unknown
            return (*unknown, UnknownCall(call=call, name=name, since_us=recorded.at_us))
        case _:
            return unknown


def _unknown_document(unknown: UnknownCall) -> Json:
    return {
        "entry": unknown.call.entry,
        "index": unknown.call.index,
        "name": unknown.name,
        "since": iso(unknown.since_us),
    }

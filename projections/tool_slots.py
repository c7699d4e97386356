"""Tool slots: the calls of a round that have no result yet, and how far each of them is.

A SLOT of pi.live is ``{"actor", "entry", "index", "name", "arguments", "state", "output",
"skipped_bytes", "details", "diagnostics", "started_at"}``. States: waiting (its actor comes when an
earlier call of the round has ended), pending (not begun), running (it may have begun),
reconciling (the outside world is asked what became of it). A slot goes with the commit that
stores the call's result.
"""

from typing import Literal

import msgspec

from pi_actors.actors.agent.messages import ResponseSettled, ToolResultSettled
from pi_actors.actors.generation.messages import RequestStarted, ToolRoundStarted
from pi_actors.actors.tool.messages import (
    KIND,
    ToolDetailsReported,
    ToolInput,
    ToolOutputStreamed,
    ToolReconcileStarted,
    ToolStarted,
)
from pi_actors.core.ids import NOBODY, ActorId, EntryId
from pi_actors.core.lifecycle import WorkEnded, WorkSpawned
from pi_actors.core.messages import Call, CallRef, Diagnostic
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from pi_actors.core.window import OutputWindow, append
from projections.fold import as_json, iso


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """A call that has begun, as far as it has shown itself."""

    started_us: int
    output: OutputWindow
    reconciling: bool = False
    details: Json = None
    diagnostics: tuple[Diagnostic, ...] = ()


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A call without a result. ``actor`` is None while it waits for its turn."""

    call: CallRef
    name: str
    arguments: str
    actor: ActorId | None = None
    execution: Execution | None = None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The newest response's calls until their round has begun, which slots take their arguments from; the
    slots; and whose round it is.
    """

    entry: EntryId = 0
    calls: tuple[Call, ...] = ()
    generation: ActorId = NOBODY
    slots: tuple[Slot, ...] = ()


def evolve_round(state: Round, recorded: Recorded) -> Round:
    """The calls and slots after *recorded*."""
    match recorded.event:
        case ResponseSettled(parts=parts):
            calls = tuple(part for part in parts if isinstance(part, Call))
            return msgspec.structs.replace(state, entry=recorded.position, calls=calls)
        case ToolResultSettled(call=call):
            return _keep(state, tuple(slot for slot in state.slots if slot.call != call))
        case ToolRoundStarted() as event:
            return _open(state, recorded.actor, event)
        case WorkSpawned(kind=kind, input=input):
            born = _tool_input(input) if kind == KIND else None
            return state if born is None else _spawn(state, recorded.actor, born)
        case RequestStarted() | WorkEnded():
            return _leave(state, recorded.actor)
        case ToolStarted() | ToolOutputStreamed() | ToolDetailsReported() | ToolReconcileStarted():
            return _keep(state, tuple(_advance(slot, recorded) for slot in state.slots))
        case _:
            return state


def slots_document(state: Round) -> list[Json]:
    """The slots as JSON, in the order of their calls."""
    return [_slot_document(slot) for slot in _in_order(state)]


def slots_document_after(old: Round, shown: list[Json], new: Round) -> list[Json]:
    """``slots_document`` of *new*, sharing with what was *shown* of *old* the slots that are the same."""
    known = {id(slot): document for slot, document in zip(_in_order(old), shown, strict=True)}
    return [known.get(id(slot)) or _slot_document(slot) for slot in _in_order(new)]


def _in_order(state: Round) -> list[Slot]:
    return sorted(state.slots, key=lambda slot: (slot.call.entry, slot.call.index))


def _keep(state: Round, slots: tuple[Slot, ...]) -> Round:
    return msgspec.structs.replace(state, slots=slots)


def _open(state: Round, generation: ActorId, event: ToolRoundStarted) -> Round:
    """Every call of the round has a slot at once; those that run find their actor right after."""
    taken = {slot.call for slot in state.slots}
    refs = [(CallRef(entry=event.entry, index=call.index), call.name) for call in event.calls]
    new = [
        Slot(call=ref, name=name, arguments=_arguments(state, ref))
        for ref, name in dict(refs).items()
        if ref not in taken
    ]
    return Round(entry=state.entry, generation=generation, slots=(*state.slots, *new))


def _spawn(state: Round, actor: ActorId, born: ToolInput) -> Round:
    ref = CallRef(entry=born.entry, index=born.index)
    others = tuple(slot for slot in state.slots if slot.call != ref)
    waiting = next((slot for slot in state.slots if slot.call == ref), None)
    arguments = _arguments(state, ref) if waiting is None else waiting.arguments
    return _keep(state, (*others, Slot(call=ref, name=born.name, arguments=arguments, actor=actor)))


def _leave(state: Round, actor: ActorId) -> Round:
    """What ended holds no slot; a round that is over leaves no call waiting."""
    over = actor == state.generation
    slots = tuple(slot for slot in state.slots if slot.actor != actor and not (over and slot.actor is None))
    return _keep(state, slots)


def _advance(slot: Slot, recorded: Recorded) -> Slot:
    """The slot after its actor's event; whoever begins again starts with nothing shown."""
    if slot.actor != recorded.actor:
        return slot
    match recorded.event, slot.execution:
        case ToolStarted() as event, _:
            arguments = slot.arguments if event.arguments is None else event.arguments
            started = Execution(started_us=recorded.at_us, output=_window(event))
            return msgspec.structs.replace(slot, arguments=arguments, execution=started)
        case _, None:
            return slot
        case event, execution:
            return msgspec.structs.replace(slot, execution=_show(execution, event))


def _show(execution: Execution, event: msgspec.Struct) -> Execution:
    match event:
        case ToolOutputStreamed():
            return msgspec.structs.replace(
                execution,
                output=append(execution.output, event.text, event.skipped_bytes),
                diagnostics=execution.diagnostics + event.diagnostics,
            )
        case ToolDetailsReported():
            return msgspec.structs.replace(execution, details=event.details)
        case ToolReconcileStarted():
            return msgspec.structs.replace(execution, reconciling=True)
        case _:
            return execution


def _window(event: ToolStarted) -> OutputWindow:
    return OutputWindow(
        max_bytes=max(event.max_bytes, 1),
        max_lines=max(event.max_lines, 1),
        keep_head=event.keep_head,
    )


def _arguments(state: Round, ref: CallRef) -> str:
    """The call's own text, where the response it stands in is the newest."""
    if ref.entry != state.entry:
        return ""
    return next((call.arguments for call in state.calls if call.index == ref.index), "")


def _tool_input(stored: bytes) -> ToolInput | None:
    try:
        return msgspec.msgpack.decode(stored, type=ToolInput)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _slot_document(slot: Slot) -> Json:
    document: dict[str, Json] = {
        "actor": slot.actor,
        "entry": slot.call.entry,
        "index": slot.call.index,
        "name": slot.name,
        "arguments": slot.arguments,
        "state": _state(slot),
    }
    return document | _execution_document(slot.execution)


def _state(slot: Slot) -> Literal["waiting", "pending", "running", "reconciling"]:
    if slot.execution is not None:
        return "reconciling" if slot.execution.reconciling else "running"
    return "waiting" if slot.actor is None else "pending"


def _execution_document(execution: Execution | None) -> dict[str, Json]:
    if execution is None:
        return {"output": "", "skipped_bytes": 0, "details": None, "diagnostics": [], "started_at": None}
    shown = execution.output.shown()
    return {
        "output": shown.text,
        "skipped_bytes": shown.skipped_bytes,
        "details": as_json(execution.details),
        "diagnostics": as_json(execution.diagnostics),
        "started_at": iso(execution.started_us),
    }

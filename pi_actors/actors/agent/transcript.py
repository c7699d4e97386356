"""The active context as an agent remembers it: ids and sizes of its entries, never their bodies.

An entry with a head moves the start of the context. A reset is its own head: nothing before it
stays. A summary's head is the first entry that stays word for word; beside the entries from there
on, the instructions in force stay, too. Earlier entries with a head go in both cases.
"""

from typing import Final, TypeAlias

from pi_actors.actors.agent.entries import EntryMeta, Part
from pi_actors.actors.agent.messages import EntryAppended, ResponseSettled, ToolResultSettled
from pi_actors.core.chunks import Chunks, chunks_of, grow_chunks, items_of
from pi_actors.core.ids import EntryId, Position
from pi_actors.core.messages import Call, Diagnostic
from pi_actors.core.tokens import message_tokens, parts_tokens, text_tokens

SENT: Final = frozenset({"answer", "calls", "length"})
"""How a response that later requests carry has stopped."""

Context: TypeAlias = Chunks[EntryMeta]


def appended(context: Context, position: Position, event: EntryAppended) -> Context:
    """*context* after the entry."""
    meta = EntryMeta(
        id=position,
        heads=event.head is not None,
        tokens=message_tokens(event.messages),
        part=_part_of(event),
    )
    if event.head is None:
        return grow_chunks(context, meta)
    return chunks_of((meta, *_kept(items_of(context), event.head, position)))


def responded(context: Context, position: Position, event: ResponseSettled) -> Context:
    """*context* after the response; one that failed or was aborted is never sent."""
    sent = event.info.stop in SENT
    calls = tuple(part.wire_id for part in event.parts if isinstance(part, Call)) if sent else ()
    tokens = parts_tokens(event.parts) if sent else 0
    return grow_chunks(
        context, EntryMeta(id=position, sent=sent, wire_ids=calls, tokens=tokens, part="assistant")
    )


def resulted(context: Context, position: Position, event: ToolResultSettled) -> Context:
    """*context* after the result of a call."""
    tokens = parts_tokens(event.content) + _remarks(event.diagnostics)
    return grow_chunks(
        context, EntryMeta(id=position, tokens=tokens, part="result", answers=event.call.entry)
    )


def _kept(entries: tuple[EntryMeta, ...], head: EntryId, position: Position) -> list[EntryMeta]:
    """What stays of *entries* behind an entry at *position* whose head is *head*."""
    in_force: EntryId = 0
    if head != position:
        in_force = max((entry.id for entry in entries if entry.part == "instructions"), default=0)
    return [entry for entry in entries if not entry.heads and (entry.id >= head or entry.id == in_force)]


def _part_of(event: EntryAppended) -> Part:
    if event.kind == "pi.system":
        return "instructions"
    match event.messages[0].role if event.messages else None:
        case "user":
            return "user"
        case "assistant":
            return "assistant"
        case "system":
            return "note"
        case "tool":
            return "result"
        case None:
            return "nothing"


def _remarks(diagnostics: tuple[Diagnostic, ...]) -> int:
    return sum(text_tokens(remark.text) for remark in diagnostics)

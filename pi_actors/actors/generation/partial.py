"""The part of a response that has streamed and is stored, growing by deltas."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from pi_actors.actors.generation.messages import Delta
from pi_actors.core.messages import Call, Part, Text, Thinking
from pi_actors.core.rope import Rope, grow_rope, rope_text


class PartialPart(msgspec.Struct, frozen=True, kw_only=True):
    """One unfinished part; a call's text is its arguments so far."""

    type: Literal["text", "thinking", "call"]
    text: Rope = ()
    name: str = ""
    wire_id: str = ""


Partial: TypeAlias = tuple[PartialPart, ...]


def grow(partial: Partial, deltas: Iterable[Delta]) -> Partial:
    """*partial* after *deltas*. A delta may grow any part or start the next one."""
    parts = list(partial)
    for delta in deltas:
        if delta.part >= len(parts):
            parts.append(PartialPart(type=delta.type))
        place = min(delta.part, len(parts) - 1)
        part = parts[place]
        parts[place] = PartialPart(
            type=part.type,
            text=grow_rope(part.text, delta.text),
            name=part.name or delta.name,
            wire_id=part.wire_id or delta.wire_id,
        )
    return tuple(parts)


def parts_of(partial: Partial) -> tuple[Part, ...]:
    """The parts as they stand, calls numbered in order; parts without content are left out."""
    parts: list[Part] = []
    calls = 0
    for part in partial:
        text = rope_text(part.text)
        match part.type:
            case "call":
                parts.append(Call(index=calls, wire_id=part.wire_id, name=part.name, arguments=text))
                calls += 1
            case "text" if text:
                parts.append(Text(text=text))
            case "thinking" if text:
                parts.append(Thinking(text=text))
            case _:
                pass
    return tuple(parts)

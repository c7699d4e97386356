"""The partial message: what has arrived of a response that is still streaming."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from pi_actors.actors.generation.messages import Delta
from pi_actors.core.rope import Rope, grow_rope, rope_text
from pi_actors.core.text import Json


class PartialPart(msgspec.Struct, frozen=True, kw_only=True):
    """Part number ``part`` so far; the text of a call is its arguments."""

    part: int
    type: Literal["text", "thinking", "call"]
    text: Rope = ()
    name: str = ""


Partial: TypeAlias = tuple[PartialPart, ...]
"""The parts in the order of their numbers."""


def grow(partial: Partial, deltas: Sequence[Delta]) -> Partial:
    """*partial* after *deltas*; one that speaks of another type than its part has is ignored."""
    parts = {part.part: part for part in partial}
    for delta in deltas:
        parts[delta.part] = _grow_part(parts.get(delta.part), delta)
    return tuple(parts[number] for number in sorted(parts))


def partial_document(partial: Partial) -> list[Json]:
    """The parts as JSON: type and text, and the name of a call."""
    return [_part_document(part) for part in partial]


def _grow_part(part: PartialPart | None, delta: Delta) -> PartialPart:
    if part is None:
        return PartialPart(part=delta.part, type=delta.type, text=grow_rope((), delta.text), name=delta.name)
    if part.type != delta.type:
        return part
    return PartialPart(
        part=part.part, type=part.type, text=grow_rope(part.text, delta.text), name=delta.name or part.name
    )


def _part_document(part: PartialPart) -> Json:
    document: dict[str, Json] = {"type": part.type, "text": rope_text(part.text)}
    if part.type == "call":
        document["name"] = part.name
    return document

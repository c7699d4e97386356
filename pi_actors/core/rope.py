"""Text that grows by small pieces, as an immutable value with cheap appends."""

from typing import TypeAlias

Rope: TypeAlias = tuple[str, ...]
"""Pieces in order, each at least twice as long as the next: few, however long the text."""


def grow_rope(rope: Rope, text: str) -> Rope:
    """*rope* followed by *text*, in amortised logarithmic time; deterministic for equal pieces."""
    if not text:
        return rope
    pieces = [*rope, text]
    while len(pieces) > 1 and len(pieces[-2]) < 2 * len(pieces[-1]):
        last = pieces.pop()
        pieces[-1] += last
    return tuple(pieces)


def rope_text(rope: Rope) -> str:
    """The whole text."""
    return "".join(rope)

"""A sequence that grows by one item at a time, as an immutable value with cheap appends."""

from itertools import chain
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Chunks: TypeAlias = tuple[tuple[T, ...], ...]
"""Items in order, in chunks each at least twice as long as the next: few, however many items."""


def grow_chunks(chunks: Chunks[T], item: T) -> Chunks[T]:
    """*chunks* followed by *item*, in amortised logarithmic time."""
    grown: tuple[T, ...] = (item,)
    kept = len(chunks)
    while kept and len(chunks[kept - 1]) < 2 * len(grown):
        kept -= 1
        grown = chunks[kept] + grown
    return (*chunks[:kept], grown)


def chunks_of(items: tuple[T, ...]) -> Chunks[T]:
    """*items* as one chunk."""
    return (items,) if items else ()


def items_of(chunks: Chunks[T]) -> tuple[T, ...]:
    """All items in order."""
    return chunks[0] if len(chunks) == 1 else tuple(chain.from_iterable(chunks))

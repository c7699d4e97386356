"""Frames: what one commit changed in a view, as a few small operations on JSON.

A value is never changed in place: ``apply_frame`` gives a new one, which shares with the old one all
that the frame does not touch. ``diff`` finds the operations that lead from one value to another.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import is_
from typing import Final, Literal, TypeAlias, TypeGuard

import msgspec

from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import Position
from pi_actors.core.text import Json
from projections.fold import Document

Path: TypeAlias = tuple[str | int, ...]
"""Keys of objects and places in lists, counted from 0, from the top down; empty: the whole value."""

Key: TypeAlias = tuple[str, int | str, int | str]
"""What an element of a list is known by."""

DELETED_MAX: Final = 100
"""A list that loses more elements at once is sent anew."""


class Op(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change at ``path``.

    set: ``value`` stands there now; an object may get a new key that way. delete: what stood there is
    gone, and later elements of a list move up. insert: ``value`` stands there now, and what stood
    there and after it in the list moves down. append: the text there ends with ``value``, or the
    list there has it as its last element.
    """

    op: Literal["set", "delete", "insert", "append"]
    path: Path
    value: Json = None


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the commit that ends at ``position`` and was made ``at`` (UTC) changed in a view.

    With a ``snapshot`` it is the whole value instead, whatever was known before. What a frame holds is
    shared with values: look at it, do not change it.
    """

    position: Position
    at: datetime
    snapshot: Document | None = None
    ops: tuple[Op, ...] = ()


class FrameDoesNotFit(PiActorsError):
    """The value is not the one that the frame follows: a frame was left out, repeated or mixed up."""


def apply_frame(value: Document, frame: Frame) -> Document:
    """The view's value after *frame*. *value* stays as it is.

    Raises:
        FrameDoesNotFit: the frame does not follow *value*; the message says where they differ.
    """
    if frame.snapshot is not None:
        return frame.snapshot
    for op in frame.ops:
        try:
            value = _applied(value, op, 0)
        except _Misfit as misfit:
            raise FrameDoesNotFit(
                f"the frame of position {frame.position} does not fit this value: it would {op.op} "
                f"{_text(op.path)}, but {misfit}. Attach again and start from the snapshot."
            ) from None
    return value


def diff(old: Json, new: Json) -> tuple[Op, ...]:
    """Few and small operations that make *new* of *old*, none where they are equal.

    What is the same object in both is not looked into. Text that grew is appended to. Elements of
    lists that have an ``id``, or an ``entry`` and an ``index``, are known by it, all others by place.
    """
    return tuple(_changes(old, new, ()))


# Applying.


class _Misfit(Exception):
    """What was found instead."""


def _applied(node: Json, op: Op, depth: int) -> Json:
    """A copy of *node*, which stands after *depth* steps of the path, with *op* carried out."""
    if depth == len(op.path):
        return _replaced(node, op)
    step = op.path[depth]
    copy = _copied(node, step)
    if depth == len(op.path) - 1 and op.op != "append":
        _change(copy, step, op)
    else:
        copy[step] = _applied(_holding(copy, step)[step], op, depth + 1)
    return copy


def _replaced(node: Json, op: Op) -> Json:
    match op.op, node:
        case "set", _:
            return op.value
        case "append", str() if isinstance(op.value, str):
            return node + op.value
        case "append", list():
            return [*node, op.value]
        case _:
            raise _Misfit(f"there is {_kind(node)}")


def _copied(node: Json, step: str | int) -> Json:
    if _is_object(node) or _is_list(node):
        return node.copy()
    raise _Misfit(f"{step!r} is looked for in {_kind(node)}")


def _change(copy: Json, step: str | int, op: Op) -> None:
    """Carry out *op* in the object or list that it changes."""
    match op.op:
        case "set" if _is_object(copy) and isinstance(step, str):
            copy[step] = op.value
        case "insert":
            if not _is_list(copy) or not isinstance(step, int) or not 0 <= step <= len(copy):
                raise _Misfit(f"{step!r} is no place in {_kind(copy)} of {len(copy)}")
            copy.insert(step, op.value)
        case "set":
            _holding(copy, step)[step] = op.value
        case _:
            del _holding(copy, step)[step]


def _holding(container: Json, step: str | int) -> Json:
    """*container*, which has something at *step*."""
    if _is_object(container):
        if step not in container:
            raise _Misfit(f"there is no {step!r}")
    elif not isinstance(step, int) or not 0 <= step < len(container):
        raise _Misfit(f"there is no {step!r} in a list of {len(container)}")
    return container


def _is_object(value: Json) -> TypeGuard[Document]:
    return isinstance(value, dict)


def _is_list(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list)


def _kind(node: Json) -> str:
    match node:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "a number"


def _text(path: Path) -> str:
    return "/".join(map(str, path)) or "the whole value"


# Finding.


def _changes(old: Json, new: Json, path: Path) -> Iterator[Op]:
    if old is new:
        return
    if _is_object(old) and _is_object(new):
        yield from _changes_in_object(old, new, path)
    elif _is_list(old) and _is_list(new):
        yield from _changes_in_list(old, new, path)
    elif _has_grown(old, new):
        yield Op(op="append", path=path, value=new[len(old) :])
    elif not _same(old, new):
        yield Op(op="set", path=path, value=new)


def _has_grown(old: Json, new: Json) -> bool:
    return isinstance(old, str) and isinstance(new, str) and 0 < len(old) < len(new) and new.startswith(old)


def _changes_in_object(old: Document, new: Document, path: Path) -> Iterator[Op]:
    for key in old:
        if key not in new:
            yield Op(op="delete", path=(*path, key))
    for key, value in new.items():
        if key in old:
            yield from _changes(old[key], value, (*path, key))
        else:
            yield Op(op="set", path=(*path, key), value=value)


def _changes_in_list(old: list[Json], new: list[Json], path: Path) -> Iterator[Op]:
    """What is the same at both ends stays; what lies between is aligned."""
    shorter = min(len(old), len(new))
    # Long lists mostly grow at their end; looking at identity alone is much faster.
    start = shorter if all(map(is_, old, new)) else 0
    start = next((place for place in range(start, shorter) if not _same(old[place], new[place])), shorter)
    most = shorter - start
    end = next((back for back in range(most) if not _same(old[-1 - back], new[-1 - back])), most)
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    old_keys, new_keys = _keys(gone), _keys(come)
    if old_keys is None or new_keys is None:
        yield from _by_place(gone, come, path, start, end)
    elif _can_be_aligned(old_keys, new_keys, others=start + end):
        known = dict(zip(old_keys, gone, strict=True))
        yield from _by_key(known, dict(zip(new_keys, come, strict=True)), path, start, end)
    else:
        yield Op(op="set", path=path, value=new)


def _keys(elements: Sequence[Json]) -> list[Key] | None:
    """By what the elements are known, None where one has nothing of that kind or two have the same."""
    keys = [_key(element) for element in elements]
    known = [key for key in keys if key is not None]
    return known if len(set(known)) == len(keys) else None


def _key(element: Json) -> Key | None:
    match element:
        case {"id": int() | str() as id}:
            return ("id", id, 0)
        case {"entry": int() | str() as entry, "index": int() | str() as index}:
            return ("entry", entry, index)
        case _:
            return None


def _can_be_aligned(old: list[Key], new: list[Key], *, others: int) -> bool:
    """Whether something stays, in its order, and not too much goes. *others* stay in any case."""
    kept = set(old) & set(new)
    if not (kept or others or not old) or len(old) - len(kept) > DELETED_MAX:
        return False
    return [key for key in old if key in kept] == [key for key in new if key in kept]


def _by_key(old: dict[Key, Json], new: dict[Key, Json], path: Path, start: int, end: int) -> Iterator[Op]:
    """*start* and *end* elements before and after these stay as they are."""
    for place, key in reversed(list(enumerate(old))):
        if key not in new:
            yield Op(op="delete", path=(*path, start + place))
    length = len(old.keys() & new.keys())
    for place, (key, element) in enumerate(new.items()):
        if key in old:
            yield from _changes(old[key], element, (*path, start + place))
        else:
            yield _added(element, path, start + place, at_the_end=place == length and end == 0)
            length += 1


def _by_place(old: list[Json], new: list[Json], path: Path, start: int, end: int) -> Iterator[Op]:
    for place in reversed(range(len(new), len(old))):
        yield Op(op="delete", path=(*path, start + place))
    for place, element in enumerate(new):
        if place < len(old):
            yield from _changes(old[place], element, (*path, start + place))
        else:
            yield _added(element, path, start + place, at_the_end=end == 0)


def _added(element: Json, path: Path, place: int, *, at_the_end: bool) -> Op:
    if at_the_end:
        return Op(op="append", path=path, value=element)
    return Op(op="insert", path=(*path, place), value=element)


def _same(old: Json, new: Json) -> bool:
    """The same object, or equal values without anything inside; true is not 1."""
    if old is new:
        return True
    return type(old) is type(new) and not isinstance(old, dict | list) and bool(old == new)

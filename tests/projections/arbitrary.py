"""Strategies for events of every stored type, well typed and otherwise arbitrary."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from pi_actors.actors.topics import ALL
from pi_actors.core.decider import Event
from pi_actors.core.record import Recorded, UnknownEvent

SMALL = st.integers(0, 12)
INTEGERS = SMALL | SMALL | st.sampled_from([-(2**63), -1, 2**63 - 1])
TEXT = st.sampled_from(["", "m", "read", "pi.tool", "pi.generation", "0.5", "a\nb\n", "é"])
JSON = (
    st.none() | st.booleans() | TEXT | st.lists(SMALL, max_size=2) | st.dictionaries(TEXT, SMALL, max_size=2)
)


def recorded_at(position: int, end: int) -> st.SearchStrategy[Recorded]:
    """An event at *position* for any actor; a spawn's is itself."""
    return st.builds(
        _recorded,
        st.just(position),
        st.just(end),
        INTEGERS,
        st.just(1) | SMALL,
        st.one_of(*map(_event, _types())),
    )


def _types() -> list[type[Event]]:
    return [*ALL.values(), UnknownEvent]


def _recorded(position: int, end: int, at_us: int, actor: int, event: Event) -> Recorded:
    topic = type(event).__name__
    actor = position if topic in ("AgentSpawned", "WorkSpawned") else actor
    return Recorded(position=position, end=end, at_us=at_us, actor=actor, cause=0, topic=topic, event=event)


@lru_cache
def _event(type_: type[Event]) -> st.SearchStrategy[Event]:
    return _of(inspect.type_info(type_), None)


def _of(type_: inspect.Type, field: str | None) -> st.SearchStrategy[Any]:
    match type_:
        case inspect.StructType(cls=cls, fields=fields):
            given: Mapping[str, st.SearchStrategy[Any]] = {f.name: _of(f.type, f.name) for f in fields}
            return st.builds(cls, **given)
        case inspect.UnionType(types=types):
            return st.one_of(*(_of(one, field) for one in types))
        case inspect.VarTupleType(item_type=item):
            return st.lists(_of(item, field), max_size=3).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*(_of(item, field) for item in items))
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.BytesType():
            return _INPUTS if field == "input" else st.binary(max_size=3)
        case inspect.IntType():
            return _IDS if field in _IDENTIFIERS else INTEGERS
        case inspect.StrType():
            return _KINDS if field == "kind" else TEXT
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.AnyType():
            return JSON
        case _:
            raise AssertionError(type_)


_IDS = st.just(1) | SMALL
_IDENTIFIERS = ("actor", "agent", "owner", "run")
_KINDS = st.sampled_from(["pi.tool", "pi.generation", "pi.user"])
_INPUTS = st.binary(max_size=3) | st.tuples(SMALL, SMALL, TEXT).map(msgspec.msgpack.encode)

"""The state in a snapshot is the state, whatever state that is, or no state at all."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, get_args

import immutables
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_actors.core.decider import Kind
from pi_actors.core.state import EMPTY, STATE_VERSION, Actor, Kinds, SessionState, evolve
from pi_actors.runtime.live import CODEC, KINDS
from pi_actors.runtime.state_codec import OF_EVERY_KIND, StateCodec
from pi_actors.runtime.store import TOPICS
from pi_actors.storage.codec import Topics
from pi_actors.storage.packing import Unpacker, pack
from tests.core.test_ownership import PICKS, Pick, World
from tests.runtime.histories import commits, crashed, golden

SOME = commits(golden())[-1][1]


def require_round_trip(state: SessionState) -> None:
    assert CODEC.unpack(CODEC.pack(state), state.uuid, state.position) == state


def test_every_state_of_the_golden_log_survives() -> None:
    for _, state in commits(golden()):
        require_round_trip(state)


@pytest.mark.parametrize("seed", range(8))
def test_every_state_of_random_work_through_crashes_survives(seed: int, tmp_path: Path) -> None:
    for _, state in commits(crashed(seed, tmp_path)):
        require_round_trip(state)


@settings(max_examples=40)
@given(st.lists(PICKS, min_size=10, max_size=60))
def test_every_state_of_a_random_tree_of_actors_survives(picks: Sequence[Pick]) -> None:
    world, state = World(), EMPTY
    for pick in picks:
        world.act(pick)
    for each in world.log:
        state = evolve(state, KINDS, position=each.position, at_us=1, actor=each.actor, event=each.event)
        require_round_trip(state)


def test_every_actor_of_a_state_survives_by_itself() -> None:
    for actor in SOME.actors.values():
        assert CODEC.unpack_actor(CODEC.pack_actor(actor, SOME.uuid), SOME.uuid) == actor


def test_a_state_of_another_session_or_position_is_none() -> None:
    packed = CODEC.pack(SOME)
    assert CODEC.unpack(packed, "another", SOME.position) is None
    assert CODEC.unpack(packed, SOME.uuid, SOME.position - 1) is None
    actor = CODEC.pack_actor(SOME.actors[1], SOME.uuid)
    assert CODEC.unpack_actor(actor, "another") is None


def _with_a_newer_agent() -> Kinds:
    agent: Kind[object] = KINDS["pi.agent"]
    return {**KINDS, agent.name: msgspec.structs.replace(agent, version=agent.version + 1)}


@pytest.mark.parametrize(
    "other",
    [
        StateCodec(_with_a_newer_agent(), TOPICS),
        StateCodec({name: kind for name, kind in KINDS.items() if name != "pi.tool"}, TOPICS),
        StateCodec(KINDS, Topics({topic: TOPICS.events[topic] for topic in list(TOPICS.events)[1:]})),
    ],
    ids=["a newer kind", "a kind more", "an event more"],
)
def test_a_state_of_other_versions_is_none(other: StateCodec) -> None:
    """Also for a version that knows less: what it would have had to refuse is below the snapshot."""
    assert other.unpack(CODEC.pack(SOME), SOME.uuid, SOME.position) is None
    assert CODEC.unpack(other.pack(EMPTY), "", 0) is None


@pytest.mark.parametrize(
    "packed", [b"", b"\xc1", b"\x90", pack(7), pack((2, None, "", 0)), CODEC.pack(SOME)[:-1]]
)
def test_what_is_no_state_is_none(packed: bytes) -> None:
    assert CODEC.unpack(packed, SOME.uuid, SOME.position) is None
    assert CODEC.unpack_actor(packed, SOME.uuid) is None


def test_maps_within_maps_are_packed_as_they_are() -> None:
    inner: immutables.Map[str, bytes] = immutables.Map({"a": b"\x00", "b": b""})
    outer: immutables.Map[int, immutables.Map[str, bytes]] = immutables.Map({1: inner, 2: immutables.Map()})
    assert Unpacker(immutables.Map[int, immutables.Map[str, bytes]])(pack(outer)) == outer


def test_what_is_neither_struct_nor_map_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="which is neither a struct nor a map"):
        pack(object())


# Nobody changes the type of a state and forgets that snapshots of the old one are about.


KERNEL: Final = "kernel"
KNOWN: Final[dict[tuple[str, int], str]] = {
    (KERNEL, 1): "bfe5cb5499123f23",
    ("pi.agent", 1): "7b449cde9b937ec5",
    ("pi.generation", 1): "edfebb722441b085",
    ("pi.compaction", 1): "18a3c481a744b847",
    ("pi.tool", 1): "47b06d695ab58a70",
    ("*", 1): "8229d61bfb670c7d",
}
"""What the states of a version look like. A version that was released stays as it is."""


def _states(name: str) -> tuple[int, tuple[type[msgspec.Struct], ...]]:
    if name == KERNEL:
        return STATE_VERSION, (SessionState, Actor, *OF_EVERY_KIND)
    return KINDS[name].version, KINDS[name].states


@pytest.mark.parametrize("name", [KERNEL, *KINDS])
def test_a_changed_type_of_states_comes_with_a_new_version(name: str) -> None:
    version, states = _states(name)
    assert states, f"the kind {name} does not say which states it has"
    digest = sha256("\n".join(shape_of(states)).encode()).hexdigest()[:16]
    assert KNOWN.get((name, version)) == digest, (
        f"the states of {name} are no longer those of version {version}: raise its version "
        f"(Kind.version, or STATE_VERSION of the kernel) and add ({name!r}, version): {digest!r} here"
    )


def shape_of(types: tuple[type[msgspec.Struct], ...]) -> list[str]:
    """Every struct that can be in a state of these types, with its fields."""
    waiting, known = list(types), set(types)
    told: list[str] = []
    while waiting:
        struct = waiting.pop()
        fields = msgspec.structs.fields(struct)
        told.append(f"{struct.__qualname__}: " + ", ".join(f"{each.name}: {each.type}" for each in fields))
        found = {inner for each in fields for inner in _structs_in(each.type)} - known
        known |= found
        waiting += found
    return sorted(told)


def _structs_in(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs that an annotation names, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        if annotation is not msgspec.Struct:
            yield annotation
        return
    for inner in get_args(annotation):
        yield from _structs_in(inner)

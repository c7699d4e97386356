"""The write side's state as the body of a snapshot, and back, for the version that wrote it.

A snapshot says of which versions it is: of the kernel's own fold, of every kind, and which events
were known. One of other versions is no snapshot for this process, and neither is one of another
session or one that does not decode.
"""

from collections.abc import Iterator
from sys import intern
from typing import Final, NamedTuple, TypeAlias

import msgspec

from pi_actors.core.decider import Passive, Quarantined
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.state import NO_ACTORS, STATE_VERSION, Actor, Kinds, Over, SessionState, kind_of
from pi_actors.storage.codec import Topics
from pi_actors.storage.packing import Unpacker, pack
from pi_actors.storage.snapshots import known_events

FORMAT: Final = 1
"""Of the body: what stands in ``_Packed``."""

Versions: TypeAlias = dict[str, int]


class StateCodec:
    """Packs and unpacks the states of sessions whose actors are of *kinds*."""

    def __init__(self, kinds: Kinds, topics: Topics) -> None:
        self._kinds = kinds
        self._versions: Versions = {
            "kernel": STATE_VERSION,
            "events": known_events(topics),
            **{f"kind {name}": kind.version for name, kind in kinds.items()},
        }
        self._states = {
            (kind.name, state.__name__): Unpacker(state)
            for kind in kinds.values()
            for state in (*kind.states, *OF_EVERY_KIND)
        }

    def pack(self, state: SessionState) -> bytes:
        """*state* as bytes. It takes a while, in many small steps: other threads go on meanwhile."""
        actors = tuple([msgspec.Raw(_pack_actor(actor)) for actor in state.actors.values()])
        rest = msgspec.structs.replace(state, actors=NO_ACTORS)
        return self._seal(state.uuid, pack((rest, actors)))

    def unpack(self, packed: bytes, uuid: str, position: Position) -> SessionState | None:
        """The state as of *position* of the session *uuid*; None where *packed* is nothing of the kind."""
        try:
            rest, packed_actors = _STATE(self._opened(packed, uuid))
            actors = NO_ACTORS.update(self._unpacked(packed_actors))
        except (msgspec.MsgspecError, KeyError):
            return None
        return msgspec.structs.replace(rest, actors=actors) if rest.position == position else None

    def pack_actor(self, actor: Actor, uuid: str) -> bytes:
        """One actor as bytes."""
        return self._seal(uuid, _pack_actor(actor))

    def unpack_actor(self, packed: bytes, uuid: str) -> Actor | None:
        """The actor of the session *uuid*; None where *packed* is nothing of the kind."""
        try:
            return self._unpacked_actor(self._opened(packed, uuid))
        except (msgspec.MsgspecError, KeyError):
            return None

    def _seal(self, uuid: str, body: bytes) -> bytes:
        return pack(_Packed(FORMAT, self._versions, uuid, msgspec.Raw(body)))

    def _opened(self, packed: bytes, uuid: str) -> msgspec.Raw:
        """What is packed. Raises KeyError where it is of another format, version or session."""
        found = _PACKED(packed)
        if found[:3] != (FORMAT, self._versions, uuid):
            raise KeyError(found[:3])
        return found.body

    def _unpacked(self, actors: tuple[msgspec.Raw, ...]) -> Iterator[tuple[ActorId, Actor]]:
        for packed in actors:
            actor = self._unpacked_actor(packed)
            yield actor.id, actor

    def _unpacked_actor(self, packed: msgspec.Raw) -> Actor:
        actor, name, state = _ACTOR(packed)
        unpack = self._states[kind_of(self._kinds, actor.kind).name, name]
        return msgspec.structs.replace(actor, kind=intern(actor.kind), state=unpack(state))


class _Packed(NamedTuple):
    """What is looked at before anything else is believed, and the rest."""

    format: int
    versions: Versions
    uuid: str
    body: msgspec.Raw


def _pack_actor(actor: Actor) -> bytes:
    """An actor, and its own state apart: a field's type does not say what that is."""
    apart = msgspec.structs.replace(actor, state=_APART)
    return pack((apart, type(actor.state).__name__, actor.state))


OF_EVERY_KIND: Final[tuple[type[msgspec.Struct], ...]] = (Quarantined, Passive, Over)
"""States that an actor of any kind may be given by the kernel or the runtime."""

_APART: Final = msgspec.Struct()
_PACKED: Final = Unpacker(_Packed)
_STATE: Final = Unpacker(tuple[SessionState, tuple[msgspec.Raw, ...]])
_ACTOR: Final = Unpacker(tuple[Actor, str, msgspec.Raw])

"""The write side's state as the body of a snapshot, and back, for the version that wrote it.

A snapshot says of which versions it is: of the kernel's own fold, of every kind, and which events
were known. One of other versions is no snapshot for this process, and neither is one of another
session or one that does not decode.
"""

from collections.abc import Iterator
from sys import intern
from typing import Final

import msgspec

from pi_actors.core.decider import Passive, Quarantined
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.state import NO_ACTORS, STATE_VERSION, Actor, Kinds, Over, SessionState, kind_of
from pi_actors.storage.codec import Topics
from pi_actors.storage.labels import Versions, known_events, labelled, unlabelled
from pi_actors.storage.packing import Unpacker, pack

FORMAT: Final = 1
"""How a state is packed: without its actors, and these after it, each with its own state apart."""


class StateCodec:
    """Packs and unpacks the states of sessions whose actors are of *kinds*."""

    def __init__(self, kinds: Kinds, topics: Topics) -> None:
        self._kinds = kinds
        self._versions: Versions = {
            "format": FORMAT,
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
        return labelled(pack((rest, actors)), self._versions, state.uuid)

    def unpack(self, packed: bytes, uuid: str, position: Position) -> SessionState | None:
        """The state as of *position* of the session *uuid*; None where *packed* is nothing of the kind."""
        body = unlabelled(packed, self._versions, uuid)
        if body is None:
            return None
        try:
            rest, packed_actors = _STATE(body)
            actors = NO_ACTORS.update(self._unpacked(packed_actors))
        except (msgspec.MsgspecError, KeyError):
            return None
        return msgspec.structs.replace(rest, actors=actors) if rest.position == position else None

    def pack_actor(self, actor: Actor, uuid: str) -> bytes:
        """One actor as bytes."""
        return labelled(_pack_actor(actor), self._versions, uuid)

    def unpack_actor(self, packed: bytes, uuid: str) -> Actor | None:
        """The actor of the session *uuid*; None where *packed* is nothing of the kind."""
        body = unlabelled(packed, self._versions, uuid)
        if body is None:
            return None
        try:
            return self._unpacked_actor(body)
        except (msgspec.MsgspecError, KeyError):
            return None

    def _unpacked(self, actors: tuple[msgspec.Raw, ...]) -> Iterator[tuple[ActorId, Actor]]:
        for packed in actors:
            actor = self._unpacked_actor(packed)
            yield actor.id, actor

    def _unpacked_actor(self, packed: msgspec.Raw) -> Actor:
        actor, name, state = _ACTOR(packed)
        unpack = self._states[kind_of(self._kinds, actor.kind).name, name]
        return msgspec.structs.replace(actor, kind=intern(actor.kind), state=unpack(state))


def _pack_actor(actor: Actor) -> bytes:
    """An actor, and its own state apart: a field's type does not say what that is."""
    apart = msgspec.structs.replace(actor, state=_APART)
    return pack((apart, type(actor.state).__name__, actor.state))


OF_EVERY_KIND: Final[tuple[type[msgspec.Struct], ...]] = (Quarantined, Passive, Over)
"""States that an actor of any kind may be given by the kernel or the runtime."""

_APART: Final = msgspec.Struct()
_STATE: Final = Unpacker(tuple[SessionState, tuple[msgspec.Raw, ...]])
_ACTOR: Final = Unpacker(tuple[Actor, str, msgspec.Raw])

"""What is kept of a session outside memory: its log, its snapshots, its passive agents.

A passive agent is kept as a snapshot of its own. Like every snapshot it may be missing or damaged;
then the agent's events are read again, all of them, so giving up its memory loses nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from pi_actors.core.decider import Passive
from pi_actors.core.errors import LogCorrupt
from pi_actors.core.ids import NOBODY, ActorId, Position, SessionId
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.record import Recorded, UnknownEvent
from pi_actors.core.state import EMPTY, NO_MEMOS, Actor, Kinds, SessionState, evolve
from pi_actors.runtime.state_codec import StateCodec
from pi_actors.storage.codec import Topics, decode_rows
from pi_actors.storage.log import Log, Snapshot


class Kept(NamedTuple):
    """The log of one session, and how to read what is in it."""

    log: Log
    session: SessionId
    topics: Topics
    kinds: Kinds
    codec: StateCodec

    def events(self, *, after: Position, through: Position) -> Iterator[Recorded]:
        """The events after *after* up to and including *through*, page by page. Blocks.

        Raises:
            LogCorrupt: a row is damaged, or missing though nobody has scavenged there.
        """
        scavenged_to = 0
        while after < through:
            rows = self.log.read(self.session, after=after, through=through)
            for position in [row.position for row in rows] or [through + 1]:
                if position > max(after, scavenged_to) + 1:
                    # Whoever deletes rows raises it with that, so a look after the reading tells enough.
                    scavenged_to = self._scavenged_to()
                missing = max(after, scavenged_to) + 1
                if position > missing:
                    problem = f"the rows from here to {position - 1} are missing"
                    raise LogCorrupt(self.session, missing, problem)
                after = position
            yield from decode_rows(self.session, rows, self.topics)

    def _scavenged_to(self) -> Position:
        head = self.log.head(self.session)
        return 0 if head is None else head.scavenged_to

    def restore(self, uuid: str, agent: ActorId, stand_in: Passive) -> Actor:
        """What *agent* was when it gave up its memory and left *stand_in*. Blocks.

        Raises:
            LogCorrupt: its snapshot is lost and a row before that position is damaged.
        """
        for snapshot in self.log.snapshots(self.session, _name_of(agent)):
            if snapshot.position == stand_in.position:
                found = self.codec.unpack_actor(snapshot.body, uuid)
                if found is not None:
                    return found
        return self._folded(agent, stand_in.position)

    def awake(self, state: SessionState) -> SessionState:
        """*state* with every passive agent as it was. Blocks; raises as ``restore``."""
        for actor in state.actors.values():
            if isinstance(actor.state, Passive):
                restored = self.restore(state.uuid, actor.id, actor.state)
                state = with_restored(state, restored, actor.state)
        return state

    def snapshot(self, actor: Actor, uuid: str, position: Position) -> Snapshot:
        """What *actor* is as of *position*, to be kept."""
        return Snapshot(_name_of(actor.id), position, self.codec.pack_actor(actor, uuid))

    def _folded(self, agent: ActorId, through: Position) -> Actor:
        """The agent by itself, of its own events alone: nobody else's say anything about it."""
        state = EMPTY
        for each in self.events(after=0, through=through):
            if each.actor == agent:
                state = _evolved(state, self.kinds, each)
        return state.actors[agent]


def without(state: SessionState, agent: ActorId, stand_in: Passive) -> SessionState:
    """*state* with *stand_in* for what *agent* is."""
    actor = msgspec.structs.replace(state.actors[agent], state=stand_in, memos=NO_MEMOS)
    return msgspec.structs.replace(state, actors=state.actors.set(agent, actor))


def with_restored(state: SessionState, agent: Actor, stand_in: Passive) -> SessionState:
    """*state* with what *agent* is in place of its *stand_in*, if that is there."""
    actor = state.actors[agent.id]
    if actor.state != stand_in:
        return state
    actor = msgspec.structs.replace(actor, state=agent.state, memos=agent.memos)
    return msgspec.structs.replace(state, actors=state.actors.set(agent.id, actor))


def _evolved(state: SessionState, kinds: Kinds, each: Recorded) -> SessionState:
    event = each.event
    if isinstance(event, UnknownEvent):
        return state
    if isinstance(event, AgentSpawned) and each.position == each.actor:
        event = msgspec.structs.replace(event, owner=NOBODY)  # its owner is not here
    return evolve(state, kinds, position=each.position, at_us=each.at_us, actor=each.actor, event=event)


def _name_of(agent: ActorId) -> str:
    return f"agent:{agent}"

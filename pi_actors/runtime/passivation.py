"""Which agents give up their memory, and when, and how one comes back at a touch.

An agent is idle when it has no run, nothing queued, owes nothing, and nothing at all lives below it.
One that is the same at two looks, *passivate_ms* apart, and was not touched in between, is kept as a
snapshot; then a small stand-in takes its place in the state. Whoever needs it wakes it first: the
commit line before it decides, readers before they look at what it remembers.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import trio

from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Passive
from pi_actors.core.errors import SessionFailed
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.record import Commit
from pi_actors.core.state import Actor, Kinds, SessionState, owed
from pi_actors.runtime.clock import Clock
from pi_actors.runtime.commit_line import CommitLine
from pi_actors.runtime.kept import Kept, with_restored, without
from pi_actors.runtime.store import LiveStore
from pi_actors.storage.log import Snapshot

AT_ONCE: Final = 100
"""How many agents are kept in one transaction, which commits wait for."""


class Passivation:
    """The passive agents of one open session. Time is the clock's."""

    def __init__(
        self, line: CommitLine, store: LiveStore, kept: Kept, clock: Clock, passivate_ms: int
    ) -> None:
        """*passivate_ms*: 0 for never."""
        self._line = line
        self._store = store
        self._kept = kept
        self._clock = clock
        self._passivate_ms = passivate_ms
        self._seen: dict[ActorId, Actor] = {}
        self._touched: set[ActorId] = set()
        self._changed = trio.Event()
        self._one_at_a_time = trio.Lock()
        line.listen(self._follow)

    async def run(self) -> None:
        """Look again and again, as long as there are idle agents or something happens, until cancelled."""
        if self._passivate_ms == 0:
            return
        period = timedelta(milliseconds=self._passivate_ms)
        try:
            while True:
                self._changed = trio.Event()
                await self.look()
                if not self._seen:
                    await self._changed.wait()
                await self._clock.sleep_until(self._clock.now() + period)
        except SessionFailed:
            return

    async def wake(self, agent: ActorId) -> None:
        """Return once *agent* is as it was before it gave up its memory; nothing is stored by that.

        Raises:
            SessionFailed: the store failed, or what it holds of the agent is damaged.
        """
        self._touched.add(agent)
        self._changed.set()
        while (actor := self._line.ahead.actors.get(agent)) is not None:
            stand_in = actor.state
            if not isinstance(stand_in, Passive):
                return
            with self._line.reading():
                restored = await self._store.read(self._kept.restore, self._line.ahead.uuid, agent, stand_in)
            self._line.substitute(partial(with_restored, agent=restored, stand_in=stand_in))

    async def look(self) -> None:
        """Let those give up their memory that are as the last look has seen them; remember the others.

        Raises:
            SessionFailed: the store failed.
        """
        async with self._one_at_a_time:
            idle = _idle(self._line.shown, self._kept.kinds)
            seen, self._seen = self._seen, idle
            touched, self._touched = self._touched, set()
            long_idle = [actor for id, actor in idle.items() if seen.get(id) is actor and id not in touched]
            seen.clear()
            while long_idle:
                some = [long_idle.pop() for _ in range(min(AT_ONCE, len(long_idle)))]
                await self._give_up(some)
                for actor in some:
                    del idle[actor.id]

    async def _give_up(self, actors: Sequence[Actor]) -> None:
        """Keep *actors* as they are, and then let go of those that still are so."""
        position = self._line.shown.position
        with self._line.reading():
            snapshots = await self._store.read(self._packed, actors, position)
            is_ours = await self._store.write(
                partial(self._kept.log.save_snapshot, self._line.session_id, self._line.epoch, *snapshots)
            )
        if is_ours:
            self.let_go(actors, position)

    def let_go(self, actors: Sequence[Actor], position: Position) -> None:
        """Put stand-ins in the place of those of *actors* that are still what is kept as of *position*."""
        unchanged = [actor for actor in actors if self._is_unchanged(actor)]
        self._line.substitute(lambda state: _without_all(state, unchanged, position))

    def _packed(self, actors: Sequence[Actor], position: Position) -> list[Snapshot]:
        uuid = self._line.shown.uuid
        return [self._kept.snapshot(actor, uuid, position) for actor in actors]

    def _is_unchanged(self, actor: Actor) -> bool:
        """Also not on its way to a change; then it is the same in every state in between."""
        is_same = self._line.ahead.actors[actor.id] is actor is self._line.shown.actors[actor.id]
        return is_same and actor.id not in self._touched

    def _follow(self, _: Commit, __: SessionState) -> None:
        self._changed.set()


def _without_all(state: SessionState, actors: Sequence[Actor], position: Position) -> SessionState:
    for actor in actors:
        assert isinstance(actor.state, AgentState), actor
        agent = actor.state
        stand_in = Passive(
            position=position, last_step=agent.last_step, model=agent.choices.model, forked=agent.forked
        )
        state = without(state, actor.id, stand_in)
    return state


def _idle(state: SessionState, kinds: Kinds) -> dict[ActorId, Actor]:
    """The agents that could give up their memory, as they are."""
    busy = _with_life_below(state)
    agents = (actor for actor in state.actors.values() if actor.is_agent and actor.id not in busy)
    return {actor.id: actor for actor in agents if _has_nothing_to_do(actor, kinds)}


def _has_nothing_to_do(actor: Actor, kinds: Kinds) -> bool:
    match actor.state:
        case AgentState(run=None, inbox=()):
            return not owed(actor, kinds)
        case _:
            return False


def _with_life_below(state: SessionState) -> set[ActorId]:
    """Everything that is live, and everything above that, across every boundary."""
    found: set[ActorId] = set()
    for actor in state.actors.values():
        if actor.live:
            found.update(_upwards(state, actor, found))
    return found


def _upwards(state: SessionState, actor: Actor, known: set[ActorId]) -> Iterator[ActorId]:
    """*actor* and those above it, up to one that is *known* already."""
    node: Actor | None = actor
    while node is not None and node.id not in known:
        yield node.id
        node = state.actors.get(node.parent)

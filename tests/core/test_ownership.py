"""The rules of ownership, told twice: random histories through the kernel and through the reference.

After every commit both must agree on who is marked, who holds an outcome, who has ended and how,
whose wait is over, whose abort step may run, and who is idle.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pi_actors.actors.agent.messages import AbortAgent, PlaceInbox, Submit
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.custom.decider import CustomState
from pi_actors.actors.custom.messages import Advance, Finish, WorkResumed
from pi_actors.actors.generation.messages import FailAttempt, ReceiveResponse
from pi_actors.actors.generation.state import Requested
from pi_actors.core.catalog import Catalog
from pi_actors.core.commit import Circumstances, Settled, run_to_rest, spawn_agent
from pi_actors.core.decider import (
    Abort,
    AbortWork,
    Command,
    Fault,
    Mark,
    Orphan,
    Send,
    SpawnAgent,
    SpawnWork,
)
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import NOBODY, ActorId
from pi_actors.core.ledger import Drafted
from pi_actors.core.lifecycle import AgentSpawned, Choices, Outcome, WorkEnded, WorkSpawned
from pi_actors.core.messages import Text, user_message
from pi_actors.core.settings import Settings
from pi_actors.core.state import EMPTY, Actor, SessionState, evolve, owed
from pi_actors.runtime.live import KINDS
from tests.core.reference import Node, Reference, Refused, Resumed, Status, Wait, statuses

GIVEN: Final = Circumstances(
    now_us=1,
    chance=0.5,
    settings=Settings(),
    catalog=Catalog(models=frozenset({"m"}), default_model="m"),
    kinds=KINDS,
)
KIND: Final = "test.work"
OUTCOMES: Final[tuple[Status, ...]] = ("completed", "failed")
ANSWER: Final = ReceiveResponse(parts=(Text(text="an answer"),), stop="stop")
MISTAKE: Final = FailAttempt(kind="fatal", error="no")
QUESTION: Final = Submit(messages=(user_message("a question"),))


class Pick(NamedTuple):
    """Numbers that decide what happens next; each is taken modulo what there is to choose from."""

    what: int
    who: int
    how: int
    whom: tuple[int, ...]


PICKS: Final = st.builds(
    Pick, st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.lists(st.integers(0, 99), max_size=3)
)


class World:
    """One history, lived by the kernel and by the reference."""

    def __init__(self) -> None:
        self.log: list[Drafted] = []
        self.outcomes: dict[ActorId, Outcome] = {}
        self.reference = Reference(self.new_generation)
        self.births: list[Drafted] = []
        self.resumed: list[Resumed] = []
        self.state = EMPTY
        self.store(spawn_agent(EMPTY, AgentSpawned(session_uuid="a-session"), GIVEN))
        self.reference.spawn_agent(self.born(), NOBODY)
        self.names = 0

    # What may happen.

    def act(self, pick: Pick) -> None:
        """Do what *pick* says, in both, and compare."""
        steps: tuple[tuple[Callable[[Node, Pick], None], list[Node]], ...] = (
            (self.spawn_work, self.nodes()),
            (self.spawn_work, self.nodes()),
            (self.own_agent, self.works()),
            (self.advance, self.ready()),
            (self.advance, self.ready()),
            (self.end_step, self.ready()),
            (self.end_step, self.ready()),
            (self.answer, self.turns()),
            (self.answer, self.turns()),
            (self.fault, self.works()),
            (self.mark, self.works()),
            (self.abort_agent, self.agents()),
            (self.abort_step, self.to_abort()),
            (self.abort_step, self.to_abort()),
            (self.abort_step, self.to_abort()),
            (self.submit, self.agents()),
            (self.submit, self.agents()),
            (self.place, self.agents()),
            (self.reopen, self.agents()),
        )
        act, whom = steps[pick.what % len(steps)]
        newest = whom[-4:] if pick.who % 2 else whom
        if newest:
            act(newest[pick.who // 2 % len(newest)], pick)
            self.compare()

    def spawn_work(self, above: Node, pick: Pick) -> None:
        background = above.is_agent and pick.how % 4 == 0
        self.names += 1
        name = f"child {self.names}"
        born = SpawnWork(name=name, kind=KIND, version=1, input=b"0", background=background)
        owner = NOBODY if above.is_agent else above.id
        self.expect(
            self.commit(above.id, born),
            lambda: self.reference.spawn_work(self.born(), above.agent, owner, background=background),
            lambda: self.reference.check_owner(owner, background=background),
        )

    def own_agent(self, above: Node, _: Pick) -> None:
        self.names += 1
        self.expect(
            self.commit(above.id, SpawnAgent(name=f"child {self.names}", choices=Choices())),
            lambda: self.reference.spawn_agent(self.born(), above.id),
            lambda: self.reference.check_owner(above.id),
        )

    def advance(self, node: Node, pick: Pick) -> None:
        """A step that spawns, and waits for its children and for whatever else was picked."""
        others = self.works(ended=True)
        if pick.who % 3:
            others = [other for other in others if other.parent == node.id]
        on = tuple(dict.fromkeys(others[place % len(others)].id for place in pick.whom)) if others else ()
        children = (SpawnWork(name="", kind=KIND, version=1, input=b"0"),) * (pick.how % 3)
        fail_fast = pick.how % 2 == 1
        command = Advance(
            after=self.step_of(node),
            state=b"1",
            version=1,
            children=children,
            on=on,
            known=tuple((id, self.outcomes[id]) for id in on if id in self.outcomes),
            fail_fast=fail_fast,
        )
        settled = self.commit(node.id, command)
        assert settled is not None
        if node.marked:
            self.store(settled)
            return
        try:
            self.reference.check_wait(node.id, Wait(on, fail_fast))
        except Refused:
            self.store(settled)
            self.reference.finish(node.id, "faulted")
            return
        self.store(settled)
        born = tuple(self.born() for _ in children)
        for id in born:
            self.reference.spawn_work(id, node.agent, node.id)
        if born or on:
            self.reference.start_wait(node.id, Wait((*born, *on), fail_fast))

    def end_step(self, node: Node, pick: Pick) -> None:
        status = OUTCOMES[pick.how % len(OUTCOMES)]
        self.go(node.id, Finish(after=self.step_of(node), outcome=Outcome(status=status)))
        self.reference.finish(node.id, status)

    def answer(self, turn: Node, pick: Pick) -> None:
        """A turn's response, good or bad."""
        good = pick.how % 3 > 0
        self.go(turn.id, ANSWER if good else MISTAKE)
        status: Status = "completed" if good else "failed"
        self.reference.finish(turn.id, "aborted" if turn.marked else status)

    def fault(self, node: Node, pick: Pick) -> None:
        if pick.how % 3 == 0:
            self.go(node.id, Fault(detail="its code broke"))
            self.reference.finish(node.id, "faulted")

    def mark(self, node: Node, _: Pick) -> None:
        self.go(node.id, Mark())
        self.reference.mark(node)

    def abort_agent(self, agent: Node, pick: Pick) -> None:
        across = pick.how % 3 == 0
        self.go(agent.id, AbortAgent(background=across))
        self.reference.abort_agent(agent.id, background=across)

    def abort_step(self, node: Node, pick: Pick) -> None:
        lost = pick.how % 4 == 0 and node.id not in {agent.run for agent in self.agents()}
        self.go(node.id, Orphan(detail="no such kind here") if lost else Abort())
        self.reference.finish(node.id, "orphaned" if lost else "aborted")

    def submit(self, agent: Node, _: Pick) -> None:
        self.go(agent.id, QUESTION)
        self.reference.submit(agent.id)

    def place(self, agent: Node, _: Pick) -> None:
        self.go(agent.id, PlaceInbox())
        self.reference.place(agent.id)

    def reopen(self, *_: object) -> None:
        """The process dies between two commits: what another one folds is what this one had."""
        folded = EMPTY
        for each in self.log:
            folded = evolve(
                folded, KINDS, position=each.position, at_us=1, actor=each.actor, event=each.event
            )
        assert folded == self.state
        self.state = folded

    # Doing it.

    def commit(self, to: ActorId, command: Command) -> Settled | None:
        """What comes of the command; None where it is refused, and then nothing has happened."""
        try:
            return run_to_rest(self.state, [Send(to, command)], GIVEN)
        except CommandRefused:
            return None

    def go(self, to: ActorId, command: Command) -> None:
        settled = self.commit(to, command)
        assert settled is not None, command
        self.store(settled)

    def expect(self, settled: Settled | None, follow: Callable[[], None], check: Callable[[], None]) -> None:
        """The kernel refuses exactly what the reference does."""
        try:
            check()
        except Refused:
            # A caller's spawn below an actor that has ended finds nobody.
            assert settled is None or settled.drafts == []
            return
        assert settled is not None
        self.store(settled)
        if settled.drafts:
            follow()

    def store(self, settled: Settled) -> None:
        folded = self.state
        for each in settled.drafts:
            folded = evolve(
                folded, KINDS, position=each.position, at_us=1, actor=each.actor, event=each.event
            )
        assert folded == settled.state
        self.state = settled.state
        self.log += settled.drafts
        spawned = (WorkSpawned, AgentSpawned)
        self.births = [each for each in settled.drafts if isinstance(each.event, spawned)]
        self.resumed = [
            (each.actor, statuses(each.event.outcomes))
            for each in settled.drafts
            if isinstance(each.event, WorkResumed)
        ]
        for each in settled.drafts:
            if isinstance(each.event, WorkEnded):
                assert each.actor not in self.outcomes, "an actor has ended twice"
                self.outcomes[each.actor] = each.event.outcome

    def born(self) -> ActorId:
        """The next actor that the last commit gave birth to."""
        return self.births.pop(0).position

    def new_generation(self, agent: ActorId) -> ActorId:
        """The turn that the last commit started for *agent*."""
        (turn,) = [
            each
            for each in self.births
            if isinstance(each.event, WorkSpawned)
            and (each.event.agent, each.event.kind) == (agent, "pi.generation")
        ]
        self.births.remove(turn)
        return turn.position

    # Looking.

    def nodes(self) -> list[Node]:
        return list(self.reference.nodes.values())

    def agents(self) -> list[Node]:
        return [node for node in self.nodes() if node.is_agent]

    def works(self, *, ended: bool = False) -> list[Node]:
        return [node for node in self.nodes() if not node.is_agent and (ended or node.live)]

    def turns(self) -> list[Node]:
        """Turns that were asked: one that is marked at its birth never is."""
        return [node for node in self.works() if isinstance(self.state.actors[node.id].state, Requested)]

    def ready(self) -> list[Node]:
        """Actors of our own that a step may report for."""
        own = [node for node in self.works() if isinstance(self.state.actors[node.id].state, CustomState)]
        return [node for node in own if node.wait is None and node.held is None]

    def to_abort(self) -> list[Node]:
        ids = [actor.id for actor in self.state.actors.values() if AbortWork() in owed(actor, KINDS)]
        return [self.reference.nodes[id] for id in sorted(ids)]

    def step_of(self, node: Node) -> int:
        state = self.state.actors[node.id].state
        assert isinstance(state, CustomState), state
        return state.step

    # Comparing.

    def compare(self) -> None:
        """Both tell the same of everybody."""
        reference, state = self.reference, self.state
        assert self.births == [], "somebody was born whom the reference does not know"
        for node in self.nodes():
            actor = state.actors.get(node.id)
            assert self.told(actor, node.id) == expected(node), node
            if actor is not None and node.is_agent:
                assert actor.busy == (not reference.drained(node.id)), node
        assert state.busy_agents == reference.busy_agents()
        assert {node.id for node in self.to_abort()} == reference.to_abort()
        assert sorted(self.resumed) == sorted(reference.resumed)
        assert owing(state, PlaceInbox()) == reference.boundaries()
        reference.resumed, self.resumed = [], []

    def told(self, actor: Actor | None, id: ActorId) -> tuple[object, ...]:
        """What the kernel says of an actor."""
        if actor is None or actor.ended:
            return (self.outcomes[id].status,)
        if isinstance(actor.state, AgentState):
            inbox = actor.state.inbox
            return (actor.parent, actor.state.run is not None, len(inbox), actor.state.held is not None)
        held = None if actor.held is None else actor.held.status
        waits = actor.wait is not None and actor.held is None
        return (actor.parent, actor.background, actor.marked, held, waits)


def expected(node: Node) -> tuple[object, ...]:
    """What the reference says of an actor."""
    if node.ended is not None:
        return (node.ended,)
    if node.is_agent:
        return (node.parent, node.run is not None, node.queue, node.inbox_held)
    return (node.parent, node.background, node.marked, node.held, node.wait is not None and node.held is None)


def owing(state: SessionState, effect: Command) -> set[ActorId]:
    """Who owes *effect*."""
    return {actor.id for actor in state.actors.values() if effect in owed(actor, KINDS)}


@settings(max_examples=150)
@given(st.lists(PICKS, min_size=10, max_size=60))
def test_the_kernel_does_what_the_rules_say(picks: Sequence[Pick]) -> None:
    """K179 to K196, L208, L209: marks, idleness, completing, the order of abort steps, outcomes."""
    world = World()
    for pick in picks:
        world.act(pick)
    world.reopen()

"""The fold of a session: total, quarantining what is impossible, and as small as what lives."""

from collections.abc import Sequence
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_actors.actors.agent.messages import RunEnded, Submit
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.generation.messages import CallSpec, ToolRoundAdvanced, ToolRoundStarted
from pi_actors.core.decider import Abort, Event, Mark, Quarantined, SpawnWork, WriteMemo
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import NOBODY, ROOT, ActorId
from pi_actors.core.lifecycle import (
    COMPLETED,
    AbortMarked,
    AgentSpawned,
    MemoWritten,
    Outcome,
    OutcomeHeld,
    WaitStarted,
    WorkEnded,
    WorkSpawned,
)
from pi_actors.core.messages import user_message
from pi_actors.core.record import Recorded, UnknownEvent
from pi_actors.core.state import EMPTY, SessionState, evolve, owed
from pi_actors.core.tree import above, below, would_wait_in_a_circle
from pi_actors.runtime.live import KINDS
from tests.core.puppets import PUPPET, Misfit, Noted, Stage, child_of, ended, folded
from tests.projections.arbitrary import recorded_at

QUESTION: Final = Submit(messages=(user_message("a question"),))
LOG_MAX: Final = 12


@pytest.fixture
def stage() -> Stage:
    return Stage()


# Totality.


LOGS: Final = st.integers(1, LOG_MAX).flatmap(
    lambda length: st.tuples(*(recorded_at(place, length) for place in range(1, length + 1)))
)


@settings(max_examples=300)
@given(LOGS)
def test_any_events_in_any_order_fold_to_a_state(log: Sequence[Recorded]) -> None:
    """Evolve never raises, and neither does anything that looks at what it returns."""
    state = EMPTY
    for each in log:
        if not isinstance(each.event, UnknownEvent):
            state = evolve(state, KINDS, position=each.position, at_us=0, actor=each.actor, event=each.event)
    for actor in state.actors.values():
        owed(actor, KINDS)
        list(below(state, actor.id, background=True))
        list(above(state, actor))
        would_wait_in_a_circle(state, actor.id, ROOT)


KERNEL: Final = st.one_of(
    st.builds(AgentSpawned, owner=st.integers(0, LOG_MAX)),
    *[
        st.builds(
            WorkSpawned,
            kind=st.sampled_from([PUPPET, "pi.agent", "pi.tool"]),
            agent=st.integers(-1, LOG_MAX),
            owner=st.integers(-1, LOG_MAX),
            background=st.booleans(),
        )
    ]
    * 2,
    st.just(AbortMarked()),
    st.just(OutcomeHeld(outcome=COMPLETED)),
    st.builds(WaitStarted, on=st.lists(st.integers(0, LOG_MAX), max_size=3).map(tuple)),
    st.just(WorkEnded(outcome=COMPLETED)),
    st.just(MemoWritten(name="m", value=b"1")),
    st.just(Noted(what="x")),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(1, LOG_MAX), KERNEL), max_size=3 * LOG_MAX))
def test_any_tree_whatsoever_folds_to_a_state_without_circles(log: Sequence[tuple[ActorId, Event]]) -> None:
    """Owners that are missing, are oneself, are not born yet, or are no owners."""
    stage = Stage()
    for actor, event in log:
        stage.meet(actor, event)
    for found in stage.state.actors.values():
        assert found.id not in {each.id for each in above(stage.state, found)}
        list(below(stage.state, found.id, background=True))


def test_a_sequential_round_that_goes_back_before_its_first_call_is_impossible(stage: Stage) -> None:
    stage.do(ROOT, QUESTION)
    (turn,) = stage.state.children[ROOT]
    calls = (CallSpec(index=0, name="look"),)
    stage.meet(turn, ToolRoundStarted(entry=2, calls=calls, sequential=True))
    stage.meet(turn, ToolRoundAdvanced(next=-2))
    assert isinstance(stage[turn].state, Quarantined)


# Quarantine.


def test_one_impossible_event_quarantines_its_actor_alone_and_says_where(stage: Stage) -> None:
    """X34."""
    first, second = stage.work(), stage.work()
    before = stage[second]
    stage.meet(first, Misfit())
    assert stage[first].state == Quarantined(position=stage.state.position, event="Misfit")
    assert stage[second] == before
    stage.play(second, Noted(what="goes on"))


def test_a_quarantined_actor_ignores_events_owes_nothing_and_hears_only_an_abort(stage: Stage) -> None:
    """X34."""
    actor = stage.work()
    stage.meet(actor, Misfit())
    quarantined = stage[actor].state
    stage.meet(actor, Noted(what="later"))
    assert stage[actor].state == quarantined
    assert stage.play(actor, Noted(what="x")) == []
    assert stage.do(actor, SpawnWork(name="x", kind=PUPPET, version=1, input=b"")) == []
    assert stage.do(actor, WriteMemo(name="x", value=b"1")) == []
    assert stage.to_abort() == set()
    stage.do(actor, Mark())
    assert stage.to_abort() == {actor}
    events = stage.do(actor, Abort())
    assert ended(events) == {actor: "faulted"}
    assert "event Misfit at position" in str(events[0][1])


def test_a_quarantined_agent_refuses_commands_and_names_the_position(stage: Stage) -> None:
    """X34."""
    agent = stage.agent(stage.work())
    stage.meet(agent, RunEnded(run=3, inputs=(), answer=None))
    position = stage.state.position
    for command in (QUESTION, SpawnWork(name="x", kind=PUPPET, version=1, input=b"")):
        with pytest.raises(CommandRefused, match=f"quarantined: event RunEnded at position {position}"):
            stage.do(agent, command)
    assert isinstance(stage[ROOT].state, AgentState)


@pytest.mark.parametrize(
    "event",
    [AbortMarked(), OutcomeHeld(outcome=COMPLETED), WaitStarted(on=(1,)), WorkEnded(outcome=COMPLETED)],
)
def test_an_agent_that_has_met_what_only_work_can_is_quarantined(stage: Stage, event: Event) -> None:
    """X34: an agent is never live, so it is never marked, held or ended."""
    stage.meet(ROOT, event)
    assert stage[ROOT].state == Quarantined(position=2, event=type(event).__name__)
    assert owed(stage[ROOT], KINDS) == ()


@pytest.mark.parametrize(
    "birth",
    [
        child_of(ROOT, 99),
        child_of(99, NOBODY),
        child_of(NOBODY, NOBODY),
        AgentSpawned(owner=99),
        WorkSpawned(kind="pi.agent", agent=ROOT),
        WorkSpawned(kind="pi.tool", agent=ROOT, input=b"no input of a tool"),
    ],
)
def test_an_impossible_birth_quarantines_the_one_that_was_born(stage: Stage, birth: Event) -> None:
    before = stage[ROOT]
    stage.meet(ROOT, birth)
    (born,) = [actor for actor in stage.state.actors.values() if actor.id != ROOT]
    assert isinstance(born.state, Quarantined)
    assert msgspec.structs.replace(stage[ROOT], busy_below=0) == before
    if born.live:
        stage.do(born.id, Mark())
        stage.do(born.id, Abort())
        assert set(stage.state.actors) == {ROOT}
    assert stage.state.busy_agents == 0


def test_the_kernels_finish_still_ends_a_quarantined_actor(stage: Stage) -> None:
    actor = stage.work()
    stage.meet(actor, Misfit())
    stage.meet(actor, WorkEnded(outcome=Outcome(status="faulted")))
    assert set(stage.state.actors) == {ROOT}


# Size.


def test_what_has_ended_and_owns_nothing_leaves_the_state(stage: Stage) -> None:
    """Q263."""
    before = stage.state
    owner = stage.work()
    child = stage.work(owner)
    stage.finish(owner)
    stage.finish(child)
    assert stage.state == msgspec.structs.replace(before, position=stage.state.position, at_us=1)


def test_an_ended_owner_stays_as_long_as_the_agents_it_owns(stage: Stage) -> None:
    """K196: aborts and idleness still pass through it."""
    owner = stage.work()
    agent = stage.agent(owner)
    stage.finish(owner)
    work = stage.work(agent)
    assert [actor.id for actor in above(stage.state, stage[work])] == [agent, owner, ROOT]
    assert {actor.id for actor in below(stage.state, ROOT)} == {owner, agent, work}


def test_a_waiter_that_ends_first_is_forgotten_by_what_it_waited_for(stage: Stage) -> None:
    """K195."""
    waiter, target = stage.work(), stage.work()
    stage.wait(waiter, target)
    stage.do(waiter, Mark())
    stage.do(waiter, Abort())
    assert len(stage.state.waiters) == 0
    assert ended(stage.finish(target)) == {target: "completed"}


# Idleness.


def test_idleness_follows_ordinary_work_at_any_depth(stage: Stage) -> None:
    """L208, L209."""
    agents = [ROOT]
    for _ in range(3):
        agents.append(stage.agent(stage.work(agents[-1])))
    assert [stage[agent].busy for agent in agents] == [True, True, True, False]
    work = stage.work(agents[-1])
    for agent in reversed(agents[1:]):
        stage.finish(work)
        assert not stage[agent].busy
        work = stage[agent].owner
    stage.finish(work)
    assert stage.state.busy_agents == 0


def test_work_below_a_boundary_keeps_nobody_above_it_busy(stage: Stage) -> None:
    """L208."""
    background = stage.work(background=True)
    agent = stage.agent(background)
    stage.work(agent)
    assert (stage[agent].busy, stage[background].busy, stage[ROOT].busy) == (True, True, False)
    assert stage.state.busy_agents == 0


def test_each_ownerless_agent_is_idle_for_itself(stage: Stage) -> None:
    stage.play(stage.work(background=True), AgentSpawned(), AgentSpawned())
    first, second = (actor.id for actor in stage.state.actors.values() if actor.is_agent and actor.id > ROOT)
    work = stage.work(first)
    stage.work(second)
    assert stage.state.busy_agents == 2
    stage.finish(work)
    assert stage.state.busy_agents == 1
    assert not stage[first].busy


def test_the_log_gives_the_state_again(stage: Stage) -> None:
    owner = stage.work()
    stage.do(stage.agent(owner), QUESTION)
    stage.wait(stage.work(), owner)
    stage.do(owner, Mark())
    assert folded(stage.log) == stage.state
    assert isinstance(stage.state, SessionState)

"""The rules of a commit, one sentence each: who may own, wait, stop and end, and who hears of it."""

import msgspec
import pytest

from pi_actors.actors.agent.messages import (
    AbortAgent,
    EntryDraft,
    RunStarted,
    SettleCall,
    SubmissionSettled,
    Submit,
    SubmitWrite,
    ToolResultSettled,
)
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.custom.decider import CustomState
from pi_actors.actors.custom.messages import Advance, WorkAdvanced
from pi_actors.actors.generation.messages import CheckedCall, ReceiveResponse
from pi_actors.actors.tool.messages import SettleTool, StartTool
from pi_actors.core.commit import Asleep, require, run_to_rest
from pi_actors.core.decider import (
    Abort,
    Decision,
    Fault,
    Mark,
    Memo,
    Orphan,
    Passive,
    Send,
    SpawnAgent,
    Spawned,
    SpawnWork,
    WriteMemo,
)
from pi_actors.core.errors import CommandRefused, NotFound
from pi_actors.core.ids import ROOT, ActorId
from pi_actors.core.lifecycle import COMPLETED, Choices, Outcome, WaitStarted, WorkEnded
from pi_actors.core.messages import Call, Text, user_message
from pi_actors.core.state import OVER, SessionState, owed
from tests.core.puppets import (
    GIVEN,
    KINDS,
    PUPPET,
    Misfit,
    Noted,
    Play,
    Stage,
    child_of,
    ended,
    folded,
    holds,
    marks,
    note,
)

QUESTION = Submit(messages=(user_message("a question"),))
ANSWER = ReceiveResponse(parts=(Text(text="an answer"),), stop="stop")
FAILED = Outcome(status="failed")
CHILD = SpawnWork(name="", kind=PUPPET, version=1, input=b"")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def faults(events: list[tuple[ActorId, msgspec.Struct]]) -> dict[ActorId, str]:
    """Who was faulted in a commit, and the detail."""
    outcomes = {actor: each.outcome for actor, each in events if isinstance(each, WorkEnded)}
    return {actor: outcome.detail or "" for actor, outcome in outcomes.items() if outcome.status == "faulted"}


# Who may own.


def test_new_work_needs_an_owner_that_is_there_and_belongs_to_the_same_agent(stage: Stage) -> None:
    """K179."""
    other = stage.agent(stage.work())
    stranger = stage.work(other)
    for birth in (child_of(99, 0), child_of(ROOT, 99), child_of(ROOT, stranger), child_of(stranger, 0)):
        puppet = stage.work()
        assert list(faults(stage.play(puppet, birth))) == [puppet]


def test_only_work_that_an_agent_owns_directly_may_be_background(stage: Stage) -> None:
    """K179."""
    owner = stage.work()
    with pytest.raises(CommandRefused, match="only work that an agent owns directly may be background"):
        stage.work(owner, background=True)
    assert stage[stage.work(background=True)].background


def test_a_step_cannot_smuggle_in_a_background_child(stage: Stage) -> None:
    """K179: the child is not silently made an ordinary one."""
    actor = stage.work(kind="shop.thing")
    child = msgspec.structs.replace(CHILD, background=True)
    events = stage.do(actor, Advance(after=actor, state=b"1", version=1, children=(child,)))
    assert "may be background" in faults(events)[actor]


def test_an_owner_that_is_completing_takes_no_new_work(stage: Stage) -> None:
    """K180."""
    owner = stage.work()
    child = stage.work(owner)
    stage.finish(owner)
    assert stage.held(owner) == "completed"
    puppet = stage.work()
    assert "completing or marked" in faults(stage.play(puppet, child_of(ROOT, owner)))[puppet]
    assert stage.lives(child)


def test_an_owner_that_is_marked_takes_no_new_work(stage: Stage) -> None:
    """K180."""
    owner = stage.work()
    stage.do(owner, Mark())
    with pytest.raises(CommandRefused, match="completing or marked for abort"):
        stage.work(owner)
    with pytest.raises(CommandRefused, match="completing or marked for abort"):
        stage.agent(owner)


def test_an_owner_that_has_ended_takes_no_new_work(stage: Stage) -> None:
    """K180: also where an agent below keeps it in memory."""
    owner = stage.work()
    stage.agent(owner)
    stage.finish(owner)
    assert owner in stage.state.actors
    puppet = stage.work()
    assert "is not a live work actor" in faults(stage.play(puppet, child_of(ROOT, owner)))[puppet]
    assert stage.do(owner, CHILD) == []


@pytest.mark.parametrize("outcome", [COMPLETED, FAILED])
def test_giving_birth_in_the_very_commit_that_finishes_faults_and_writes_nothing_else(
    stage: Stage, outcome: Outcome
) -> None:
    """K180."""
    owner = stage.work()
    events = stage.play(owner, Noted(what="x"), child_of(ROOT, owner), finish=outcome)
    assert list(faults(events)) == [owner]
    assert len(events) == 1


def test_a_name_is_spawned_once_and_found_again(stage: Stage) -> None:
    owner = stage.work()
    child, agent = stage.work(owner, name="child"), stage.agent(owner, name="agent")
    stage.finish(child)
    assert stage.do(owner, SpawnWork(name="child", kind=PUPPET, version=1, input=b"")) == []
    assert stage.reply == Spawned(id=child, is_new=False)
    assert stage.do(owner, SpawnAgent(name="agent", choices=Choices())) == []
    assert stage.reply == Spawned(id=agent, is_new=False)


def test_work_without_a_name_leaves_nothing_behind(stage: Stage) -> None:
    before = stage[ROOT]
    for _ in range(3):
        stage.finish(stage.work())
    assert stage[ROOT] == before
    assert set(stage.state.actors) == {ROOT}


def test_the_first_writer_of_a_memo_wins(stage: Stage) -> None:
    actor = stage.work()
    for candidate in (b"1", b"2"):
        stage.do(actor, WriteMemo(name="total", value=candidate))
        assert stage.reply == Memo(value=b"1")


# Completing.


def test_an_outcome_is_held_while_owned_work_lives_and_released_by_its_last_end(stage: Stage) -> None:
    """K181, K185, L208."""
    owner, waiter = stage.work(), stage.work()
    first, second = stage.work(owner), stage.work(owner)
    stage.wait(waiter, owner)
    assert holds(stage.finish(owner)) == {owner: "completed"}
    assert ended(stage.finish(first)) == {first: "completed"}
    assert stage.notes(waiter) == ()
    assert stage[ROOT].busy
    assert ended(stage.finish(second)) == {second: "completed", owner: "completed"}
    assert stage.notes(waiter) == ("over completed",)


def test_an_outcome_is_held_while_an_owned_agent_has_work(stage: Stage) -> None:
    """K181, L209."""
    owner = stage.work()
    work = stage.work(stage.agent(owner))
    assert holds(stage.finish(owner)) == {owner: "completed"}
    assert stage.state.busy_agents == 1
    assert ended(stage.finish(work)) == {work: "completed", owner: "completed"}
    assert stage.state.busy_agents == 0


def test_an_owned_agent_that_goes_on_with_its_next_run_has_not_drained(stage: Stage) -> None:
    """K181: between two runs there is no moment at which the owner could end."""
    owner = stage.work()
    agent = stage.agent(owner)
    stage.do(agent, QUESTION)
    stage.do(agent, QUESTION)
    stage.finish(owner)
    for still in ("completed", None):
        (turn,) = stage.state.children[agent]
        events = stage.do(turn, ANSWER)
        assert stage.lives(owner) == (still is not None)
    assert owner in ended(events)


def test_a_held_completed_outcome_lets_owned_work_run_on(stage: Stage) -> None:
    """K182."""
    owner = stage.work()
    child = stage.work(owner)
    assert marks(stage.finish(owner)) == []
    assert stage.marked() == set()
    assert stage.lives(child)


@pytest.mark.parametrize("status", ["failed", "aborted", "faulted"])
def test_a_held_outcome_other_than_completed_cancels_what_is_below(stage: Stage, status: str) -> None:
    """K182, K204."""
    owner = stage.work()
    child = stage.work(owner)
    below = stage.work(stage.agent(child))
    events = stage.finish(owner, status=status)
    assert holds(events) == {owner: status}
    assert set(marks(events)) == {child, below}


def test_an_actor_whose_code_breaks_cancels_what_it_owns_before_it_ends(stage: Stage) -> None:
    """K204."""
    owner = stage.work()
    child = stage.work(owner)
    assert marks(stage.do(owner, Fault(detail="broken"))) == [child]
    assert ended(stage.do(child, Abort())) == {child: "aborted", owner: "faulted"}


def test_an_abort_of_a_completing_actor_only_marks_it_and_its_outcome_stands(stage: Stage) -> None:
    """K184."""
    owner = stage.work()
    child = stage.work(owner)
    stage.finish(owner)
    assert marks(stage.do(owner, Mark())) == [owner, child]
    assert stage.to_abort() == {child}
    assert ended(stage.do(child, Abort())) == {child: "aborted", owner: "completed"}


def test_an_owner_is_told_of_each_end_and_once_that_it_has_drained(stage: Stage) -> None:
    owner = stage.work()
    first, second = stage.work(owner), stage.work(owner)
    work = stage.work(stage.agent(first))
    stage.finish(first, second)
    assert stage.notes(owner) == (f"ended {second}",)
    stage.finish(work)
    assert stage.notes(owner) == (f"ended {second}", f"ended {first}", "drained")


def test_an_owner_is_told_that_it_has_drained_also_by_what_an_ended_actor_left_below(stage: Stage) -> None:
    """K196: an agent of an ended actor may work again while its owner's owner lives."""
    owner = stage.work()
    child = stage.work(owner)
    agent = stage.agent(child)
    stage.finish(child)
    work, other = stage.work(agent), stage.work(owner)
    stage.finish(other)
    assert stage.notes(owner)[-1] == f"ended {other}"
    stage.finish(work)
    assert stage.notes(owner)[-1] == "drained"


def test_a_turn_goes_on_when_the_last_work_below_its_ended_tools_ends(stage: Stage) -> None:
    """K196, D109: a subagent that was asked again outlives the call that it came from."""
    stage.do(ROOT, QUESTION)
    (turn,) = stage.state.children[ROOT]
    parts = tuple(Call(index=index, wire_id="", name="push", arguments="{}") for index in (0, 1))
    calls = tuple(CheckedCall(index=index, name="push") for index in (0, 1))
    stage.do(turn, ReceiveResponse(parts=parts, stop="calls", calls=calls))
    first, second = sorted(stage.state.children[turn])
    agent = stage.agent(first)
    for tool in (first, second):
        stage.do(tool, StartTool())
    stage.do(first, SettleTool())
    work = stage.work(agent)
    stage.do(second, SettleTool())
    assert stage.lives(turn)
    assert turn in ended(stage.finish(work))


# Waiting.


def test_all_settled_waits_for_every_one_and_leaves_the_others_alone(stage: Stage) -> None:
    """K187."""
    waiter = stage.work()
    first, second, third = (stage.work() for _ in range(3))
    stage.wait(waiter, first, second, third)
    assert marks(stage.finish(first, status="failed")) == []
    stage.finish(third)
    assert stage.notes(waiter) == ()
    stage.finish(second)
    assert stage.notes(waiter) == ("over failed completed completed",)


def test_fail_fast_marks_the_rest_in_the_commit_of_the_failure(stage: Stage) -> None:
    """K189."""
    waiter = stage.work()
    first, second, third = (stage.work(waiter) for _ in range(3))
    stage.wait(waiter, first, second, third, fail_fast=True)
    events = stage.finish(second, status="failed")
    assert ended(events) == {second: "failed"}
    assert set(marks(events)) == {first, third}


def test_fail_fast_does_not_wait_for_a_failed_actor_to_drain(stage: Stage) -> None:
    """K189: the first that *holds* an outcome other than completed."""
    waiter = stage.work()
    first, second = stage.work(waiter), stage.work(waiter)
    child = stage.work(first)
    stage.wait(waiter, first, second, fail_fast=True)
    events = stage.finish(first, status="failed")
    assert holds(events) == {first: "failed"}
    assert set(marks(events)) == {child, second}


def test_fail_fast_marks_a_completing_actor_too(stage: Stage) -> None:
    waiter = stage.work()
    first, second = stage.work(waiter), stage.work(waiter)
    child = stage.work(first)
    stage.wait(waiter, first, second, fail_fast=True)
    stage.finish(first)
    assert set(marks(stage.finish(second, status="failed"))) == {first, child}


def test_fail_fast_fails_at_once_where_one_has_failed_already(stage: Stage) -> None:
    waiter = stage.work()
    first, second, third = (stage.work(waiter) for _ in range(3))
    stage.finish(first, status="failed")
    wait = WaitStarted(on=(first, second), known=((first, FAILED),), fail_fast=True)
    assert marks(stage.play(waiter, wait)) == [second]
    assert stage.marked() == {second}
    assert stage.lives(third)


def test_fail_fast_over_what_one_does_not_own_is_against_the_rules(stage: Stage) -> None:
    """K192."""
    waiter, other = stage.work(), stage.work()
    assert "which it does not own" in faults(stage.wait(waiter, other, fail_fast=True))[waiter]
    assert stage.lives(other)


def test_outcomes_come_in_the_order_of_the_list(stage: Stage) -> None:
    """K190."""
    waiter = stage.work()
    first, second, third = (stage.work() for _ in range(3))
    stage.finish(third, status="aborted")
    stage.play(
        waiter,
        WaitStarted(on=(first, third, second), known=((third, Outcome(status="aborted")),)),
    )
    stage.finish(second)
    stage.finish(first, status="failed")
    assert stage.notes(waiter) == ("over failed aborted completed",)


def test_a_wait_for_nothing_and_for_what_has_ended_is_over_in_its_own_commit(stage: Stage) -> None:
    """K193."""
    waiter = stage.work()
    assert stage.play(waiter, WaitStarted(on=()))[-1] == (waiter, Noted(what="over "))
    events = stage.play(waiter, WaitStarted(on=(98, 99), known=((99, FAILED), (98, COMPLETED))))
    assert events[-1] == (waiter, Noted(what="over completed failed"))


def test_a_wait_for_what_is_not_live_is_refused_so_that_its_outcome_is_looked_up(stage: Stage) -> None:
    waiter = stage.work()
    with pytest.raises(CommandRefused, match="actor 99 is not live"):
        stage.wait(waiter, 99)


def test_nobody_waits_for_itself_for_its_owners_or_in_a_circle(stage: Stage) -> None:
    owner, other = stage.work(), stage.work()
    for target in ("itself", "owner", "circle"):
        child = stage.work(owner)
        if target == "circle":
            stage.wait(other, owner)
        on = {"itself": child, "owner": owner, "circle": other}[target]
        assert "which waits for it" in faults(stage.wait(child, on))[child]


def test_an_owner_that_has_ended_may_be_waited_for(stage: Stage) -> None:
    """K193: what has ended waits for nobody."""
    owner = stage.work()
    work = stage.work(stage.agent(owner))
    stage.do(owner, Mark())
    stage.do(work, Abort())
    stage.do(owner, Abort())
    (agent,) = stage.state.children[owner]
    later = stage.work(agent)
    stage.play(later, WaitStarted(on=(owner,), known=((owner, Outcome(status="aborted")),)))
    assert stage.notes(later) == ("over aborted",)


# Stopping.


def test_an_abort_reaches_everything_ordinary_below_in_its_own_commit(stage: Stage) -> None:
    """K194, X76."""
    owner = stage.work()
    child = stage.work(owner)
    agent = stage.agent(child)
    work, background = stage.work(agent), stage.work(agent, background=True)
    held = stage.work(background)
    assert marks(stage.do(owner, Mark())) == [owner, child, work]
    assert stage.lives(held)
    assert not stage[held].marked


def test_abort_steps_run_leaf_first(stage: Stage) -> None:
    """K194."""
    owner = stage.work()
    child = stage.work(owner)
    left, right = stage.work(child), stage.work(stage.agent(child))
    stage.do(owner, Mark())
    order: list[set[ActorId]] = []
    while stage.to_abort():
        order.append(stage.to_abort())
        stage.do(max(stage.to_abort()), Abort())
    assert order == [{left, right}, {left}, {child}, {owner}]


def test_an_abort_does_not_wait_for_what_is_merely_waited_for(stage: Stage) -> None:
    """K195."""
    waiter, other = stage.work(), stage.work()
    stage.wait(waiter, other)
    stage.do(waiter, Mark())
    assert stage.to_abort() == {waiter}
    assert ended(stage.do(waiter, Abort())) == {waiter: "aborted"}
    assert stage.do(other, Play(decision=Decision(finish=COMPLETED))) == [
        (other, WorkEnded(outcome=COMPLETED))
    ]


def test_a_terminal_owner_never_cascades_and_an_abort_above_it_does(stage: Stage) -> None:
    """K196."""
    above = stage.work()
    owner = stage.work(above)
    agent = stage.agent(owner)
    stage.finish(owner, status="failed")
    events = stage.do(agent, QUESTION)
    assert RunStarted in [type(event) for _, event in events]
    assert stage.marked() == set()
    (turn,) = stage.state.children[agent]
    assert marks(stage.do(above, Mark())) == [above, turn]


def test_work_that_comes_later_below_a_cancelled_actor_is_marked_as_it_is_spawned(stage: Stage) -> None:
    for cancel in (Mark(), Play(decision=Decision(finish=FAILED))):
        owner = stage.work()
        agent = stage.agent(owner)
        stage.work(agent)
        stage.do(owner, cancel)
        events = stage.do(agent, QUESTION)
        (turn,) = marks(events)
        assert stage[turn].kind == "pi.generation"
        assert stage.to_abort() >= {turn}


def test_an_abort_withdraws_queued_inputs_below_and_leaves_queued_writes(stage: Stage) -> None:
    owner = stage.work()
    agent = stage.agent(owner)
    stage.do(agent, QUESTION)
    stage.do(agent, QUESTION)
    stage.do(agent, SubmitWrite(entry=EntryDraft(kind="note")))
    events = stage.do(owner, Mark())
    withdrawn = [event for actor, event in events if isinstance(event, SubmissionSettled) and actor == agent]
    assert [event.reason for event in withdrawn] == ["aborted"]
    state = stage[agent].state
    assert isinstance(state, AgentState)
    assert [item.mode for item in state.inbox] == ["write"]


def test_an_ordinary_abort_of_an_agent_stops_at_boundaries_and_the_other_crosses_them(stage: Stage) -> None:
    """K182, L208: what exists at that moment; a boundary that comes later is left alone."""
    work, background = stage.work(), stage.work(background=True)
    held = stage.work(background)
    assert marks(stage.do(ROOT, AbortAgent())) == [work]
    stage.do(work, Abort())
    assert stage.state.busy_agents == 0
    assert set(marks(stage.do(ROOT, AbortAgent(background=True)))) == {background, held}
    assert not stage[stage.work(background=True)].marked


def test_an_actor_without_its_code_is_orphaned_once_what_it_owns_has_ended(stage: Stage) -> None:
    """K206."""
    owner = stage.work()
    child = stage.work(owner)
    stage.do(owner, Mark())
    assert stage.to_abort() == {child}
    assert ended(stage.do(child, Orphan(detail="no code"))) == {child: "orphaned"}
    assert ended(stage.do(owner, Orphan(detail="no code"))) == {owner: "orphaned"}


def test_what_a_step_reports_is_stored_though_its_actor_must_stop_and_starts_nothing(stage: Stage) -> None:
    """K202: the abort step sees how far the actor had come."""
    actor = stage.work(kind="shop.thing")
    stage.do(actor, Mark())
    report = Advance(after=actor, state=b'"charged"', version=1, children=(CHILD,), due_us=9)
    assert stage.do(actor, report) == [(actor, WorkAdvanced(state=b'"charged"', version=1))]
    state = stage[actor].state
    assert isinstance(state, CustomState)
    assert state.state == b'"charged"'
    assert stage.to_abort() == {actor}


def test_background_work_does_not_keep_its_agent_busy(stage: Stage) -> None:
    """L208: but a completing and a waiting actor do."""
    background = stage.work(background=True)
    stage.do(stage.agent(background), QUESTION)
    assert stage.state.busy_agents == 0
    waiter = stage.work()
    stage.wait(waiter, background)
    assert stage.state.busy_agents == 1


# Refusing and breaking.


def test_only_the_addressed_actor_may_refuse_and_then_nothing_has_happened(stage: Stage) -> None:
    first, second = stage.work(), stage.work()
    before = stage.state
    with pytest.raises(CommandRefused):
        stage.do(first, Play(decision=note("x")), Send(second, Play(refuses=True)))
    assert stage.state == before


def test_a_message_that_its_recipient_would_refuse_changes_nothing(stage: Stage) -> None:
    first, second = stage.work(), stage.work()
    message = Send(second, Play(refuses=True))
    assert stage.play(first, Noted(what="x"), messages=(message,)) == [(first, Noted(what="x"))]


def test_a_recipient_that_breaks_is_faulted_and_everything_else_is_delivered(stage: Stage) -> None:
    first, second, third = stage.work(), stage.work(), stage.work()
    messages = (
        Send(second, Play(decision=note("before"))),
        Send(second, Play(breaks=True)),
        Send(third, Play(decision=note("after"))),
    )
    events = stage.play(first, Noted(what="x"), messages=messages)
    assert list(faults(events)) == [second]
    assert "ZeroDivisionError in decide: the puppet broke" in faults(events)[second]
    assert (first, Noted(what="x")) in events
    assert (third, Noted(what="after")) in events
    assert (second, Noted(what="before")) not in events


def test_several_recipients_may_break_in_one_commit(stage: Stage) -> None:
    first, second, third = stage.work(), stage.work(), stage.work()
    messages = tuple(Send(actor, Play(breaks=True)) for actor in (second, third))
    events = stage.play(first, Noted(what="x"), messages=messages)
    assert set(faults(events)) == {second, third}
    assert stage.notes(first) == ("x",)


@pytest.mark.parametrize("event", [Misfit(), child_of(ROOT, 99), WaitStarted(on=(99,), fail_fast=True)])
def test_an_actor_that_breaks_a_rule_is_faulted_alone_and_its_report_is_kept(
    stage: Stage, event: msgspec.Struct
) -> None:
    first, second = stage.work(), stage.work()
    if isinstance(event, WaitStarted):
        event = WaitStarted(on=(second,), fail_fast=True)
    decision = Decision(
        events=(Noted(what="so far"), event), messages=(Send(second, Play(decision=note("x"))),)
    )
    events = stage.do(first, Play(decision=decision))
    assert [actor for actor, _ in events] == [first]
    assert "it was deciding Play(" in faults(events)[first]
    assert "so far" in faults(events)[first]


def test_a_kept_report_is_cut_to_a_readable_length(stage: Stage) -> None:
    actor = stage.work()
    events = stage.play(actor, Noted(what="x" * 100_000), Misfit())
    assert len(faults(events)[actor]) < 3_000


def test_a_message_to_an_actor_that_has_ended_changes_nothing(stage: Stage) -> None:
    first, second = stage.work(), stage.work()
    stage.finish(second)
    assert stage.play(first, messages=(Send(second, Play(decision=note("x"))),)) == []
    assert stage.do(second, Mark()) == []
    assert stage.do(second, Fault(detail="late")) == []


def test_an_agent_that_is_not_there_is_not_found(stage: Stage) -> None:
    work = stage.work()
    for id in (work, 99):
        with pytest.raises(NotFound, match=f"there is no agent {id} in this session"):
            require(stage.state, id)
    assert require(stage.state, ROOT).is_agent


def test_an_agent_cannot_be_marked(stage: Stage) -> None:
    with pytest.raises(CommandRefused, match=r"1 is an agent.*AbortAgent"):
        stage.do(ROOT, Mark())


def test_a_result_for_a_run_that_is_over_changes_nothing(stage: Stage) -> None:
    """A message that no longer fits is no error."""
    puppet = stage.work()
    stage.do(ROOT, QUESTION)
    (turn,) = [id for id in stage.state.children[ROOT] if id != puppet]
    parts = (Call(index=0, wire_id="", name="push", arguments="{}"),)
    calls = (CheckedCall(index=0, name="push"),)
    stage.do(turn, ReceiveResponse(parts=parts, stop="calls", calls=calls))
    (tool,) = stage.state.children[turn]
    stage.do(tool, StartTool())
    events = stage.do(tool, SettleTool())
    (settled,) = [event for _, event in events if isinstance(event, ToolResultSettled)]
    assert stage.play(puppet, messages=(Send(ROOT, SettleCall(result=settled)),)) == []


def test_a_commit_is_made_of_what_it_would_be_again(stage: Stage) -> None:
    """Deciding is pure: an attempt that is dropped leaves no trace, and a crash is such an attempt."""
    owner = stage.work()
    stage.work(stage.agent(owner))
    once = run_to_rest(stage.state, [Send(owner, Mark())], GIVEN)
    again = run_to_rest(folded(stage.log), [Send(owner, Mark())], GIVEN)
    assert once == again


def test_a_passive_agent_is_named_before_it_would_have_to_decide_and_nothing_has_happened(
    stage: Stage,
) -> None:
    owner = stage.work()
    child = stage.agent(owner)
    before = fall_asleep(stage, child)
    for command in (QUESTION, AbortAgent(), CHILD):
        with pytest.raises(Asleep) as asleep:
            stage.do(child, command)
        assert asleep.value.agent == child
        assert stage.state == before


def test_an_abort_above_says_nothing_to_a_passive_agent(stage: Stage) -> None:
    owner = stage.work()
    child = stage.agent(owner)
    fall_asleep(stage, child)
    assert marks(stage.do(owner, Mark())) == [owner]
    assert isinstance(stage[child].state, Passive)
    assert owed(stage[child], KINDS) == ()


def fall_asleep(stage: Stage, agent: ActorId) -> SessionState:
    """Put a stand-in into the agent's place, as the runtime does."""
    stand_in = Passive(position=stage.state.position, last_step=0, model=None)
    passive = msgspec.structs.replace(stage[agent], state=stand_in)
    actors = stage.state.actors.set(agent, passive)
    stage.state = msgspec.structs.replace(stage.state, actors=actors)
    return stage.state


def test_what_an_ended_owner_was_is_forgotten_and_what_it_owns_stays(stage: Stage) -> None:
    owner = stage.work()
    stage.do(owner, WriteMemo(name="a", value=b"1"))
    child = stage.agent(owner)
    stage.finish(owner)
    assert (stage[owner].state, len(stage[owner].memos)) == (OVER, 0)
    assert stage[child].parent == owner

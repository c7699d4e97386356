"""Actors of one's own as users meet them: versions, faults, timers, waits, background, tools."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pi_actors import (
    ActorKind,
    CommandRefused,
    Done,
    Failed,
    InvalidValue,
    Next,
    NotFound,
    Outcome,
    Session,
    ToolContext,
    UnknownName,
    Work,
    open_session,
    open_store,
    tool,
)
from pi_actors.actors.agent.messages import RunRecovered, ToolResultSettled
from pi_actors.core.lifecycle import AbortMarked, OutcomeHeld, WorkEnded
from pi_actors.models import ScriptedModel, call, fail, reply
from pi_actors.testing import TrioClock, check_log, check_session
from tests.session.gate import Gate
from tests.session.opened import QUICK, opened
from tests.session.watching import events_of, topics_of

Step = Callable[[Work[Any]], Awaitable[Any]]


class Plan(msgspec.Struct, frozen=True):
    """A state that says what has been done."""

    done: tuple[str, ...] = ()


def kind(step: Step, *, name: str = "test.work", **rest: Any) -> ActorKind[Any]:
    """A kind whose state is a Plan."""
    return ActorKind(name, Plan, step=step, **rest)


async def finish(_: Work[Plan]) -> Done:
    """The shortest step."""
    await trio.lowlevel.checkpoint()
    return Done("finished")


async def hang(_: Work[Plan]) -> Done:
    """The longest step."""
    await trio.sleep_forever()


FINISHING = kind(finish, name="test.finishing")
HANGING = kind(hang, name="test.hanging")


async def outcome(step: Step, *others: ActorKind[Any], **rest: Any) -> Outcome:
    """What comes of an actor with this step."""
    mine = kind(step, **rest)
    async with open_session("memory:", actors=[mine, *others]) as session:
        ended = await session.wait_actor(await session.root.spawn(mine, Plan()))
        await session.wait_idle()
        await check_session(session)
        return ended


async def blocked(session: Session) -> list[str]:
    """Why actors cannot go on here."""
    await trio.lowlevel.checkpoint()
    return [node.blocked for node in session.tree() if node.blocked is not None]


async def lives(session: Session, id: int) -> None:
    """Return when the actor is shown."""
    await session.live.waits.until(lambda state: id in state.actors)


# Versions.


async def left_over(path: Path, *, version: int) -> int:
    """An actor of this version of ``test.work`` that another process left in its first step."""
    mine = kind(hang, version=version)
    async with open_session(path, actors=[mine]) as session:
        return await session.root.spawn(mine, Plan(("old",)))


async def test_an_old_state_is_taken_up_by_migrate(tmp_path: Path) -> None:
    id = await left_over(tmp_path / "work.db", version=1)
    seen: list[tuple[object, int]] = []

    def migrate(old: Any, version: int) -> Plan:
        seen.append((old, version))
        return Plan((*old["done"], "migrated"))

    async def step(work: Work[Plan]) -> Next[Plan] | Done:
        return (
            Done(list(work.state.done)) if len(work.state.done) > 2 else Next(Plan((*work.state.done, "new")))
        )

    new = kind(step, version=2, migrate=migrate)
    async with open_session(tmp_path / "work.db", actors=[new]) as session:
        assert (await session.wait_actor(id)).result == ["old", "migrated", "new"]
    assert set(map(str, seen)) == {"({'done': ['old']}, 1)"}


async def test_a_state_of_a_newer_version_blocks_its_actor_until_newer_code_is_registered(
    tmp_path: Path,
) -> None:
    id = await left_over(tmp_path / "work.db", version=2)
    async with open_session(tmp_path / "work.db", actors=[kind(finish, version=1)]) as session:
        assert await blocked(session) == ["its state is of version 2, this process has 1"]
        session.register(actors=[kind(finish, version=2)])
        assert (await session.wait_actor(id)).result == "finished"


async def test_a_state_that_no_migration_takes_up_blocks_its_actor(tmp_path: Path) -> None:
    id = await left_over(tmp_path / "work.db", version=1)

    def migrate(old: Any, version: int) -> Plan:
        raise KeyError("nothing to go by")

    def mend(old: Any, version: int) -> Plan:
        return Plan(tuple(old["done"]))

    problems = {
        None: "its state is of version 1 and test.work has no migrate=",
        migrate: "its state of version 1 cannot be taken up: 'nothing to go by'",
    }
    for broken, why in problems.items():
        async with open_session(
            tmp_path / "work.db", actors=[kind(finish, version=2, migrate=broken)]
        ) as session:
            assert await blocked(session) == [why]
            assert session.tree()[-1].state == "pending"
            if broken is not None:
                session.register(actors=[kind(finish, version=3, migrate=mend)])
                assert (await session.wait_actor(id)).result == "finished"


async def test_an_aborted_actor_whose_state_cannot_be_taken_up_is_orphaned(tmp_path: Path) -> None:
    """K206."""
    id = await left_over(tmp_path / "work.db", version=2)
    async with open_session(tmp_path / "work.db", actors=[kind(finish, version=1)]) as session:
        await session.root.abort()
        ended = await session.wait_actor(id)
        assert (ended.status, ended.detail) == ("orphaned", "its state is of version 2, this process has 1")


async def test_two_kinds_of_one_name_and_version_are_refused() -> None:
    async with open_session("memory:", actors=[kind(finish)]) as session:
        with pytest.raises(CommandRefused, match=r"there are two kinds named 'test\.work'"):
            session.register(actors=[kind(hang)])


async def test_a_kind_needs_a_prefix_of_its_own() -> None:
    async with open_session("memory:") as session:
        with pytest.raises(CommandRefused, match=r"needs a prefix of its own, such as shop\.work"):
            session.register(actors=[kind(finish, name="work")])


# Faults.


async def test_a_step_that_raises_faults_its_actor_and_what_it_owns_is_cancelled_first() -> None:
    """K204."""

    async def step(work: Work[Plan]) -> Next[Plan]:
        if not work.state.done:
            return Next(Plan(("spawned",)), spawn=[FINISHING.start(Plan())])
        await work.spawn_agent()
        raise ZeroDivisionError("it broke")

    ended = await outcome(step, FINISHING)
    assert ended.status == "faulted"
    assert str(ended.detail).startswith("ZeroDivisionError: it broke (in step, line ")


@pytest.mark.parametrize("wrong", [None, 3, Outcome(status="completed")], ids=str)
async def test_a_step_that_returns_anything_else_faults_its_actor(wrong: object) -> None:
    """K201: no durable progress."""

    async def step(_: Work[Plan]) -> object:
        return wrong

    ended = await outcome(step)
    assert ended.status == "faulted"
    assert "it must return Next, Done or Failed" in str(ended.detail)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Next("not a plan"), "is no state of test.work"),
        (Done(object()), "the result of test.work"),
        (Next(Plan(), on=[99]), "there is no work actor 99"),
        (Next(Plan(), on=[1]), "there is no work actor 1"),
    ],
    ids=["no state", "no JSON", "no actor", "an agent"],
)
async def test_a_step_that_returns_what_cannot_be_stored_faults_its_actor(wrong: object, why: str) -> None:
    async def step(_: Work[Plan]) -> object:
        return wrong

    ended = await outcome(step)
    assert ended.status == "faulted"
    assert why in str(ended.detail)


async def test_a_step_that_waits_for_itself_is_faulted_with_its_report() -> None:
    async def step(work: Work[Plan]) -> Next[Plan]:
        return Next(Plan(("a trace",)), on=[work.id])

    ended = await outcome(step)
    assert ended.status == "faulted"
    assert "which waits for it; it was deciding Advance(" in str(ended.detail)
    assert "a trace" in str(ended.detail)


async def test_a_failed_actor_says_why() -> None:
    async def step(_: Work[Plan]) -> Failed:
        return Failed("no money")

    assert await outcome(step) == Outcome(status="failed", detail="no money")


async def aborted(abort: Step) -> Outcome:
    """What comes of a hanging actor with this abort step."""
    mine = kind(hang, abort=abort)
    async with open_session("memory:", actors=[mine]) as session:
        id = await session.root.spawn(mine, Plan())
        assert await session.abort_actor(id) == "marked"
        return await session.wait_actor(id)


async def test_an_abort_step_that_spawns_is_refused_and_faults_its_actor() -> None:
    """K200."""

    async def undo(work: Work[Plan]) -> None:
        await work.spawn_agent()

    ended = await aborted(undo)
    assert ended.status == "faulted"
    assert "it cannot spawn or wait" in str(ended.detail)


async def test_an_abort_step_that_returns_a_next_step_faults_its_actor() -> None:
    """K200."""

    async def undo(_: Work[Plan]) -> object:
        return Next(Plan(), spawn=[HANGING.start(Plan())])

    ended = await aborted(undo)
    assert ended.status == "faulted"
    assert "it only undoes what was done" in str(ended.detail)


async def test_an_abort_step_that_raises_faults_its_actor() -> None:
    async def undo(_: Work[Plan]) -> None:
        raise OSError("no line")

    assert (await aborted(undo)).status == "faulted"


async def test_an_abort_step_may_remember_what_it_did() -> None:
    kept: list[object] = []

    async def undo(work: Work[Plan]) -> None:
        kept.extend([await work.memo("undone", 1), await work.memo("undone", 2)])

    assert (await aborted(undo)).status == "aborted"
    assert kept == [1, 1]


async def test_what_a_step_did_before_its_cancellation_reaches_its_abort_step() -> None:
    """K202: reported, stored, and only then undone."""
    started, go_on = trio.Event(), trio.Event()
    seen: list[Plan] = []

    async def step(work: Work[Plan]) -> Next[Plan]:
        with trio.CancelScope(shield=True):
            started.set()
            await go_on.wait()
        return Next(Plan(("charged",)), spawn=[HANGING.start(Plan())])

    async def undo(work: Work[Plan]) -> None:
        seen.append(work.state)

    mine = kind(step, abort=undo)
    async with open_session("memory:", actors=[mine, HANGING]) as session:
        id = await session.root.spawn(mine, Plan())
        await started.wait()
        await session.abort_actor(id)
        go_on.set()
        assert (await session.wait_actor(id)).status == "aborted"
        assert seen == [Plan(("charged",))]
        assert (await topics_of(session)).count("WorkSpawned") == 1


# Timers.


async def test_a_step_comes_at_its_time_on_the_sessions_clock(autojump_clock: MockClock) -> None:
    """K205: also in a year, which no timer of the system reaches in one go."""
    clock = TrioClock()
    due = clock.now() + timedelta(days=400)
    woken: list[bool] = []

    async def step(work: Work[Plan]) -> Next[Plan] | Done:
        if not work.state.done:
            return Next(Plan(("slept",)), at=due)
        woken.append(clock.now() >= due)
        return Done()

    mine = kind(step)
    async with open_session("memory:", actors=[mine], clock=clock) as session:
        assert session.next_wake() is None
        id = await session.root.spawn(mine, Plan())
        await session.live.waits.until(lambda _: session.next_wake() is not None)
        assert session.next_wake() == due
        await session.wait_actor(id)
        assert woken == [True]
        assert session.next_wake() is None


async def test_a_deadline_that_passed_while_nobody_was_there_is_met_at_once(
    autojump_clock: MockClock,
) -> None:
    """K205."""
    clock = TrioClock()
    due = clock.now() + timedelta(hours=1)

    async def step(work: Work[Plan]) -> Next[Plan] | Done:
        return Done() if work.state.done else Next(Plan(("slept",)), at=due)

    mine = kind(step)
    async with open_store("memory:") as store:
        async with open_session(store, actors=[mine], clock=clock) as session:
            id = await session.root.spawn(mine, Plan())
            await session.live.waits.until(lambda _: session.next_wake() is not None)
        await trio.sleep(7200)
        async with open_session(store, actors=[mine], clock=clock, resume=False) as session:
            assert session.next_wake() == due
            session.resume()
            await session.wait_actor(id)
            assert (clock.now() - due) < timedelta(hours=2)


async def test_a_deadline_of_what_must_stop_or_has_ended_wakes_nobody(autojump_clock: MockClock) -> None:
    clock = TrioClock()
    due = clock.now() + timedelta(hours=1)

    async def step(work: Work[Plan]) -> Next[Plan] | Done:
        await work.spawn_agent()
        return Done() if work.state.done else Next(Plan(("slept",)), at=due)

    mine = kind(step)
    async with open_session("memory:", actors=[mine], clock=clock) as session:
        ended = await session.root.spawn(mine, Plan())
        await session.wait_actor(ended)
        assert session.next_wake() is None
        id = await session.root.spawn(mine, Plan())
        await session.live.waits.until(lambda _: session.next_wake() is not None)
        await session.abort_actor(id)
        assert session.next_wake() is None


# Waiting.


async def test_a_step_waits_for_what_ended_long_ago_and_gets_outcomes_in_its_order() -> None:
    """K190, K193."""
    found: list[tuple[str, ...]] = []

    async def step(work: Work[Plan]) -> Next[Plan] | Done:
        if not work.state.done:
            return Next(Plan(("waited",)), on=[others[1], others[0], others[1]])
        found.append(tuple(each.status for each in work.outcomes))
        return Done()

    async def refuse(_: Work[Plan]) -> Failed:
        return Failed("no")

    mine, refusing = kind(step), kind(refuse, name="test.refusing")
    async with open_session("memory:", actors=[mine, FINISHING, refusing]) as session:
        others = [await session.root.spawn(each, Plan()) for each in (FINISHING, refusing)]
        await session.wait_idle()
        await session.wait_actor(await session.root.spawn(mine, Plan()))
        assert found == [("failed", "completed", "failed")]


async def test_fail_fast_marks_the_rest_in_the_commit_of_the_failure() -> None:
    """K189, K194: and their abort steps run before the parent goes on."""
    undone: list[int] = []
    entered = trio.Event()

    async def decline(_: Work[Plan]) -> Failed:
        await entered.wait()
        return Failed("declined")

    async def pay(work: Work[Plan]) -> Done:
        entered.set()
        await trio.sleep_forever()

    async def undo(work: Work[Plan]) -> None:
        undone.append(work.id)

    declining, paying = kind(decline, name="test.declining"), kind(pay, name="test.paying", abort=undo)

    async def step(work: Work[Plan]) -> Next[Plan] | Done:
        if work.outcomes:
            return Done([each.status for each in work.outcomes])
        return Next(Plan(), spawn=[paying.start(Plan()), declining.start(Plan())], fail_fast=True)

    mine = kind(step)
    async with open_session("memory:", actors=[mine, declining, paying]) as session:
        id = await session.root.spawn(mine, Plan())
        assert (await session.wait_actor(id)).result == ["aborted", "failed"]
        (failing,) = [
            commit
            for commit in await events_of(session)
            if any(
                isinstance(each.event, WorkEnded) and each.event.outcome.status == "failed" for each in commit
            )
        ]
        assert [each.actor for each in failing if isinstance(each.event, AbortMarked)] == undone


async def test_fail_fast_over_an_actor_of_somebody_else_faults_the_waiter(tmp_path: Path) -> None:
    """K192."""

    async def step(work: Work[Plan]) -> Next[Plan]:
        return Next(Plan(), on=[other], fail_fast=True)

    mine = kind(step)
    async with open_session("memory:", actors=[mine, HANGING]) as session:
        other = await session.root.spawn(HANGING, Plan())
        ended = await session.wait_actor(await session.root.spawn(mine, Plan()))
        assert "which it does not own" in str(ended.detail)
        assert await session.abort_actor(other) == "marked"


async def test_a_waiting_actor_is_aborted_without_waiting_for_what_it_does_not_own() -> None:
    """K195."""

    async def step(work: Work[Plan]) -> Next[Plan]:
        return Next(Plan(), on=[other])

    mine = kind(step)
    async with open_session("memory:", actors=[mine, HANGING]) as session:
        other = await session.root.spawn(HANGING, Plan())
        id = await session.root.spawn(mine, Plan())
        await session.live.waits.until(lambda state: state.actors[id].wait is not None)
        (node,) = [node for node in session.tree() if node.id == id]
        assert node.waiting_on == (other,)
        await session.abort_actor(id)
        assert (await session.wait_actor(id)).status == "aborted"
        assert [node.id for node in session.tree()] == [1, other]


async def test_code_of_an_actor_cannot_wait_for_what_waits_for_it() -> None:
    async def step(work: Work[Plan]) -> Done:
        for wait in (work.session.wait_idle, work.agent.wait_idle, work.agent.abort):
            with pytest.raises(CommandRefused, match="it would never end"):
                await wait()
        with pytest.raises(CommandRefused, match="it would never end"):
            await work.session.wait_actor(work.id)
        return Done("went on")

    assert (await outcome(step)).result == "went on"


async def test_the_wait_for_what_is_no_work_actor_is_refused() -> None:
    async with open_session("memory:") as session:
        for id in (1, 99):
            with pytest.raises(NotFound, match=f"{id}"):
                await session.wait_actor(id)
            with pytest.raises(NotFound, match=f"{id}"):
                await session.abort_actor(id)


# The tree.


async def test_a_node_appears_at_its_birth_and_vanishes_with_its_end() -> None:
    """Q263, Q266: a marked owner shows what it still waits for."""
    undoing = Gate()

    async def undo(_: Work[Plan]) -> None:
        undoing.entered.set()
        await undoing.opened.wait()

    child = kind(hang, name="test.child", abort=undo)

    async def step(work: Work[Plan]) -> Next[Plan]:
        return Next(Plan(), spawn=[child.start(Plan())])

    mine = kind(step)
    async with open_session("memory:", actors=[mine, child]) as session:
        id = await session.root.spawn(mine, Plan())
        await session.live.waits.until(lambda state: len(state.actors) == 3)
        await session.abort_actor(id)
        await undoing.entered.wait()
        root, owner, owned = session.tree()
        assert (root.state, owner.kind, owned.owner) == ("waiting", "test.work", id)
        assert (owner.abort_requested, owner.waiting_on) == (True, (owned.id,))
        undoing.opened.set()
        await session.wait_actor(id)
        assert [node.id for node in session.tree()] == [1]


# Background.


async def test_background_work_outlives_an_ordinary_abort_and_is_not_waited_for() -> None:
    """L208: and an abort with background=True reaches it."""
    async with open_session("memory:", actors=[HANGING, FINISHING]) as session:
        id = await session.root.spawn(HANGING, Plan(), background=True)
        ordinary = await session.root.spawn(HANGING, Plan())
        await session.root.abort()
        assert (await session.wait_actor(ordinary)).status == "aborted"
        await session.wait_idle()
        assert [node.background for node in session.tree()] == [False, True]
        await session.root.abort(background=True)
        assert (await session.wait_actor(id)).status == "aborted"


async def test_background_work_goes_on_though_the_agents_run_only_waits_for_its_retry(
    tmp_path: Path,
) -> None:
    """And a run that only waits is not counted as recovered."""
    model = ScriptedModel([[fail("overloaded", retry_after_ms=600_000), reply("late")]])
    path, gate = tmp_path / "work.db", Gate()

    async def step(work: Work[Plan]) -> Done:
        gate.entered.set()
        await gate.opened.wait()
        return Done()

    mine = kind(step)
    async with open_session(path, model=model, actors=[mine]) as session:
        await session.root.submit("go")
        id = await session.root.spawn(mine, Plan(), background=True)
        await session.live.waits.until(lambda _: session.next_wake() is not None)
        await gate.entered.wait()
    gate.opened.set()
    async with open_session(path, model=model, actors=[mine]) as session:
        assert (await session.wait_actor(id)).status == "completed"
        assert "RunRecovered" not in await topics_of(session)


# Tools that own.


async def test_a_tool_that_returns_while_its_child_lives_gives_its_result_now_and_waits() -> None:
    """D109: the result is stored, the call completes, the turn waits."""
    gate = Gate()

    async def step(_: Work[Plan]) -> Done:
        await gate.opened.wait()
        return Done()

    mine = kind(step)

    @tool
    async def start(ctx: ToolContext) -> str:
        """Start something."""
        await ctx.spawn(mine, Plan())
        return "started"

    model = ScriptedModel([reply("", call("start")), reply("done")])
    async with open_session("memory:", model=model, tools=[start], actors=[mine]) as session:
        submission = await session.root.submit("go")
        await session.live.waits.until(lambda state: any(each.held for each in state.actors.values()))
        commits = await events_of(session)
        assert {type(each.event) for each in commits[-1]} == {ToolResultSettled, OutcomeHeld}
        states = {node.kind: node.state for node in session.tree()}
        assert states["pi.tool"] == "completing"
        assert await submission.status() == "placed"
        gate.opened.set()
        assert (await submission.wait()).text == "done"


@pytest.mark.parametrize("fails", [False, True])
async def test_a_tool_waits_for_what_it_has_spawned(fails: bool) -> None:
    async def refuse(_: Work[Plan]) -> Failed:
        return Failed("no")

    refusing = kind(refuse, name="test.refusing")

    @tool
    async def both(ctx: ToolContext) -> str:
        """Spawn and wait."""
        first = await ctx.spawn(HANGING if fails else FINISHING, Plan(), name="first")
        second = await ctx.spawn(refusing if fails else FINISHING, Plan(), name="second")
        return " ".join(each.status for each in await ctx.wait(first, second, fail_fast=fails))

    assert await result_of(both, refusing) == ("aborted failed" if fails else "completed completed")


async def result_of(function: Any, *kinds: ActorKind[Any]) -> str:
    """What the model is given for one call of the tool."""
    model = ScriptedModel([reply("", call(function.name)), reply("done")])
    actors = [FINISHING, HANGING, *kinds]
    async with open_session("memory:", model=model, tools=[function], actors=actors) as session:
        await session.root.ask("go")
        (entry,) = [each for each in await session.root.history() if each.kind == "pi.tool-result"]
        return entry.text


async def test_a_tools_wait_obeys_the_rules_and_its_refusals_are_plain_errors() -> None:
    """K192; never in an exception group, so a tool can catch them."""

    @tool
    async def wrong(ctx: ToolContext) -> str:
        """Wait wrongly."""
        other = await ctx.agent.spawn(HANGING, Plan())
        mine = await ctx.spawn(FINISHING, Plan())
        (generation,) = [node.id for node in ctx.session.tree() if node.kind == "pi.generation"]
        with pytest.raises(CommandRefused, match=f"actor {other} does not belong to this call"):
            await ctx.wait(mine, other, fail_fast=True)
        with pytest.raises(CommandRefused, match="it would never end"):
            await ctx.wait(mine, generation)
        with pytest.raises(NotFound, match="there is no work actor 99"):
            await ctx.wait(mine, 99)
        assert await ctx.session.abort_actor(other) == "marked"
        return "fine"

    assert await result_of(wrong) == "fine"


async def test_a_tool_cannot_spawn_what_this_process_does_not_know_or_what_does_not_fit() -> None:
    stranger = kind(finish, name="test.stranger")

    @tool
    async def wrong(ctx: ToolContext) -> str:
        """Spawn wrongly."""
        with pytest.raises(UnknownName, match=r"no actor kind 'test\.stranger'"):
            await ctx.spawn(stranger, Plan())
        with pytest.raises(InvalidValue, match=r"is no state of test\.finishing"):
            await ctx.spawn(FINISHING, "no plan")
        return "fine"

    assert await result_of(wrong) == "fine"


async def test_a_call_that_is_run_again_finds_what_it_remembered_and_spawned(tmp_path: Path) -> None:
    seen: list[tuple[object, int]] = []
    entered = trio.Event()

    @tool(replay="safe")
    async def again(ctx: ToolContext) -> str:
        """Remember and spawn."""
        seen.append((await ctx.memo("number", len(seen)), await ctx.spawn(FINISHING, Plan())))
        if len(seen) == 1:
            entered.set()
            await trio.sleep_forever()
        (ended,) = await ctx.wait(seen[-1][1])
        return ended.status

    model = ScriptedModel([reply("", call("again")), reply("done")])
    path = tmp_path / "work.db"
    async with open_session(path, model=model, tools=[again], actors=[FINISHING]) as session:
        await session.root.submit("go", request_id="go")
        await entered.wait()
    async with open_session(path, model=model, tools=[again], actors=[FINISHING]) as session:
        assert (await session.root.ask("go", request_id="go")).text == "done"
        assert (await topics_of(session)).count("WorkSpawned") == 4
    assert seen[0] == seen[1]
    assert seen[0][0] == 0


async def test_an_actor_that_asks_an_agent_of_its_own_is_aborted_after_it() -> None:
    """K194."""
    gate = Gate()
    order: list[str] = []

    async def step(work: Work[Plan]) -> Done:
        child = await work.spawn_agent()
        return Done((await child.ask("dig")).text)

    async def undo(work: Work[Plan]) -> None:
        order.extend(node.kind for node in work.session.tree())

    mine = kind(step, abort=undo)
    model = ScriptedModel([reply("", call("gate")), reply("found")])
    async with open_session("memory:", model=model, tools=[gate.tool], actors=[mine]) as session:
        id = await session.root.spawn(mine, Plan())
        await gate.entered.wait()
        await session.abort_actor(id)
        assert (await session.wait_actor(id)).status == "aborted"
        assert order == ["pi.agent", "test.work", "pi.agent"]


# Runs found by another process.


async def test_a_run_that_waits_for_missing_code_is_neither_counted_nor_given_up(tmp_path: Path) -> None:
    path, gate = tmp_path / "work.db", Gate()

    async def step(_: Work[Plan]) -> Done:
        await gate.opened.wait()
        return Done()

    mine = kind(step)

    @tool
    async def start(ctx: ToolContext) -> str:
        """Start something."""
        await ctx.spawn(mine, Plan())
        return "started"

    model = ScriptedModel([reply("", call("start")), reply("done")])
    async with open_session(path, model=model, tools=[start], actors=[mine]) as session:
        await session.root.submit("go", request_id="go")
        await session.live.waits.until(lambda state: any(each.held for each in state.actors.values()))
    for _ in range(QUICK.recoveries_max + 2):
        async with open_session(path, model=model, tools=[start]) as session:
            position = session.position
            assert await blocked(session) == ["this process has no kind 'test.work'"]
            await wait_all_tasks_blocked()
            assert session.position == position
    gate.opened.set()
    async with open_session(path, model=model, tools=[start]) as session:
        session.register(actors=[mine])
        assert (await session.root.ask("go", request_id="go")).text == "done"
        recovered = [each.event for commit in await events_of(session) for each in commit]
        assert [each.attempt for each in recovered if isinstance(each, RunRecovered)] == [0]


async def test_a_run_that_waits_for_another_agent_goes_on_when_that_has_ended(tmp_path: Path) -> None:
    path, gate = tmp_path / "work.db", Gate()

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Set a child to work and do not wait."""
        child = await ctx.spawn_agent(choices={"model": "child"})
        await child.submit("dig", request_id="dig")
        return "set to work"

    models = {"child": ScriptedModel([reply("", call("gate")), reply("found")], name="child")}
    model = ScriptedModel([reply("", call("delegate")), reply("done")])

    async with open_session(path, model=model, models=models, tools=[delegate, gate.tool]) as session:
        await session.root.submit("go", request_id="go")
        await gate.entered.wait()
        await session.live.waits.until(lambda state: any(each.held for each in state.actors.values()))
    async with open_session(path, model=model, models=models, tools=[delegate, gate.tool]) as session:
        assert (await session.root.ask("go", request_id="go")).text == "done"
        await check_session(session)


async def test_nothing_of_the_log_breaks_a_promise_after_all_that(tmp_path: Path) -> None:
    async with open_store(tmp_path / "work.db") as store:
        async with opened([reply("hello")], store=store) as session:
            session.register(actors=[FINISHING, HANGING])
            await session.root.spawn(FINISHING, Plan(), name="one")
            await session.root.spawn(HANGING, Plan(), name="two")
            await session.root.abort()
        check_log(store.log, finished=True)

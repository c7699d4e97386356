"""How often a run is taken up, and when it is given up."""

from pathlib import Path

from trio.testing import MockClock

from pi_actors import Settled, Store, open_session, open_store
from pi_actors.actors.agent.messages import RunRecovered
from pi_actors.actors.agent.state import AgentState
from pi_actors.core.state import owed
from pi_actors.models import ModelRequest, ScriptedModel, call, fail, reply, stall
from pi_actors.models.plays import Item
from pi_actors.runtime.live import KINDS
from pi_actors.storage.log import Log
from pi_actors.storage.memory import MemoryLog
from pi_actors.storage.opening import open_log
from pi_actors.testing import (
    CrashPoint,
    EffectsFile,
    TrioClock,
    check_log,
    effect_tools,
    fold_state,
    read_log,
    run_until_crash,
)
from pi_actors.testing.crashing import SIDES
from tests.crash.killed import QUICK, Observed, killed, reopened, stored, topics
from tests.crash.program import work_in_a_process

KILLS = 20


def attempts(log: Log) -> list[int]:
    """The attempt numbers of the recoveries, in order."""
    return [each.event.attempt for each in read_log(log) if isinstance(each.event, RunRecovered)]


async def test_twenty_kills_with_a_step_between_them_do_not_end_a_run(tmp_path: Path) -> None:
    """V359, X26: each opening takes the run up, runs one tool and dies."""
    log, file = MemoryLog(), EffectsFile(tmp_path / "effects")

    def script(request: ModelRequest) -> Item:
        return reply("", call("look", what=str(request.turn))) if request.turn < KILLS else reply("Done.")

    async def work(store: Store) -> None:
        async with open_session(store, model=ScriptedModel(script), tools=effect_tools(file)) as session:
            assert (await (await session.root.submit("go", request_id="go")).wait()).text == "Done."

    for _ in range(KILLS):
        assert await run_until_crash(work, log, CrashPoint(3, "after"))
    assert not await run_until_crash(work, log, None)
    check_log(log, finished=True)
    assert attempts(log) == [1] * KILLS


async def test_five_recoveries_in_a_row_without_a_step_end_the_run_at_the_sixth_opening(
    tmp_path: Path,
) -> None:
    """V359: killed by SIGKILL each time; later inputs work."""
    await work_in_a_process(tmp_path, CrashPoint(2, "after"))
    for _ in range(5):
        await work_in_a_process(tmp_path, CrashPoint(1, "after"))
    log = open_log(tmp_path / "work.db")
    assert attempts(log) == [1, 2, 3, 4, 5]
    model = Observed(lambda _: reply("I am well."))
    async with reopened(log, model) as session:
        settled = await (await session.root.submit("Work.", request_id="work")).wait()
        assert settled == Settled(
            status="unanswered",
            reason="recovery_exhausted",
            detail="5 recoveries in a row brought no progress",
        )
        assert model.requests == []
        assert (await session.root.ask("How are you?")).text == "I am well."
    check_log(log, finished=True)
    log.close()


async def test_closing_in_order_does_not_raise_the_attempt() -> None:
    log = MemoryLog()
    for opening in range(7):
        async with reopened(log, [stall()]) as session:
            await session.root.submit("go", request_id="go")
            if opening:
                await stored(session, "RunRecovered", times=opening)
    assert set(attempts(log)) <= {0, 1}
    assert topics(log).count("RunReleased") == 7
    async with killed(log, [stall()]) as session:
        await stored(session, "RunRecovered", times=7)
    async with reopened(log, [reply("Done.")]) as session:
        assert (await (await session.root.submit("go", request_id="go")).wait()).text == "Done."
    assert attempts(log)[-1] == 1
    check_log(log, finished=True)


async def test_a_retry_keeps_its_stored_deadline_over_a_kill_and_is_not_counted(
    autojump_clock: MockClock,
) -> None:
    """V357, X52: killed at second 10 of a wait of 40 s; nothing is sent before it is over."""
    log, clock = MemoryLog(), TrioClock()
    script: list[Item] = [[fail("slow down", retry_after_ms=40_000), reply("Here I am.")]]
    began = clock.now()
    async with killed(log, script, clock=clock) as session:
        await session.root.submit("go", request_id="go")
        await stored(session, "RetryScheduled")
        autojump_clock.jump(10)
    before = topics(log)
    model = Observed(script)
    async with reopened(log, model, clock=clock) as session:
        due = session.next_wake()
        assert due is not None
        assert (due - began).total_seconds() == 40
        submission = await session.root.submit("go", request_id="go")
        assert topics(log) == before
        assert (await submission.wait()).text == "Here I am."
        assert (clock.now() - began).total_seconds() >= 40
    assert [request.attempt for request in model.requests] == [2]
    assert attempts(log) == [1]
    entries = [each.topic for each in check_log(log, finished=True) if each.topic == "ResponseSettled"]
    assert len(entries) == 2


async def test_a_run_that_waits_may_be_aborted_after_a_kill_and_later_inputs_work(
    autojump_clock: MockClock,
) -> None:
    """V356, N233: the run is never taken up."""
    log, clock = MemoryLog(), TrioClock()
    async with killed(log, [fail("slow down", retry_after_ms=40_000)], clock=clock) as session:
        await session.root.submit("go", request_id="go")
        await stored(session, "RetryScheduled")
    async with reopened(log, lambda _: reply("Yes?"), clock=clock) as session:
        await session.root.abort()
        settled = await (await session.root.submit("go", request_id="go")).wait()
        assert settled.reason == "aborted"
        assert (await session.root.ask("hello")).text == "Yes?"
    assert attempts(log) == []
    check_log(log, finished=True)


async def test_whatever_commit_the_process_dies_at_an_active_run_owes_something(tmp_path: Path) -> None:
    """X25: never does it only wait for something that nobody will do."""
    file = EffectsFile(tmp_path / "effects")
    script: list[Item] = [
        reply("", call("look", what="a"), call("push", what="a")),
        [fail("busy"), reply("Done.")],
    ]

    async def work(store: Store) -> None:
        tools = effect_tools(file)
        async with open_session(store, model=ScriptedModel(script), tools=tools, settings=QUICK) as session:
            await session.root.submit("go", request_id="go")
            queued = await session.root.submit("and then", request_id="then")
            await queued.withdraw()
            await (await session.root.submit("go", request_id="go")).wait()

    commit, crashed, log = 0, True, MemoryLog()
    while crashed:
        commit += 1
        for side in SIDES:
            log = MemoryLog()
            crashed = await run_until_crash(work, log, CrashPoint(commit, side))
            state = fold_state(check_log(log))
            for agent in (actor.state for actor in state.actors.values()):
                if isinstance(agent, AgentState) and agent.run is not None:
                    assert any(owed(actor, KINDS) for actor in state.actors.values()), topics(log)
    async with open_store(log) as store:
        assert (await store.sessions())[0].live is False

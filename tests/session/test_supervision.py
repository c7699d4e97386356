"""Code that breaks, outlasts its session or waits for itself harms its own actor and nobody else."""

import threading
from pathlib import Path

import msgspec
import pytest
import trio

from pi_actors import (
    ActorKind,
    CommandRefused,
    Done,
    Next,
    RetrySettings,
    SessionClosed,
    SessionFailed,
    Settings,
    ToolContext,
    Work,
    open_session,
    tool,
)
from pi_actors.actors.agent import decider as agent_decider
from pi_actors.models import ModelRequest, ScriptedModel, call, fail, reply, stall
from pi_actors.runtime.commit_line import CommitLine
from tests.session.opened import opened
from tests.session.watching import topics_of


class Plan(msgspec.Struct, frozen=True):
    pass


async def test_a_step_that_outlasts_its_session_does_not_keep_it_open(tmp_path: Path) -> None:
    """It wants to wait for something live, and nothing can be stored any more."""
    ids: list[int] = []
    lines: list[CommitLine] = []
    begun = trio.Event()

    async def sleep(_: Work[Plan]) -> Done:
        await trio.sleep_forever()

    async def late(_: Work[Plan]) -> Next[Plan]:
        begun.set()
        with trio.CancelScope(shield=True):
            while not lines[0].closed:  # noqa: ASYNC110 - a close waits for it, and then announces nothing
                await trio.sleep(0.001)
        return Next(Plan(), on=ids)

    sleeper, laggard = ActorKind("test.sleep", Plan, sleep), ActorKind("test.late", Plan, late)
    settings = Settings(close_ms=1)
    with trio.fail_after(20):
        async with open_session(
            tmp_path / "work.db", actors=[sleeper, laggard], settings=settings
        ) as session:
            lines.append(session.live.line)
            ids.append(await session.root.spawn(sleeper, Plan()))
            await session.root.spawn(laggard, Plan())
            await begun.wait()


async def test_an_error_of_another_session_is_a_fault_like_any_other() -> None:
    async with opened([]) as other:
        pass

    async def use_other(_: Work[Plan]) -> Done:
        await other.root.submit("hello")
        return Done()

    kind = ActorKind("test.other", Plan, use_other)
    async with open_session("memory:", actors=[kind]) as session:
        outcome = await session.wait_actor(await session.root.spawn(kind, Plan()))
        assert outcome.status == "faulted"
        assert "SessionClosed" in str(outcome.detail)


async def test_a_reconciler_that_waits_for_itself_is_refused(tmp_path: Path) -> None:
    entered = trio.Event()
    refused: list[str] = []

    async def ask(ctx: ToolContext) -> str:
        try:
            await ctx.session.wait_idle()
        except CommandRefused as error:
            refused.append(str(error))
        return "it was done"

    @tool(reconcile=ask)
    async def act() -> None:
        """Act."""
        entered.set()
        await trio.sleep_forever()

    path = str(tmp_path / "work.db")
    script = [reply("", call("act")), reply("done")]
    async with opened(script, act, store=path) as session:
        first = await session.root.submit("go")
        await entered.wait()
    async with opened(script, act, store=path) as session:
        assert (await session.submission(first.id).wait()).text == "done"
        assert len(refused) == 1


async def test_two_agents_whose_tools_ask_each_other_are_not_stuck() -> None:
    answers: list[str] = []

    @tool
    async def ask(ctx: ToolContext, agent: int) -> str:
        """Ask another agent."""
        try:
            return (await ctx.session.agent(agent).ask("and you?")).text
        except CommandRefused as error:
            answers.append(str(error))
            return "nobody"

    def script(request: ModelRequest) -> object:
        other = 2 if request.session_id.endswith(":1") else 1
        return reply("", call("ask", agent=other)) if request.turn == 0 else reply("done")

    async with opened(ScriptedModel(script), ask) as session:  # type: ignore[arg-type]
        await session.spawn()
        with trio.fail_after(20):
            assert (await session.root.ask("go")).text == "done"
        assert len(answers) == 1
        assert "which waits for it" in answers[0]


@pytest.mark.parametrize("plain", [False, True])
async def test_a_tool_that_exits_the_process_only_fails_itself(plain: bool) -> None:
    @tool(name="leave")
    async def leave() -> str:
        """Leave."""
        raise SystemExit(1)

    @tool(name="leave")
    def leave_in_a_thread() -> str:
        """Leave."""
        raise SystemExit(1)

    async with opened(
        [reply("", call("leave")), reply("ok")], leave_in_a_thread if plain else leave
    ) as session:
        assert (await session.root.ask("go")).text == "ok"
        (entry,) = [each for each in await session.root.history() if each.kind == "pi.tool-result"]
        assert "SystemExit: 1" in str(entry.data)


async def test_plain_tools_that_wait_for_a_thread_never_begin_after_an_abort() -> None:
    """L210: and they have no intent in the log, because they never began."""
    entered, release = threading.Event(), threading.Event()
    runs: list[int] = []

    @tool
    def block(number: int) -> str:
        """Block."""
        runs.append(number)
        entered.set()
        release.wait(30)
        return ""

    settings = Settings(tool_threads_max=1, close_ms=10)
    calls = [call("block", number=n) for n in range(3)]
    async with opened([reply("", *calls)], block, settings=settings) as session:
        await session.root.submit("go")
        await trio.to_thread.run_sync(entered.wait)
        await session.root.abort()
        release.set()
        assert len(runs) == 1
        assert (await topics_of(session)).count("ToolStarted") == 1


async def test_a_cancelled_submit_can_be_repeated_with_its_request_id(tmp_path: Path) -> None:
    async with opened([reply("x")] * 200, store=str(tmp_path / "work.db")) as session:
        for number in range(60):
            with trio.move_on_after(0.0003 + (number % 10) * 0.0001):
                await session.root.submit_write("note", request_id=f"r{number}")
            again = await session.root.submit_write("note", request_id=f"r{number}")
            assert await again.status() == "done"
        notes = [each for each in await session.root.history(limit=1000) if each.kind == "note"]
        assert len(notes) == 60


async def test_a_closed_session_is_closed_and_not_failed_for_everything_asked_of_it(tmp_path: Path) -> None:
    async with opened([reply("hi")], store=str(tmp_path / "work.db")) as session:
        submission = await session.root.submit("hello")
    for _ in range(2):
        with pytest.raises(SessionClosed):
            await submission.status()
        with pytest.raises(SessionClosed):
            session.tree()


async def test_empty_instructions_are_none_on_every_way_to_a_request() -> None:
    sent: list[int] = []

    def script(request: ModelRequest) -> object:
        sent.append(sum(message.role == "system" for message in request.messages))
        return [fail("overloaded"), reply("hi")]

    settings = Settings(retry=RetrySettings(first_ms=1, cap_ms=1))
    model = ScriptedModel(script)  # type: ignore[arg-type]
    async with opened(model, instructions="Be brief.", settings=settings) as session:
        await session.root.configure(instructions="")
        await session.root.ask("hello")
        assert sent == [0, 0]


async def test_a_tool_that_was_given_up_on_cannot_own_anything_new() -> None:
    entered, given_up, refused = trio.Event(), trio.Event(), trio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Go on after the abort."""
        entered.set()
        with trio.CancelScope(shield=True):
            await given_up.wait()
            with pytest.raises(CommandRefused):
                await ctx.spawn_agent()
            refused.set()
        return ""

    settings = Settings(close_ms=1)
    async with opened([reply("", call("stubborn"))], stubborn, settings=settings) as session:
        await session.root.submit("go")
        await entered.wait()
        await session.root.abort()
        given_up.set()
        await refused.wait()


async def test_a_broken_decider_of_an_agent_fails_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError("a bug of ours")

    async def use() -> None:
        async with opened([stall()]) as session:
            monkeypatch.setattr(agent_decider, "_submit", broken)
            await session.root.submit("hello")

    with pytest.raises(SessionFailed, match="ZeroDivisionError: a bug of ours"):
        await use()

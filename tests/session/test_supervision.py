"""Code that breaks, outlasts its session or waits for itself harms its own actor and nobody else."""

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
    SessionFailed,
    Settings,
    ToolContext,
    Work,
    open_session,
    tool,
)
from pi_actors.actors.agent import decider as agent_decider
from pi_actors.models import ModelRequest, ScriptedModel, call, fail, reply, stall
from tests.session.opened import opened


class Plan(msgspec.Struct, frozen=True):
    pass


async def test_a_step_that_outlasts_its_session_does_not_keep_it_open(tmp_path: Path) -> None:
    """It wants to wait for something live, and nothing can be stored any more."""
    ids: list[int] = []

    async def sleep(_: Work[Plan]) -> Done:
        await trio.sleep_forever()

    async def late(_: Work[Plan]) -> Next[Plan]:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)
        return Next(Plan(), on=ids)

    sleeper, laggard = ActorKind("test.sleep", Plan, sleep), ActorKind("test.late", Plan, late)
    settings = Settings(close_ms=1)
    with trio.fail_after(20):
        async with open_session(
            tmp_path / "work.db", actors=[sleeper, laggard], settings=settings
        ) as session:
            ids.append(await session.root.spawn(sleeper, Plan()))
            await session.root.spawn(laggard, Plan())
            await trio.sleep(0.01)


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
    async def act() -> str:
        """Act."""
        entered.set()
        await trio.sleep_forever()
        return ""

    path = str(tmp_path / "work.db")
    script = [reply("", call("act")), reply("done")]
    async with opened(script, act, store=path) as session:
        first = await session.root.submit("go")
        await entered.wait()
    async with opened(script, act, store=path) as session:
        assert (await session.submission(first.id).wait()).text == "done"
        assert len(refused) == 1


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
    entered, refused = trio.Event(), trio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Go on after the abort."""
        entered.set()
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)
            with pytest.raises(CommandRefused):
                await ctx.spawn_agent()
            refused.set()
        return ""

    settings = Settings(close_ms=1)
    async with opened([reply("", call("stubborn"))], stubborn, settings=settings) as session:
        await session.root.submit("go")
        await entered.wait()
        await session.root.abort()
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

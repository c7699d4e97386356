"""A session that meets every topic: real openings, kills and closings, in virtual time."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from pi_actors import (
    ActorKind,
    Done,
    Next,
    RetrySettings,
    Session,
    SessionFailed,
    Settings,
    Tool,
    ToolContext,
    Work,
    open_session,
    open_store,
    tool,
)
from pi_actors.models import ModelRequest, ScriptedModel, call, fail, reply, stall
from pi_actors.models.plays import Item
from pi_actors.storage.log import Log
from pi_actors.testing import CrashingLog, EffectsFile, TrioClock, effect_tools
from pi_actors.testing.clock import START
from pi_actors.tools import subagent_tool
from tests.crash.killed import stored

SUMMARIES: Sequence[Item] = ([fail("overloaded"), reply("They talked.")], reply("They went on talking."))
SETTINGS = Settings(retry=RetrySettings(first_ms=500), recoveries_max=1, keep_progress=True)


class Order(msgspec.Struct, frozen=True):
    """A custom actor's state: ``parts`` are made by children, then the order is done."""

    parts: int


class Pause(msgspec.Struct, frozen=True):
    """A custom actor's state: it waits a second before it is done."""

    waited: bool = False


async def _pause(work: Work[Pause]) -> Next[Pause] | Done:
    return Done("waited") if work.state.waited else Next(Pause(True), at=START + timedelta(days=1))


PAUSE = ActorKind("golden.pause", Pause, step=_pause)


async def _order(work: Work[Order]) -> Next[Order] | Done:
    if work.outcomes:
        return Done(len(work.outcomes))
    parts = [PAUSE.start(Pause(), name=f"part {number}") for number in range(work.state.parts)]
    return Next(Order(0), spawn=parts)


ORDER = ActorKind("golden.order", Order, step=_order)
KINDS: Sequence[ActorKind[Any]] = (PAUSE, ORDER)


@tool
async def report(ctx: ToolContext) -> str:
    """Show something on the way."""
    await ctx.memo("seen", ["a", 1])
    ctx.output("looking\n")
    ctx.diagnose("info", "It is dark.")
    await ctx.details({"percent": 50})
    return "reported"


@tool(execution="sequential")
async def step(number: int) -> str:
    """One step of several."""
    return f"step {number}"


@tool
async def leave(ctx: ToolContext) -> str:
    """Start something that goes on for longer than the call."""
    return str(await ctx.spawn(PAUSE, Pause()))


def tools(folder: Path) -> Sequence[Tool]:
    """The tools of the story."""
    return (*effect_tools(EffectsFile(folder / "effects")), report, step, leave, subagent_tool())


def answer(request: ModelRequest, *, falters: bool) -> Item:
    """What the model says: it depends on the last message, and for a while it *falters*."""
    said = request.messages[-1]
    text = "".join(getattr(part, "text", "") for part in said.parts)
    if said.role == "tool":
        return reply("That is done.")
    match text:
        case "look":
            return [
                fail("overloaded", after="I was about to"),
                reply("I will look around, slowly.", call("look", what="sky"), call("report")),
            ]
        case "walk":
            return reply("", call("step", number=1), call("step", number=2), thinking="Left, right.")
        case "leave":
            return reply("", call("leave"))
        case "pay":
            return reply("", call("pay", what="rent"))
        case "delegate":
            return reply("", call("task", prompt="dig"))
        case "refuse":
            return fail("I cannot", retryable=False)
        case "think" | "wonder" | "give up" if falters:
            return stall("Well, let me see")
        case _:
            return reply(f"You said: {text}.")


@asynccontextmanager
async def opened(
    log: Log, folder: Path, clock: TrioClock, *, falters: bool = False, window: int = 200_000
) -> AsyncGenerator[Session]:
    """The story's session, in a process whose model may falter, and has a *window* of so many tokens."""

    def script(request: ModelRequest) -> Item:
        return answer(request, falters=falters)

    async with (
        open_store(log) as store,
        open_session(
            store,
            model=ScriptedModel(script, chunk_ms=60, context_window=window, summaries=SUMMARIES),
            tools=tools(folder),
            actors=KINDS,
            instructions="Be brief.",
            settings=SETTINGS,
            clock=clock,
        ) as session,
    ):
        yield session


@asynccontextmanager
async def dying(log: Log, folder: Path, clock: TrioClock) -> AsyncGenerator[Session]:
    """The same with a model that falters, in a process that is killed at the end of the block."""
    crashing = CrashingLog(log, None)
    try:
        async with opened(crashing, folder, clock, falters=True) as session:
            yield session
            crashing.crash_now()
    except SessionFailed:
        if not crashing.crashed:
            raise


async def tell(log: Log, folder: Path) -> None:
    """Live the whole story on *log*; *folder* is for what its tools do."""
    clock = TrioClock()
    await _live_well(log, folder, clock)
    await _die_and_come_back(log, folder, clock)
    await _give_up(log, folder, clock)
    await _talk_at_length(log, folder, clock)


async def _live_well(log: Log, folder: Path, clock: TrioClock) -> None:
    async with opened(log, folder, clock, falters=True) as session:
        root = session.root
        await root.configure(thinking="low")
        for task in ("look", "walk", "leave", "delegate"):
            await root.ask(task)
        await session.wait_actor(await root.spawn(ORDER, Order(2), name="order"))
        await root.spawn(PAUSE, Pause(), name="never over", background=True)
        thought = await root.submit("think")
        await stored(session, "PartialStreamed", after=thought.id)
        queued = await root.submit("never mind")
        await queued.withdraw()
        await root.submit_write("golden.note", data={"pages": [1, 2]})
        await root.submit("change of plan", when_busy="steer", request_id="steer")
        await root.abort()
        assert (await thought.wait()).reason == "aborted"


async def _die_and_come_back(log: Log, folder: Path, clock: TrioClock) -> None:
    async with dying(log, folder, clock) as session:
        pay = await session.root.submit("pay")
        await stored(session, "ToolStarted", after=pay.id)
    async with opened(log, folder, clock, falters=True) as session:
        await session.submission(pay.id).wait()
        think = await session.root.submit("think")
        await stored(session, "PartialStreamed", after=think.id)
    async with opened(log, folder, clock) as session:
        await session.submission(think.id).wait()


async def _give_up(log: Log, folder: Path, clock: TrioClock) -> None:
    async with dying(log, folder, clock) as session:
        hopeless = await session.root.submit("give up")
    async with dying(log, folder, clock) as session:
        await stored(session, "RunRecovered", after=hopeless.id)
    async with opened(log, folder, clock) as session:
        assert (await session.submission(hopeless.id).wait()).reason == "recovery_exhausted"
        refused = await session.root.submit("refuse")
        assert (await refused.wait()).reason == "model_error"
        await session.root.release()
        await session.root.ask("well?")


async def _talk_at_length(log: Log, folder: Path, clock: TrioClock) -> None:
    async with opened(log, folder, clock, window=240) as session:
        root = session.root
        await root.ask("long " * 40)
        assert (await session.wait_actor(await root.compact("Mind the order."))).status == "completed"
        for _ in range(4):
            await root.ask("longer " * 40)
        await root.reset("Something else.")
        await root.ask("longest " * 110)
        await root.wait_idle()

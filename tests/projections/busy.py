"""Sessions in which much happens, at random and yet the same for each seed."""

import random
from collections.abc import Sequence
from functools import partial
from typing import Literal

import trio

from pi_actors import RetrySettings, Session, Settings, ToolContext, tool
from pi_actors.models import ScriptedModel, call, cut, fail, reply
from pi_actors.models.plays import Item
from pi_actors.models.protocol import ModelRequest
from pi_actors.tools import Tool, subagent_tool

SETTINGS = Settings(retry=RetrySettings(first_ms=500, cap_ms=5_000), close_ms=2_000, output_lines_max=20)


def busy_model(seed: int) -> ScriptedModel:
    """Streams answers, calls tools, fails now and then; the same in every process."""
    return ScriptedModel(partial(_script, seed), chunk_ms=random.Random(seed).choice((0, 30, 300)))


def busy_tools(chance: random.Random) -> Sequence[Tool]:
    """``look`` is safe to repeat, ``push`` is not; both talk while they work. ``task`` is a subagent."""

    async def work(ctx: ToolContext, what: str) -> str:
        for line in range(chance.randint(0, 4)):
            ctx.output(f"{what} {line}\n" * chance.choice((1, 1, 15)))
            await trio.sleep(chance.uniform(0, 1))
        if chance.random() < 0.3:
            await ctx.details({"what": what, "seen": [1, 2]})
        return f"{what}: done"

    @tool(replay="safe")
    async def look(ctx: ToolContext, what: str) -> str:
        """Look at something."""
        return await work(ctx, what)

    @tool
    async def push(ctx: ToolContext, what: str) -> str:
        """Push something."""
        return await work(ctx, what)

    return (look, push, subagent_tool())


async def keep_busy(session: Session, chance: random.Random, steps: int) -> None:
    """Ask, interrupt, configure, reset and write, one after another with pauses."""
    root = session.root
    for step in range(steps):
        await trio.sleep(chance.choice((0, chance.uniform(0, 4))))
        match chance.choices(("input", "write", "abort", "configure", "reset", "spawn"), (8, 4, 1, 2, 1, 1))[
            0
        ]:
            case "input":
                mode: Literal["follow_up", "steer"] = chance.choice(("follow_up", "steer"))
                submission = await root.submit(f"input {step}", when_busy=mode)
                if chance.random() < 0.2:
                    await submission.withdraw()
            case "write":
                await root.submit_write("note", data={"step": step})
            case "abort":
                await root.abort()
            case "configure":
                await root.configure(instructions=chance.choice(("Be brief.", "Be kind.", None)))
            case "reset":
                await root.reset(chance.choice((None, "Go on from here.")))
            case _:
                await session.spawn()


def _script(seed: int, request: ModelRequest) -> Item:
    chance = random.Random(f"{seed}:{request.session_id.partition(':')[2]}:{request.turn}:{request.attempt}")
    if request.attempt < 3 and chance.random() < 0.2:
        return chance.choice((fail("overloaded", after="I was about"), cut("half an ans"), fail("too much")))
    if chance.random() < 0.5:
        return reply(
            f"Answer {request.turn}. " * chance.randint(1, 20), thinking=chance.choice((None, "Hm. "))
        )
    names = chance.choices(("look", "push"), k=chance.randint(1, 4))
    calls = [call(name, what=f"{request.turn}") for name in names]
    if chance.random() < 0.2:
        calls.append(call("task", prompt=f"Do {request.turn}."))
    return reply("Let me see.", *calls)

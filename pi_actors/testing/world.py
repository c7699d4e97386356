"""A world that tools act on and that remembers: a file with a line for every real execution.

What a tool has done to the world outlives the process, as does the log; comparing both shows what
was done twice, or done and forgotten.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import trio

from pi_actors.actors.agent.messages import ToolResultSettled
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from pi_actors.testing.checkers import PromiseBroken
from pi_actors.tools import NOT_DONE, Tool, ToolContext, Verdict, tool

Pause: TypeAlias = Callable[[ToolContext], Awaitable[None]]
"""What a tool does while it takes its time."""


EFFECT_TOOLS: Final = ("look", "push", "pay")


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a tool did. ``key``: the idempotency key of its call."""

    key: str
    tool: str
    said: Json = None


class EffectsFile:
    """The file. Several processes may append; a line is there wholly or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, effect: Effect) -> None:
        """Do *effect*: it outlives this process from here on."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, msgspec.json.encode(effect) + b"\n")
        finally:
            os.close(descriptor)

    def effects(self) -> list[Effect]:
        """Everything that was done, in order."""
        if not self.path.exists():
            return []
        return [msgspec.json.decode(line, type=Effect) for line in self.path.read_bytes().splitlines()]

    def by_key(self, tool: str | None = None) -> dict[str, int]:
        """How often each call was executed: of *tool*, or of any."""
        counts: dict[str, int] = {}
        for effect in self.effects():
            if tool is None or effect.tool == tool:
                counts[effect.key] = counts.get(effect.key, 0) + 1
        return counts


async def at_once(_: ToolContext) -> None:
    """The shortest pause."""
    await trio.lowlevel.checkpoint()


def effect_tools(file: EffectsFile, *, pause: Pause = at_once) -> Sequence[Tool]:
    """Three tools that do an effect named by their argument: ``look`` is safe to repeat, ``push`` is
    not, and ``pay`` is not but finds out by its reconciler whether it was done.

    Each awaits *pause* before its effect and after it.
    """

    async def act(ctx: ToolContext, name: str, what: str) -> str:
        await pause(ctx)
        file.add(Effect(key=ctx.idempotency_key, tool=name, said=what))
        await pause(ctx)
        return f"{name} {what}: done"

    @tool(replay="safe")
    async def look(ctx: ToolContext, what: str) -> str:
        """Look at something."""
        return await act(ctx, "look", what)

    @tool
    async def push(ctx: ToolContext, what: str) -> str:
        """Push something."""
        return await act(ctx, "push", what)

    async def was_paid(ctx: ToolContext, what: str) -> str | Verdict:
        return f"pay {what}: done" if file.by_key("pay").get(ctx.idempotency_key) else NOT_DONE

    @tool(reconcile=was_paid)
    async def pay(ctx: ToolContext, what: str) -> str:
        """Pay for something."""
        return await act(ctx, "pay", what)

    return (look, push, pay)


def check_effects(log: Sequence[Recorded], file: EffectsFile) -> list[ToolResultSettled]:
    """Compare what *log* says of calls of the ``effect_tools`` with what was done; return their results.

    Raises:
        PromiseBroken: something was done twice, or claimed and not done, or done by no call.
    """
    calls = (each.event for each in log if isinstance(each.event, ToolResultSettled))
    results = [result for result in calls if result.name in EFFECT_TOOLS]
    uuids = [each.event.session_uuid for each in log if isinstance(each.event, AgentSpawned)]
    counts = file.by_key()
    problems: list[str] = []
    for result in results:
        done = counts.pop(f"{uuids[0]}:{result.call.entry}:{result.call.index}", 0)
        claimed = result.own and not result.is_error
        if claimed and done == 0:
            problems.append(f"{result} was not done")
        if done > 1 and result.name != "look":
            problems.append(f"{result} was done {done} times")
    problems += [f"{key} was done and has no result" for key in counts]
    if problems:
        raise PromiseBroken("\n".join(problems))
    return results

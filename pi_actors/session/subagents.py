"""Subagents that live on in the background, as tools: spawn, message, steer, stop, list, wait.

Each is held by a background actor of its parent (the anchor), so ordinary aborts leave it alone.
Every message has a reporter, also in the background, which hands the answer to the parent as a
follow-up under a request id made of the message: once, however often it is run again.
"""

from collections.abc import Mapping
from typing import Final, Literal, cast

import msgspec
import trio

from pi_actors.actors.custom.decider import CustomState
from pi_actors.core.decider import Send, SpawnAgent, Spawned
from pi_actors.core.errors import CommandRefused, NotFound
from pi_actors.core.ids import ActorId, SubmissionId
from pi_actors.runtime.choices import Choosable, choices_from
from pi_actors.runtime.live import LiveSession
from pi_actors.runtime.owning import check_limits
from pi_actors.runtime.work import ActorKind, Done, Work
from pi_actors.session.agent import Agent
from pi_actors.session.session import Session
from pi_actors.tools.context import AgentLimits, ToolContext
from pi_actors.tools.subagents import LIMITS, given_choices
from pi_actors.tools.tool import Tool, tool


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """The anchor's state: which subagent it holds."""

    name: str


class Reporting(msgspec.Struct, frozen=True, kw_only=True):
    """A reporter's state: whose answer to what it waits for."""

    name: str
    submission: SubmissionId


async def hold(work: Work[Holding]) -> Done:
    """Live until aborted, so that what it owns may."""
    await trio.sleep_forever()


async def report(work: Work[Reporting]) -> Done:
    """Wait for the answer and hand it to the parent."""
    settled = await work.session.submission(work.state.submission).wait()
    if settled.status == "done":
        text = f"Subagent {work.state.name!r} answered:\n\n{settled.text}"
    else:
        text = f"Subagent {work.state.name!r} gave no answer ({settled.reason}): {settled.detail or ''}"
    await work.agent.submit(text, request_id=f"report:{work.state.submission}")
    return Done()


ANCHOR: Final = ActorKind("pi.subagent", Holding, hold)
REPORTER: Final = ActorKind("pi.report", Reporting, report)


def subagent_tools(
    *,
    limits: AgentLimits = LIMITS,
    model: object = None,
    tools: object = None,
    instructions: str | None = None,
    cwd: str | None = None,
) -> list[Tool]:
    """Tools with which an agent keeps subagents in the background.

    A subagent starts with its owner's choices, changed where they are given here. It survives
    ordinary aborts and restarts; its answers come to its parent as follow-ups.
    """
    choices = given_choices(model=model, tools=tools, instructions=instructions, cwd=cwd)

    @tool(replay="safe")
    async def spawn_subagent(ctx: ToolContext, name: str, task: str) -> str:
        """Start a subagent in the background with a first task. Its answer will come as a message."""
        child = await _spawn(ctx, name, choices, limits)
        await ctx.details({"agent": child.id})
        await _hand_over(ctx, name, child, task, "follow_up")
        return f"Subagent {name!r} is at work; its answer will come as a message."

    @tool(replay="safe")
    async def message_subagent(ctx: ToolContext, name: str, message: str) -> str:
        """Give a subagent another task, to be done after what it is doing."""
        await _hand_over(ctx, name, _child(ctx, name), message, "follow_up")
        return f"Subagent {name!r} has the message; its answer will come as a message."

    @tool(replay="safe")
    async def steer_subagent(ctx: ToolContext, name: str, message: str) -> str:
        """Tell a subagent something while it works."""
        await _hand_over(ctx, name, _child(ctx, name), message, "steer")
        return f"Subagent {name!r} will see the message after its current tool calls."

    @tool(replay="safe")
    async def stop_subagent(ctx: ToolContext, name: str) -> str:
        """Stop a subagent and everything it does, for good."""
        await ctx.session.abort_actor(_anchor(ctx, name))
        return f"Subagent {name!r} is being stopped."

    @tool(replay="safe")
    async def list_subagents(ctx: ToolContext) -> list[dict[str, str | int]]:
        """List the subagents that live, and whether they work."""
        living = _living(ctx.session, ctx.agent)
        return [{"name": name, "agent": child, "state": state} for name, child, state in living]

    @tool(replay="safe")
    async def wait_subagent(ctx: ToolContext, name: str) -> str:
        """Wait until a subagent has nothing more to do, and return its last answer."""
        child = _child(ctx, name)
        await child.wait_idle()
        answers = [entry.text for entry in await child.entries() if entry.kind == "pi.assistant"]
        return answers[-1] if answers else f"Subagent {name!r} has not answered."

    return [spawn_subagent, message_subagent, steer_subagent, stop_subagent, list_subagents, wait_subagent]


async def _spawn(ctx: ToolContext, name: str, choices: Mapping[str, object], limits: AgentLimits) -> Agent:
    """The anchor and its child; both are found again by name."""
    live = ctx.session.live
    async with live.shell.spawning:  # parallel calls of one response are counted one after another
        return await _spawn_within(ctx, live, name, choices, limits)


async def _spawn_within(
    ctx: ToolContext, live: LiveSession, name: str, choices: Mapping[str, object], limits: AgentLimits
) -> Agent:
    if not any(known == name for known, _, _ in _living(ctx.session, ctx.agent)):
        check_limits(live.line.ahead, ctx.agent.id, limits)
    mine = live.shell.agent_state(ctx.agent.id).choices
    wanted = await choices_from(live.registry, mine, cast(Mapping[str, Choosable], choices))
    anchor = await ctx.agent.spawn(ANCHOR, Holding(name=name), name=f"subagent:{name}", background=True)
    reply = (await live.line.commit(Send(anchor, SpawnAgent(name="child", choices=wanted)))).reply
    if not isinstance(reply, Spawned):
        raise CommandRefused(f"subagent {name!r} was stopped; choose another name")
    return ctx.session.agent(reply.id)


async def _hand_over(
    ctx: ToolContext, name: str, child: Agent, text: str, when_busy: Literal["follow_up", "steer"]
) -> None:
    submission = await child.submit(text, request_id=ctx.idempotency_key, when_busy=when_busy)
    reporting = Reporting(name=name, submission=submission.id)
    await ctx.agent.spawn(REPORTER, reporting, name=f"report:{submission.id}", background=True)


def _child(ctx: ToolContext, name: str) -> Agent:
    children = {known: child for known, child, _ in _living(ctx.session, ctx.agent)}
    if name not in children:
        raise NotFound(f"there is no subagent {name!r}; there are: {', '.join(children) or 'none'}")
    return ctx.session.agent(children[name])


def _anchor(ctx: ToolContext, name: str) -> ActorId:
    child = _child(ctx, name).id
    return next(node.owner for node in ctx.session.tree() if node.id == child)


def _living(session: Session, agent: Agent) -> list[tuple[str, ActorId, str]]:
    """(name, agent, state) of every subagent that *agent* keeps, oldest first."""
    actors = session.live.line.shown.actors
    nodes = session.tree()
    anchors = {node.id for node in nodes if node.kind == ANCHOR.name and node.agent == agent.id}
    return [
        (_name_of(actors[node.owner].state), node.id, node.state) for node in nodes if node.owner in anchors
    ]


def _name_of(state: object) -> str:
    assert isinstance(state, CustomState), state
    return ANCHOR.decode(state.state, state.version).name

"""Delegation as tools: a child whose answer is the tool's result, and children that live on."""

from typing import Final

from pi_actors.core.errors import CommandRefused, Unanswered
from pi_actors.tools.context import AgentLimits, ToolContext
from pi_actors.tools.result import ToolResult
from pi_actors.tools.tool import Tool, tool

LIMITS: Final = AgentLimits(depth_max=3, children_max=100, concurrent_max=8)
"""What a subagent tool allows unless it is told otherwise."""


def subagent_tool(
    *,
    name: str = "task",
    description: str = "Delegate a task to a subagent that works by itself and answers with its result.",
    limits: AgentLimits = LIMITS,
    model: object = None,
    tools: object = None,
    instructions: str | None = None,
    cwd: str | None = None,
) -> Tool:
    """A tool that spawns an agent, asks it, and answers with its answer.

    The child starts with its owner's choices, changed where they are given here: a cheaper model,
    fewer tools (leave this one out and it has no subagents of its own), other instructions, another
    cwd, as ``Agent.configure`` takes them. It belongs to the call: aborting the run aborts it. A call
    that is run again after a crash finds the same child and question.

    Exceeding a limit, or a child that ends without an answer, is an error for the model to read.
    """
    choices = given_choices(model=model, tools=tools, instructions=instructions, cwd=cwd)

    @tool(name=name, description=description, replay="safe")
    async def delegate(ctx: ToolContext, prompt: str) -> ToolResult:
        try:
            child = await ctx.spawn_agent(limits=limits, choices=choices)
        except CommandRefused as refusal:
            return ToolResult(f"No subagent was started: {refusal}", is_error=True)
        await ctx.details({"agent": child.id})
        try:
            answer = await child.ask(prompt, request_id="question")
        except Unanswered as unanswered:
            return ToolResult(_unanswered(unanswered), is_error=True, details={"agent": child.id})
        return ToolResult(answer.text, details={"agent": child.id})

    return delegate


def given_choices(**choices: object) -> dict[str, object]:
    """The choices that are given, of those a subagent may be started with."""
    return {choice: value for choice, value in choices.items() if value is not None}


def _unanswered(unanswered: Unanswered) -> str:
    if unanswered.reason in ("faulted", "recovery_exhausted"):
        return f"The subagent was interrupted before it answered and can be asked again: {unanswered}"
    return f"The subagent gave no answer: {unanswered}"

"""Subagents in the background: their answers come back once, whatever happens in between."""

from pathlib import Path
from typing import Any

import pytest

from pi_actors import (
    ActorKind,
    AgentLimits,
    CommandRefused,
    Done,
    Session,
    Work,
    open_session,
    subagent_tools,
)
from pi_actors.core.messages import Text
from pi_actors.core.state import SessionState
from pi_actors.models import ModelRequest, ScriptedModel, call, reply, stall
from tests.session.gate import Gate
from tests.session.opened import opened


def texts(request: ModelRequest) -> list[str]:
    parts = (part for message in request.messages for part in message.parts)
    return [part.text for part in parts if isinstance(part, Text)]


def kinds_in(state: SessionState) -> set[str]:
    """The kinds of everything that lives."""
    return {actor.kind for actor in state.actors.values() if not actor.ended}


def parent_and_child(gate: Gate) -> ScriptedModel:
    """The parent spawns a child and goes on; the child passes a gate and answers."""

    def script(request: ModelRequest) -> Any:
        said = texts(request)
        if "dig" in said[:2]:
            return reply("", call("gate")) if request.turn == 0 else reply(f"found {request.turn}")
        if said[-1].startswith("Subagent 'mole' answered:"):
            return reply("thanks")
        if request.messages[-1].role == "tool":
            return reply("it digs")
        return reply("", call("spawn_subagent", name="mole", task="dig"))

    return ScriptedModel(script)


async def answers(session: Session) -> list[str]:
    return [e.text for e in await session.root.history() if e.kind == "pi.user" and "answered" in e.text]


async def test_the_answer_comes_as_a_follow_up_and_the_tool_answers_at_once() -> None:
    """M217."""
    gate = Gate()
    async with opened(parent_and_child(gate), *subagent_tools(), gate.tool) as session:
        assert (await session.root.ask("go")).text == "it digs"
        await gate.entered.wait()
        await session.wait_idle()
        gate.opened.set()
        await session.live.waits.until(lambda state: state.busy_agents == 1)
        await session.wait_idle()
        assert await answers(session) == ["Subagent 'mole' answered:\n\nfound 1"]


async def test_an_ordinary_abort_leaves_it_and_one_that_crosses_boundaries_does_not() -> None:
    """M220, X78."""
    gate = Gate()
    async with opened(parent_and_child(gate), *subagent_tools(), gate.tool) as session:
        await session.root.ask("go")
        await gate.entered.wait()
        await session.root.abort()
        assert "pi.subagent" in {node.kind for node in session.tree()}
        await session.root.abort(background=True)
        await session.live.waits.until(lambda state: kinds_in(state) == {"pi.agent"})
        assert gate.runs == 1


async def test_a_restart_in_between_brings_the_answer_once(tmp_path: Path) -> None:
    gate = Gate()
    path = str(tmp_path / "work.db")
    async with opened(parent_and_child(gate), *subagent_tools(), gate.tool, store=path) as session:
        await session.root.ask("go")
        await gate.entered.wait()
    for _ in range(2):
        gate.opened.set()
        async with opened(parent_and_child(gate), *subagent_tools(), gate.tool, store=path) as session:
            await session.live.waits.until(
                lambda state: all(
                    actor.kind in ("pi.agent", "pi.subagent") for actor in state.actors.values()
                )
            )
            (answer,) = await answers(session)
            assert answer.startswith("Subagent 'mole' answered:")


async def test_parallel_spawns_of_one_response_keep_the_limit() -> None:
    def script(request: ModelRequest) -> Any:
        if "dig" in texts(request)[:2]:
            return stall()
        if request.turn == 0:
            return reply("", *(call("spawn_subagent", name=f"mole {n}", task="dig") for n in range(4)))
        return reply("enough")

    tools = subagent_tools(limits=AgentLimits(children_max=2))
    async with opened(ScriptedModel(script), *tools) as session:
        await session.root.ask("go")
        results = [e for e in await session.root.history() if e.kind == "pi.tool-result"]
        assert sum("is at work" in e.text for e in results) == 2
        assert sum("has spawned 2 agents, the most it may" in str(e.data) for e in results) == 2
        assert len(await session.agents()) == 3


async def test_the_names_of_our_own_kinds_are_reserved() -> None:
    async def step(_: Work[None]) -> Done:
        return Done()

    with pytest.raises(CommandRefused, match="needs a prefix of its own"):
        async with open_session("memory:", actors=[ActorKind("pi.mine", type(None), step)]):
            pass


async def test_usage_is_told_with_and_without_the_subtree() -> None:
    """X86: children in the background count too, each response once."""
    gate = Gate()
    gate.opened.set()
    async with opened(parent_and_child(gate), *subagent_tools(), gate.tool) as session:
        await session.root.ask("go")
        await session.live.waits.until(lambda state: kinds_in(state) == {"pi.agent", "pi.subagent"})
        child = (await session.agents())[1]
        own, below = await session.root.usage(), await child.usage()
        total = await session.root.usage(subtree=True)
        assert (own.responses, below.responses) == (3, 2)
        assert total == await session.usage()
        assert (total.responses, total.input) == (5, own.input + below.input)
        assert await child.usage(subtree=True) == below

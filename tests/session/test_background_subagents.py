"""Subagents in the background: their answers come back once, whatever happens in between."""

from pathlib import Path
from typing import Any

from pi_actors import Session, subagent_tools
from pi_actors.core.state import SessionState
from pi_actors.models import ModelRequest, ScriptedModel, call, reply
from tests.session.gate import Gate
from tests.session.opened import opened


def texts(request: ModelRequest) -> list[str]:
    return [part.text for message in request.messages for part in message.parts if hasattr(part, "text")]


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

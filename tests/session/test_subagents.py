"""Subagents in the foreground: the child's answer is the call's result, whatever happens between."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from pi_actors import AgentLimits, Entry, Session, Settings, Store, Unanswered, open_session, open_store
from pi_actors.actors.agent.messages import (
    ResponseSettled,
    RunEnded,
    RunStarted,
    SubmissionPlaced,
    ToolResultSettled,
)
from pi_actors.actors.generation.messages import RequestRepeated, RequestStarted
from pi_actors.actors.tool.messages import ToolStarted
from pi_actors.core.lifecycle import AbortMarked, AgentSpawned, WorkEnded
from pi_actors.core.messages import Result
from pi_actors.core.record import Recorded
from pi_actors.models import ModelRequest, ScriptedModel, call, fail, reply
from pi_actors.models.plays import Item
from pi_actors.testing import check_log, check_session, crash_sweep, read_log
from pi_actors.tools import subagent_tool
from tests.session.delegating import ask, growing, in_a_process, tree_tools, words_of
from tests.session.gate import Gate
from tests.session.opened import opened
from tests.session.watching import events_of


async def results(session: Session, agent: int = 1) -> list[Entry]:
    """The tool results of an agent, oldest first."""
    return [entry for entry in await session.agent(agent).history() if entry.kind == "pi.tool-result"]


def codes(entry: Entry) -> list[str]:
    """The codes of a result's remarks."""
    return [remark["code"] for remark in cast(dict[str, Any], entry.data)["diagnostics"]]


def is_error(entry: Entry) -> bool:
    """Whether the model is told that the call failed."""
    (part,) = entry.messages[0].parts
    return isinstance(part, Result) and part.is_error


def events(log: Sequence[Recorded], *types: type) -> list[Recorded]:
    """The events of these types."""
    return [each for each in log if isinstance(each.event, types)]


def delegating(*answers: Item) -> ScriptedModel:
    """The parent delegates once and says what it was told; the child, asked to dig, plays *answers*."""

    def script(request: ModelRequest) -> Item:
        words = words_of(request)
        if words[0] == "dig":
            return answers[request.turn]
        return reply(words[-1]) if request.turn else reply("", call("task", prompt="dig"))

    return ScriptedModel(script)


# Asking.


async def test_the_childs_answer_is_the_result_and_the_parents_live_document_names_the_child() -> None:
    gate = Gate()
    model = delegating(reply("", call("gate")), reply("a bone"))
    async with opened(model, subagent_tool(), gate.tool) as session:
        submission = await session.root.submit("go")
        await gate.entered.wait()
        root, child = await session.agents()
        live = (await root.documents())["pi.live"]
        assert [slot["details"] for slot in live["tools"]] == [{"agent": child.id}]
        assert [node.state for node in session.tree() if node.kind == "pi.agent"] == ["busy", "busy"]
        gate.opened.set()
        assert (await submission.wait()).text == "a bone"
        (entry,) = await results(session)
        assert cast(dict[str, Any], entry.data)["details"] == {"agent": child.id}


async def test_a_child_starts_with_its_parents_choices_changed_as_the_tool_says() -> None:
    models = {"wise": delegating(reply("x")), "cheap": ScriptedModel([reply("a bone")], name="cheap")}
    task = subagent_tool(model="cheap", tools=[], instructions="Dig deep.")
    async with open_session("memory:", models=models, tools=[task]) as session:
        await session.root.configure(model="wise", thinking="high", cwd="somewhere")
        assert (await session.root.ask("go")).text == "a bone"
        _, child = await session.agents()
        chosen = (await child.documents())["pi.agent"]["chosen"]
        assert chosen == {
            "model": "cheap",
            "thinking": "high",
            "tools": [],
            "instructions": "Dig deep.",
            "cwd": "somewhere",
        }


async def test_a_child_that_gives_no_answer_is_an_error_for_the_model_to_read() -> None:
    """X27."""
    async with opened(delegating(fail("no credit", retryable=False)), subagent_tool()) as session:
        answer = await session.root.ask("go")
        assert answer.text == "The subagent gave no answer: unanswered (model_error): no credit"
        (entry,) = await results(session)
        assert is_error(entry)


async def test_a_child_of_a_model_that_is_not_there_is_an_error_for_the_model_to_read() -> None:
    async with opened(delegating(), subagent_tool(model="nowhere")) as session:
        answer = await session.root.ask("go")
        assert answer.text.startswith("No subagent was started: there is no model 'nowhere'")
        assert len(await session.agents()) == 1


async def test_each_response_of_a_tree_is_counted_once() -> None:
    """X84, X86."""
    gate = Gate()
    gate.opened.set()
    model = delegating(reply("", call("gate")), reply("a bone"))
    async with opened(model, subagent_tool(), gate.tool) as session:
        answer = await session.root.ask("go")
        total, (root, child) = await session.usage(), await session.agents()
        log = [each for commit in await events_of(session) for each in commit]
        used = [
            event.info.usage for event in (each.event for each in log) if isinstance(event, ResponseSettled)
        ]
        assert total.responses == len(used) == 4
        assert total.output == sum(usage.output for usage in used if usage is not None)
        assert answer.usage.responses == 2
        parts = [(await agent.documents())["pi.usage"]["total"]["responses"] for agent in (root, child)]
        assert parts == [2, 2]


# Limits.


async def refusals(limits: AgentLimits, *turns: int, deep: bool = False) -> list[str]:
    """The errors of an agent that delegates this often in each turn; *deep*: so does its child."""

    def script(request: ModelRequest) -> Item:
        is_child = words_of(request)[0] == "dig"
        asked = turns[request.turn] if request.turn < len(turns) and (deep or not is_child) else 0
        return reply("", *(call("task", prompt="dig") for _ in range(asked))) if asked else reply("done")

    async with opened(ScriptedModel(script), subagent_tool(limits=limits)) as session:
        await session.root.ask("go")
        await check_session(session)
        found: list[Entry] = []
        for agent in await session.agents():
            found += await results(session, agent.id)
        return [entry.text for entry in found if is_error(entry)]


async def test_agents_are_nested_no_deeper_than_the_limit() -> None:
    (error,) = await refusals(AgentLimits(depth_max=1), 1, deep=True)
    assert error == "No subagent was started: agents may be nested 1 deep and this one is at 1"


async def test_an_agent_has_no_more_children_than_the_limit() -> None:
    errors = await refusals(AgentLimits(children_max=2), 1, 1, 1)
    assert errors == ["No subagent was started: this agent has spawned 2 agents, the most it may"]


async def test_no_more_children_work_at_once_than_the_limit_says() -> None:
    """Also where all are asked for in one response, before any of them has a question."""
    errors = await refusals(AgentLimits(concurrent_max=2), 5, 2)
    text = "No subagent was started: 2 agents of this one are at work, the most that may be; wait for one"
    assert errors == [text] * 3


async def test_a_call_that_waits_for_a_child_does_not_keep_the_childs_calls_from_running() -> None:
    """With a single slot for tools there would be a deadlock otherwise."""
    gate = Gate()
    gate.opened.set()
    model = delegating(reply("", call("gate")), reply("a bone"))
    async with opened(model, subagent_tool(), gate.tool, settings=Settings(tools_max=1)) as session:
        assert (await session.root.ask("go")).text == "a bone"


# Aborting.


async def test_an_abort_of_the_parent_ends_the_child_first_and_the_result_is_aborted() -> None:
    """M216, K194."""
    gate = Gate()
    model = delegating(reply("", call("gate")), reply("a bone"))
    async with opened(model, subagent_tool(), gate.tool) as session:
        submission = await session.root.submit("go")
        await gate.entered.wait()
        _, child = await session.agents()
        waiting = await child.submit("more")
        await session.root.abort()
        assert (await submission.wait()).reason == "aborted"
        assert (await waiting.wait()).reason == "aborted"
        log = [each for commit in await events_of(session) for each in commit]
        ended = [each for each in log if isinstance(each.event, WorkEnded)]
        assert [each.event.outcome.status for each in ended if isinstance(each.event, WorkEnded)] == [
            "aborted"
        ] * 4
        assert [each.actor for each in ended] == sorted((each.actor for each in ended), reverse=True)
        (entry,) = await results(session)
        assert codes(entry) == ["aborted"]
        assert cast(dict[str, Any], entry.data)["details"] == {"agent": child.id}


async def test_a_child_that_is_aborted_alone_leaves_its_parent_to_go_on() -> None:
    gate = Gate()
    async with opened(delegating(reply("", call("gate"))), subagent_tool(), gate.tool) as session:
        submission = await session.root.submit("go")
        await gate.entered.wait()
        _, child = await session.agents()
        await child.abort()
        assert (await submission.wait()).text == "The subagent gave no answer: unanswered (aborted)"


async def test_a_child_whose_call_is_over_may_be_asked_again() -> None:
    """K196."""
    async with opened(delegating(reply("a bone"), reply("another")), subagent_tool()) as session:
        await session.root.ask("go")
        _, child = await session.agents()
        assert (await child.ask("dig on")).text == "another"


async def test_a_turn_waits_for_a_child_that_was_asked_again_while_it_runs() -> None:
    """K196, D109: and goes on when that has ended too."""
    gate, other = Gate("gate"), Gate("other")

    def script(request: ModelRequest) -> Item:
        words = words_of(request)
        if words[0] == "dig":
            return reply("", call("other")) if words[-1] == "more" else reply("a bone")
        return reply("done") if request.turn else reply("", call("task", prompt="dig"), call("gate"))

    async with opened(ScriptedModel(script), subagent_tool(), gate.tool, other.tool) as session:
        submission = await session.root.submit("go")
        await gate.entered.wait()
        while not await results(session):
            await trio.lowlevel.checkpoint()
        _, child = await session.agents()
        again = await child.submit("more")
        await other.entered.wait()
        gate.opened.set()
        await session.live.waits.until(
            lambda state: sum(each.kind == "pi.tool" for each in state.actors.values()) == 2
        )
        assert await submission.status() == "placed"
        other.opened.set()
        assert (await submission.wait()).text == "done"
        assert (await again.wait()).text == "a bone"


# Killed processes.


def check_delegation(log: Sequence[Recorded]) -> None:
    """One child, one question, one answer, one result."""
    (_, child) = events(log, AgentSpawned)
    of_child = [each for each in log if each.actor == child.actor]
    assert len(events(of_child, SubmissionPlaced)) == 1
    assert len(events(of_child, RunStarted)) == 1
    assert len(events(of_child, ResponseSettled)) == 1
    (result,) = events(log, ToolResultSettled)
    assert "a bone" in str(result.event)
    assert [each.event.answer is not None for each in log if isinstance(each.event, RunEnded)] == [True, True]


async def test_a_delegation_that_crashes_at_any_commit_has_one_child_one_question_and_one_answer() -> None:
    """M214, X23, X84."""

    async def scenario(store: Store) -> None:
        assert (await ask(store)).text == "It found a bone."

    assert await crash_sweep(scenario, lambda log, _: check_delegation(check_log(log, finished=True))) >= 8


async def test_a_process_killed_between_child_question_answer_and_result_is_followed_by_one_that_goes_on(
    tmp_path: Path,
) -> None:
    """M214, X23: a real SIGKILL after each of the commits from the child's birth to the result."""
    async with open_store(tmp_path / "whole.db") as store:
        await ask(store)
        log = read_log(store.log)
    (_, child) = events(log, AgentSpawned)
    (result,) = events(log, ToolResultSettled)
    ends = sorted({each.end for each in log})
    commits = [number for number, end in enumerate(ends, 1) if child.end <= end < result.end]
    assert len(commits) >= 4
    for commit in commits:
        path = tmp_path / f"{commit}.db"
        assert await in_a_process("ask", path, commit) == -signal.SIGKILL
        async with open_store(path) as store:
            before = len(read_log(store.log))
            assert before == ends[commit - 1]
            assert (await ask(store)).text == "It found a bone."
            check_delegation(check_log(store.log, finished=True))


async def test_a_growing_tree_that_is_aborted_and_killed_comes_to_rest_and_starts_nothing_more(
    tmp_path: Path,
) -> None:
    """X76: three levels, five wide, SIGKILLs between the abort's commit and its end."""
    path = tmp_path / "work.db"
    assert await in_a_process("grow", path, 3) == -signal.SIGKILL
    assert await in_a_process("finish", path, 40) == -signal.SIGKILL
    async with (
        open_store(path) as store,
        open_session(store, model=ScriptedModel(growing), tools=tree_tools()) as session,
    ):
        await session.wait_idle()
        assert {node.kind for node in session.tree()} == {"pi.agent"}
        with pytest.raises(Unanswered, match="aborted"):
            await session.root.ask("level 0 0", request_id="go")
        assert (await session.root.ask("and now?")).text == "again"
        usage = await session.usage()
        log = check_log(store.log, finished=True)
    check_tree(log[: _last_aborted(log)])
    assert usage.responses == len(events(log, ResponseSettled))


def _last_aborted(log: Sequence[Recorded]) -> int:
    """Where the aborted run of the root ended."""
    (end,) = [each.position for each in events(log, RunEnded) if each.actor == 1][:1]
    return end


def check_tree(log: Sequence[Recorded]) -> None:
    """The aborted tree, up to its end: at every level everything ended as aborted."""
    abort = events(log, AbortMarked)[0].end
    after = [each for each in log if each.position > abort]
    assert events(after, RequestStarted, RequestRepeated, ToolStarted, AgentSpawned) == []
    levels = _levels(log)
    assert set(levels.values()) == {0, 1, 2, 3}
    ended = [each.event.outcome for each in log if isinstance(each.event, WorkEnded)]
    assert {outcome.status for outcome in ended} == {"aborted"}
    runs = [(each.actor, each.event) for each in log if isinstance(each.event, RunEnded)]
    assert {levels[actor] for actor, _ in runs} == {0, 1, 2, 3}
    assert {event.reason for _, event in runs} == {"aborted"}
    settled = [(each.actor, each.event) for each in log if isinstance(each.event, ToolResultSettled)]
    assert {levels[actor] for actor, _ in settled} == {0, 1, 2, 3}
    assert {remark.code for _, event in settled for remark in event.diagnostics} == {"aborted"}


def _levels(log: Sequence[Recorded]) -> dict[int, int]:
    """How deep each agent is, from the log alone."""
    agents = {each.actor: cast(Any, each.event).agent for each in log if each.topic == "WorkSpawned"}
    levels: dict[int, int] = {}
    for each in log:
        if isinstance(each.event, AgentSpawned):
            owner = each.event.owner
            levels[each.actor] = levels[agents[owner]] + 1 if owner else 0
    return levels

"""What a call goes through, and what its result carries."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.lowlevel

from pi_actors import (
    CommandRefused,
    Entry,
    Outcome,
    Session,
    Settings,
    ToolContext,
    ToolResult,
    Usage,
    open_session,
    tool,
)
from pi_actors.actors.tool.messages import ToolDetailsReported, ToolOutputStreamed, ToolStarted
from pi_actors.core.lifecycle import WorkEnded
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.tools import LocalEnv
from tests.session.gate import Gate
from tests.session.opened import opened
from tests.session.watching import events_of, kinds_of, topics_of


async def results(session: Session) -> list[Entry]:
    """The tool results of the root agent, oldest first."""
    return [entry for entry in await session.root.history() if entry.kind == "pi.tool-result"]


def codes(entry: Entry) -> list[str]:
    """The codes of a result's remarks."""
    return [remark["code"] for remark in cast(dict[str, Any], entry.data)["diagnostics"]]


async def outcomes(session: Session, kind: str = "pi.tool") -> list[Outcome]:
    """The outcomes of all actors of a kind, in the order they ended."""
    events = [each for commit in await events_of(session) for each in commit]
    kinds = {each.position: getattr(each.event, "kind", "") for each in events if each.topic == "WorkSpawned"}
    return [
        each.event.outcome
        for each in events
        if isinstance(each.event, WorkEnded) and kinds[each.actor] == kind
    ]


async def run_one(*functions: Any, calls: Sequence[Any] = (), **options: Any) -> tuple[Session, list[Entry]]:
    """A finished session whose model made these calls."""
    made = calls or [call(functions[0].name)]
    async with opened([reply("", *made), reply("done")], *functions, **options) as session:
        assert (await session.root.ask("go")).text == "done"
        return session, await results(session)


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def test_a_tool_without_a_declaration_is_of_policy_never_and_its_intent_is_stored_first() -> None:
    """D79, D85, D86: the intent in a commit of its own, before the function is called."""
    stored: list[list[str]] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look at the log."""
        stored.append(await topics_of(ctx.session))
        return "seen"

    async with opened([reply("", call("look")), reply("done")], look) as session:
        await session.root.ask("go")
        commits = await events_of(session)
        (intent,) = [commit for commit in commits if commit[0].topic == "ToolStarted"]
        assert len(intent) == 1
        assert cast(ToolStarted, intent[0].event).replay == "never"
        assert stored[0][-1] == "ToolStarted"


async def test_the_intent_of_a_safe_tool_shares_the_commit_of_its_response() -> None:
    @tool(replay="safe")
    async def look() -> str:
        """Look."""
        return "seen"

    async with opened([reply("", call("look")), reply("done")], look) as session:
        before = session.position
        await session.root.ask("go")
        commits = await events_of(session, after=before)
        assert [each.topic for each in commits[1]] == [
            "ResponseSettled",
            "ToolRoundStarted",
            "WorkSpawned",
            "ToolStarted",
        ]
        assert len(commits) == 4


async def test_a_turn_with_one_tool_of_policy_never_is_five_commits() -> None:
    async with opened([reply("", call("echo", text="x")), reply("done")], echo) as session:
        before = session.position
        await session.root.ask("go")
        assert len(await events_of(session, after=before)) == 5


async def test_an_error_result_completes_the_call_and_an_exception_fails_it() -> None:
    """D87."""

    @tool
    async def refuse() -> ToolResult:
        """Say no."""
        return ToolResult("no", is_error=True)

    @tool
    async def throw() -> str:
        """Break."""
        raise ValueError("no such thing")

    async with opened([reply("", call("refuse"), call("throw")), reply("done")], refuse, throw) as session:
        await session.root.ask("go")
        found = {cast(dict[str, Any], each.data)["tool"]: each for each in await results(session)}
        assert codes(found["refuse"]) == []
        assert found["refuse"].messages[0].parts[0].is_error  # type: ignore[union-attr]
        assert codes(found["throw"]) == ["tool_error"]
        assert "ValueError: no such thing" in found["throw"].data["diagnostics"][0]["text"]
        assert sorted(each.status for each in await outcomes(session)) == ["completed", "failed"]


async def test_one_failing_call_leaves_its_siblings_alone() -> None:
    """X15."""

    @tool
    async def fail_on(number: int) -> str:
        """Fail on 3."""
        if number == 3:
            raise ValueError(number)
        return f"ok {number}"

    _, entries = await run_one(fail_on, calls=[call("fail_on", number=n) for n in range(10)])
    assert sorted(entry.text for entry in entries if not codes(entry)) == [
        f"ok {n}" for n in range(10) if n != 3
    ]


async def test_a_result_that_is_not_json_is_a_tool_error() -> None:
    @tool
    async def odd() -> object:
        """Return something odd."""
        return object()

    _, (entry,) = await run_one(odd)
    assert codes(entry) == ["tool_error"]
    assert "is not JSON" in entry.data["diagnostics"][0]["text"]


async def test_a_failing_environment_is_a_tool_error() -> None:
    """D88."""

    async def broken(_: str | None) -> LocalEnv:
        raise OSError("no such world")

    model = ScriptedModel([reply("", call("echo", text="x")), reply("done")])
    async with open_session("memory:", model=model, tools=[echo], env=broken) as session:
        assert (await session.root.ask("go")).text == "done"
        (entry,) = await results(session)
        assert codes(entry) == ["tool_error"]
        assert [each.status for each in await outcomes(session)] == ["failed"]


async def test_an_environment_that_is_built_by_awaiting_serves_as_well(tmp_path: Path) -> None:
    async def built(cwd: str | None) -> LocalEnv:
        await trio.lowlevel.checkpoint()
        return LocalEnv(cwd or str(tmp_path))

    @tool
    async def where(ctx: ToolContext) -> str:
        """Tell where."""
        return str(ctx.env.cwd)

    model = ScriptedModel([reply("", call("where")), reply("done")])
    async with open_session("memory:", model=model, tools=[where], env=built) as session:
        await session.root.ask("go")
        assert [entry.text for entry in await results(session)] == [str(tmp_path)]


async def test_output_beyond_the_window_is_cut_to_whole_lines_and_the_last_remark_says_so() -> None:
    """D91, D96."""

    @tool(keep="head", max_bytes=100, max_lines=3)
    async def flood(ctx: ToolContext) -> str:
        """Say much."""
        ctx.diagnose("info", "by the tool")
        return "".join(f"line {n}\n" for n in range(100))

    _, (entry,) = await run_one(flood)
    assert entry.text == "line 0\nline 1\nline 2\n"
    assert codes(entry) == ["note", "truncated"]


async def test_progress_is_shown_while_a_tool_runs_and_gone_with_its_result() -> None:
    """D97, D98, D110."""
    waiting, gate = trio.Event(), trio.Event()

    @tool
    async def chatty(ctx: ToolContext) -> str:
        """Report."""
        ctx.output("one\n")
        await ctx.details({"step": 1})
        await ctx.details({"step": 2})
        waiting.set()
        await gate.wait()
        return "done"

    async with opened([reply("", call("chatty")), reply("done")], chatty) as session:
        first = await session.root.submit("go")
        await waiting.wait()
        (slot,) = (await session.root.documents())["pi.live"]["tools"]
        assert (slot["output"], slot["details"]) == ("one\n", {"step": 2})
        gate.set()
        await first.wait()
        assert (await session.root.documents())["pi.live"]["tools"] == []
        commits = await events_of(session)
        events = [each.event for commit in commits for each in commit]
        details = [each.details for each in events if isinstance(each, ToolDetailsReported)]
        assert details == [{"step": 1}, {"step": 2}]


async def test_output_is_stored_at_most_once_per_interval_and_none_of_it_is_lost() -> None:
    """D97: the first at once, the rest together."""

    @tool
    async def chatty(ctx: ToolContext) -> str:
        """Report."""
        for n in range(100):
            ctx.output(f"{n}\n")
            await trio.lowlevel.checkpoint()
        return "done"

    async with opened([reply("", call("chatty")), reply("done")], chatty) as session:
        await session.root.ask("go")
        events = [each.event for commit in await events_of(session) for each in commit]
        stored = [each.text for each in events if isinstance(each, ToolOutputStreamed)]
        assert "".join(stored) == "".join(f"{n}\n" for n in range(100))
        assert len(stored) <= 3


async def test_reports_after_the_result_are_refused() -> None:
    """D99."""
    kept: list[ToolContext] = []

    @tool
    async def leak(ctx: ToolContext) -> str:
        """Keep the context."""
        kept.append(ctx)
        return "done"

    await run_one(leak)
    with pytest.raises(CommandRefused, match="came after its result"):
        kept[0].output("late")


async def test_a_tool_that_returns_nothing_has_its_output_as_its_result() -> None:
    @tool
    def plain(ctx: ToolContext) -> None:
        """Print."""
        ctx.output("from a thread\n")

    _, (entry,) = await run_one(plain)
    assert entry.text == "from a thread\n"


async def test_the_usage_of_a_tool_adds_to_its_own_sums() -> None:
    """D100."""

    @tool
    async def costly() -> ToolResult:
        """Spend."""
        return ToolResult("ok", usage=Usage(input=7, cost="0.5"))

    async with opened([reply("", call("costly")), reply("done")], costly) as session:
        await session.root.ask("go")
        usage = (await session.root.documents())["pi.usage"]
        assert (usage["tools"]["costly"]["input"], usage["tools"]["costly"]["cost"]) == (7, "0.5")


async def test_parallel_calls_run_together_and_their_results_come_as_they_finish() -> None:
    """D101: stored as they finish, sent in call order."""
    slow, quick = Gate("slow"), Gate("quick")
    seen: list[list[str]] = []

    def script(request: Any) -> Any:
        last = request.messages[-1]
        seen.append([part.content[0].text for part in last.parts if hasattr(part, "content")])
        return reply("done") if last.role == "tool" else reply("", call("slow"), call("quick"))

    async with opened(ScriptedModel(script), slow.tool, quick.tool) as session:
        first = await session.root.submit("go")
        await slow.entered.wait()
        await quick.entered.wait()
        quick.opened.set()
        await session.live.waits.until(lambda state: not state.actors[1].state.run.open_calls[1:])  # type: ignore[attr-defined]
        slow.opened.set()
        await first.wait()
        order = [cast(dict[str, Any], each.data)["tool"] for each in await results(session)]
        assert order == ["quick", "slow"]


@pytest.mark.parametrize("by", ["tool", "settings"])
async def test_a_sequential_round_starts_each_call_after_the_one_before(by: str) -> None:
    """D102."""
    running: list[str] = []

    @tool(execution="sequential" if by == "tool" else "parallel")
    async def step(name: str) -> str:
        """Step."""
        running.append(name)
        assert running == [name]
        await trio.sleep(0.001)
        running.clear()
        return name

    settings = Settings(sequential_tools=by == "settings")
    calls = [call("step", name=name) for name in "abc"]
    _, entries = await run_one(step, calls=calls, settings=settings)
    assert [entry.text for entry in entries] == ["a", "b", "c"]


async def test_a_not_offered_sequential_tool_does_not_slow_the_round() -> None:
    """D103."""
    one, two = Gate("one"), Gate("two")

    @tool(execution="sequential")
    async def slow() -> str:
        """Never offered."""
        return ""

    async with opened([reply("", call("one"), call("slow"), call("two")), reply("done")]) as session:
        session.register(tools=[one.tool, two.tool, slow])
        await session.root.configure(tools=["one", "two"])
        first = await session.root.submit("go")
        await one.entered.wait()
        await two.entered.wait()
        one.opened.set()
        two.opened.set()
        assert (await first.wait()).text == "done"


async def test_when_every_result_says_terminate_the_run_ends_without_another_request() -> None:
    @tool
    async def stop() -> ToolResult:
        """Stop."""
        return ToolResult("bye", terminate=True)

    async with opened([reply("let me stop", call("stop"), call("stop"))], stop) as session:
        assert (await session.root.ask("go")).text == "let me stop"
        assert kinds_of(await session.root.entries())[-2:] == ["pi.tool-result"] * 2


async def test_tools_asked_for_join_a_chosen_list_after_the_round() -> None:
    """D105."""

    @tool
    async def more() -> ToolResult:
        """Ask for more."""
        return ToolResult("ok", add_tools=["echo"])

    script = [reply("", call("more")), reply("", call("echo", text="hi")), reply("done")]
    async with opened(script, more, echo) as session:
        await session.root.configure(tools=["more"])
        await session.root.ask("go")
        assert [entry.text for entry in await results(session)] == ["ok", "hi"]


async def test_a_tool_whose_actor_faults_has_a_result_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """D108: in the same commit."""

    async def broken(*_: object) -> str:
        raise KeyError("a bug of ours")

    monkeypatch.setattr("pi_actors.runtime.executing._arguments_text", broken)
    async with opened([reply("", call("echo", text="x")), reply("done")], echo) as session:
        assert (await session.root.ask("go")).text == "done"
        (entry,) = await results(session)
        assert codes(entry) == ["faulted"]
        assert [each.status for each in await outcomes(session)] == ["faulted"]
        ended = next(commit for commit in await events_of(session) if commit[0].topic == "WorkEnded")
        assert "ToolResultSettled" in [each.topic for each in ended]


async def test_an_aborted_tool_keeps_what_was_stored_of_it() -> None:
    """D90."""
    gate = trio.Event()

    @tool
    async def chatty(ctx: ToolContext) -> None:
        """Report."""
        ctx.output("seen\n")
        await ctx.details({"step": 1})
        ctx.diagnose("warn", "careful")
        gate.set()
        await trio.sleep_forever()

    async with opened([reply("", call("chatty")), reply("done")], chatty) as session:
        first = await session.root.submit("go")
        await gate.wait()
        await session.live.waits.until(
            lambda state: any(getattr(each.state, "diagnostics", ()) for each in state.actors.values())
        )
        await session.root.abort()
        assert (await first.wait()).reason == "aborted"
        (entry,) = await results(session)
        assert (entry.text, entry.data["details"]) == ("seen\n", {"step": 1})
        assert codes(entry) == ["note", "aborted"]


async def test_a_thread_that_cannot_be_stopped_is_given_up_on() -> None:
    """L211: the result says that it may still be running, and its late report changes nothing."""
    entered, release = threading.Event(), threading.Event()

    @tool
    def stubborn() -> str:
        """Block."""
        entered.set()
        release.wait(30)
        return "late"

    settings = Settings(close_ms=10)
    async with opened([reply("", call("stubborn")), reply("done")], stubborn, settings=settings) as session:
        first = await session.root.submit("go")
        await trio.to_thread.run_sync(entered.wait)
        await session.root.abort()
        assert (await first.wait()).reason == "aborted"
        (entry,) = await results(session)
        assert "may still be running" in entry.data["diagnostics"][0]["text"]
        release.set()


async def test_a_tool_that_waits_for_itself_is_refused() -> None:
    refused: list[str] = []

    @tool
    async def selfish(ctx: ToolContext) -> str:
        """Wait for oneself."""
        for wait in (
            lambda: ctx.agent.ask("x"),
            ctx.agent.wait_idle,
            ctx.session.wait_idle,
            ctx.agent.abort,
        ):
            with pytest.raises(CommandRefused, match="cannot wait for") as caught:
                await wait()
            refused.append(str(caught.value))
        return "ok"

    _, (entry,) = await run_one(selfish)
    assert (entry.text, len(refused)) == ("ok", 4)


async def test_two_tools_of_one_name_are_refused() -> None:
    @tool(name="echo")
    async def other() -> str:
        """Another."""
        return ""

    with pytest.raises(CommandRefused, match="two tools named 'echo'"):
        async with opened([], echo, other):
            pass
    async with opened([], echo) as session:
        with pytest.raises(CommandRefused, match="two tools named 'echo'"):
            session.register(tools=[other])


async def test_forty_threads_that_send_output_do_not_stall_the_store() -> None:
    together = threading.Barrier(40)

    @tool
    def shout(ctx: ToolContext, number: int) -> str:
        """Send output from a thread."""
        together.wait(30)
        for n in range(50):
            ctx.output(f"{number}: {n}\n")
        return str(number)

    calls = [call("shout", number=n) for n in range(40)]
    _, entries = await run_one(shout, calls=calls)
    assert sorted(int(entry.text) for entry in entries) == list(range(40))

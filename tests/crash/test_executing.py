"""Crashes around a tool call: what is run again, what is not, and what the model is told."""

import pytest
import trio

from pi_actors import Blob, Store, Text, Tool, ToolContext, open_session, open_store, tool
from pi_actors.core.messages import Result
from pi_actors.models import call, reply
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import CrashPoint, accepted, check_log, read_log, run_until_crash
from pi_actors.tools import LocalEnv, coding_tools
from pi_actors.tools.tool import Replay
from tests.crash.killed import Observed, codes, killed, reopened, results, stored, topics
from tests.session.gate import Gate


class Counted:
    """A tool that counts its runs and hangs in them until ``opened`` is set."""

    def __init__(self, replay: Replay = "never", *, output: str = "") -> None:
        self.runs = 0
        self.entered = trio.Event()
        self.opened = trio.Event()
        self.arguments: list[str] = []
        self.tool = self.declared(replay, output=output)

    def declared(self, replay: Replay, *, output: str = "") -> Tool:
        """The tool as another version of the program declares it."""

        @tool(name="act", replay=replay)
        async def act(ctx: ToolContext, what: str = "it") -> str:
            """Act."""
            self.runs += 1
            self.arguments.append(what)
            ctx.output(output)
            self.entered.set()
            await self.opened.wait()
            return "acted"

        return act


def content(parts: tuple[Text | Blob, ...]) -> str:
    """The text of a result."""
    return "".join(part.text for part in parts if isinstance(part, Text))


SCRIPT = [reply("", call("act", what="now")), reply("Done.")]


async def kill_in_the_call(log: MemoryLog, counted: Counted, *, once: str = "ToolStarted") -> None:
    """Kill the process while the call runs, once an event of the topic *once* is stored."""
    async with killed(log, SCRIPT, counted.tool) as session:
        await session.root.submit("go", request_id="go")
        await counted.entered.wait()
        await stored(session, once)


async def finish(log: MemoryLog, *tools: Tool, model: Observed | None = None) -> None:
    """Go on in a new process until the input is answered, and check the log."""
    async with reopened(log, model or Observed(SCRIPT), *tools) as session:
        settled = await (await session.root.submit("go", request_id="go")).wait()
        assert settled.text == "Done."
    check_log(log, finished=True)


async def test_a_call_that_had_begun_is_not_repeated_and_its_output_follows_the_remark() -> None:
    """N227, V346: a tool without a declaration is of policy never."""
    log, counted = MemoryLog(), Counted(output="half done\n")
    await kill_in_the_call(log, counted, once="ToolOutputStreamed")
    await finish(log, counted.tool)
    assert counted.runs == 1
    (result,) = results(log)
    assert codes(result) == ["interrupted"]
    assert content(result.content) == "half done\n"
    assert not result.own


async def test_the_next_request_has_exactly_one_result_directly_after_the_call() -> None:
    """X01: and the repair is a stored event, before anybody says a word."""
    log, counted = MemoryLog(), Counted()
    await kill_in_the_call(log, counted)
    model = Observed(SCRIPT)
    await finish(log, counted.tool, model=model)
    (request,) = model.requests
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]
    (part,) = request.messages[-1].parts
    assert isinstance(part, Result)
    assert "its effect is unknown" in content(part.content)
    found = topics(log)
    assert found.index("ToolResultSettled") < found.index("RequestStarted", found.index("ToolStarted"))


@pytest.mark.parametrize(("then", "now"), [("safe", "never"), ("never", "safe"), ("safe", None)])
async def test_a_call_is_repeated_only_if_it_was_safe_then_and_is_now(
    then: Replay, now: Replay | None
) -> None:
    """N228, V347: the tool's policy changed between two versions of the program, or it has gone."""
    log, counted = MemoryLog(), Counted(then)
    await kill_in_the_call(log, counted)
    counted.opened.set()
    await finish(log, *([counted.declared(now)] if now else []))
    assert counted.runs == 1
    assert [codes(result) for result in results(log)] == [["interrupted"]]


async def test_a_safe_call_runs_again_with_its_stored_arguments_and_without_its_earlier_output() -> None:
    """N229: in a new environment."""
    log, counted = MemoryLog(), Counted("safe", output="first\n")
    await kill_in_the_call(log, counted, once="ToolOutputStreamed")
    counted.opened.set()
    made: list[str | None] = []

    def env(cwd: str | None) -> LocalEnv:
        made.append(cwd)
        return LocalEnv(cwd)

    again = counted.declared("safe", output="second\n")
    async with (
        open_store(log) as store,
        open_session(store, model=Observed(SCRIPT), tools=[again], env=env) as session,
    ):
        assert (await (await session.root.submit("go", request_id="go")).wait()).text == "Done."
    check_log(log, finished=True)
    assert counted.arguments == ["now", "now"]
    assert made == [None]
    (result,) = results(log)
    assert (content(result.content), result.own, codes(result)) == ("acted", True, [])


async def test_a_call_without_a_stored_intent_never_began_and_runs_once() -> None:
    """N226: the process dies after the response was stored, before the call's intent is."""
    log, counted = MemoryLog(), Counted()
    counted.opened.set()

    async def go(store: Store) -> None:
        async with open_session(store, model=Observed(SCRIPT), tools=[counted.tool]) as session:
            await (await session.root.submit("go", request_id="go")).wait()

    assert await run_until_crash(go, log, CrashPoint(4, "before"))
    assert topics(log)[-3:] == ["ResponseSettled", "ToolRoundStarted", "WorkSpawned"]
    assert counted.runs == 0
    await finish(log, counted.tool)
    assert counted.runs == 1
    assert [result.own for result in results(log)] == [True]


async def test_a_stored_result_is_kept_and_its_call_never_runs_again() -> None:
    """N230, X04, V348: two calls of a batch have finished, the third hangs."""
    log, counted, gate = MemoryLog(), Counted(), Gate()

    @tool
    async def count(ctx: ToolContext, number: int) -> str:
        """Count."""
        counted.arguments.append(str(number))
        return f"counted {number}"

    script = [reply("", call("count", number=1), call("gate"), call("count", number=2)), reply("Done.")]
    async with killed(log, script, count, gate.tool) as session:
        await session.root.submit("go", request_id="go")
        await stored(session, "ToolResultSettled", times=2)
        await gate.entered.wait()
    async with reopened(log, script, count, gate.tool) as session:
        assert (await (await session.root.submit("go", request_id="go")).wait()).text == "Done."
    check_log(log, finished=True)
    assert sorted(counted.arguments) == ["1", "2"]
    assert gate.runs == 1
    found = {result.call.index: (content(result.content), codes(result)) for result in results(log)}
    assert found == {0: ("counted 1", []), 1: ("", ["interrupted"]), 2: ("counted 2", [])}


async def test_an_abort_that_was_stored_is_carried_out_by_the_next_process() -> None:
    """N233, V356: the process dies between the mark and the handler; nothing runs again."""
    log, counted = MemoryLog(), Counted("safe")

    async def go_and_abort(store: Store) -> None:
        async with open_session(store, model=Observed(SCRIPT), tools=[counted.tool]) as session:
            await session.root.submit("go", request_id="go")
            await counted.entered.wait()
            await session.root.abort()

    assert await run_until_crash(go_and_abort, log, CrashPoint(4, "after"))
    assert topics(log)[-2:] == ["AbortMarked", "AbortMarked"]
    (submission,) = accepted(read_log(log))
    marked_at = len(topics(log))
    counted.opened.set()
    model = Observed(lambda _: reply("Hello again."))
    async with reopened(log, model, counted.tool) as session:
        settled = await session.submission(submission).wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted")
        await session.wait_idle()
        assert model.requests == []
        assert (await session.root.ask("still there?")).text == "Hello again."
    check_log(log, finished=True)
    assert counted.runs == 1
    assert "ToolStarted" not in topics(log, after=marked_at)


def test_of_the_tools_at_hand_only_the_pure_readers_are_safe() -> None:
    """V346: whoever adds one to this list must be sure that running it twice is as good as once."""
    safe = {each.name for each in coding_tools() if each.replay == "safe"}
    assert safe == {"read", "grep", "find", "ls"}
    assert {each.name for each in coding_tools()} - safe == {"write", "edit", "bash"}

"""Compaction, met through an open session."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from pi_actors import (
    CommandRefused,
    CompactionSettings,
    Entry,
    RetrySettings,
    Session,
    Settings,
    Unanswered,
    open_session,
    tool,
)
from pi_actors.actors.agent.messages import CompactionSkipped
from pi_actors.actors.compaction.messages import SummaryFailed, SummarySettled
from pi_actors.core.lifecycle import Outcome
from pi_actors.core.text import Json
from pi_actors.models import ModelRequest, call, cut, fail, overflow, reply
from pi_actors.models.plays import Item, Script
from pi_actors.runtime.registry import Instructions
from pi_actors.testing import broken_promises, check_session, read_log
from pi_actors.tools import subagent_tool
from tests.session.gate import Gate
from tests.session.opened import QUICK, WAYS, opened
from tests.session.recording import WINDOW, Recording, said, texts_of, tokens_of, words
from tests.session.watching import events_of, kinds_of, topics_of

ways = pytest.mark.parametrize("instructions", WAYS.values(), ids=WAYS)
SUMMARY = "They talked of words."
RETRY = RetrySettings(first_ms=1, cap_ms=1)
OFF = Settings(retry=RETRY, compaction=CompactionSettings(enabled=False))


def answering(tokens: int = 10) -> Script:
    """A script that answers everything with so many tokens."""
    return lambda _: reply(words(tokens))


def refusing_above(tokens: int) -> Script:
    """A provider whose window is smaller than its model says."""

    def script(request: ModelRequest) -> Item:
        return overflow() if tokens_of(request) > tokens else reply("It fits.")

    return script


@asynccontextmanager
async def talked(
    model: Recording, *, instructions: Instructions | None = None, settings: Settings = QUICK
) -> AsyncGenerator[Session]:
    """A session that had two turns of about 1,000 tokens; everything is checked at its end."""
    async with opened(model, instructions=instructions, settings=settings) as session:
        await session.root.ask("first " + words(990))
        await session.root.ask("second " + words(990))
        yield session
        await check_session(session)
        assert broken_promises(read_log(session.live.store.log, session.id)) == []
        await _same_in_the_view(session)


async def _same_in_the_view(session: Session) -> None:
    """The read side shows the very transcript that the agent has."""
    async with session.root.view() as view:
        shown = [entry["id"] for entry in view.value["entries"]]
    assert shown == [entry.id for entry in await session.root.entries()]


async def compactions(session: Session) -> Sequence[dict[str, Json]]:
    """What pi.live says of them."""
    documents = await session.root.documents()
    listed: list[dict[str, Json]] = documents["pi.live"]["compactions"]
    return listed


async def inbox(session: Session) -> dict[str, Json]:
    """The document pi.inbox."""
    found: dict[str, Json] = (await session.root.documents())["pi.inbox"]
    return found


async def starts_with_a_summary(session: Session) -> bool:
    return (await session.root.entries())[0].kind == "pi.compaction"


# Asked for.


@ways
async def test_a_manual_compaction_replaces_the_older_part_and_the_agent_is_not_busy_by_it(
    instructions: Instructions,
) -> None:
    """F139: idle waits for it, a question does not."""
    model = Recording(answering(), summaries=[SUMMARY], holds=True)
    async with talked(model, instructions=instructions) as session:
        id = await session.root.compact()
        await model.asked.wait()
        assert (await session.root.documents())["pi.live"]["run"] is None
        assert (await session.root.ask("Are you busy?")).text == words(10)
        with trio.move_on_after(0) as waited:
            await session.root.wait_idle()
        assert waited.cancelled_caught
        model.answering.set()
        await session.root.wait_idle()
        assert await session.wait_actor(id) == Outcome(status="completed")
        assert SUMMARY in (await session.root.entries())[0].text
        assert (await session.root.ask("And now?")).text == words(10)
        assert "first" not in said(model.turns[-1])
        assert SUMMARY in said(model.turns[-1])
        assert "first" in said(model.summaries[0])
        assert "first" in "".join(entry.text for entry in await session.root.history())


async def test_a_request_id_makes_repeating_it_safe_and_is_refused_for_anything_else() -> None:
    model = Recording(answering(), summaries=[SUMMARY])
    async with talked(model) as session:
        ids = [await session.root.compact(request_id="c") for _ in range(2)]
        await session.root.wait_idle()
        ids.append(await session.root.compact("Differently.", request_id="c"))
        assert len({*ids}) == 1
        assert len(model.summaries) == 1
        await session.root.ask("hello", request_id="a")
        with pytest.raises(CommandRefused, match="was used for input"):
            await session.root.compact(request_id="a")
        with pytest.raises(CommandRefused, match="was used for compaction"):
            await session.root.submit("hello", request_id="c")
        with pytest.raises(CommandRefused, match="runtime's own"):
            await session.root.submit("hello", request_id="pi.compaction:5")
        assert await session.find_submission(session.root.id, "c") is None


async def test_what_a_caller_asks_of_the_summary_is_told_to_the_model() -> None:
    model = Recording(answering(), summaries=[SUMMARY])
    async with talked(model) as session:
        await session.wait_actor(await session.root.compact("Mind the order of events."))
        assert "Mind the order of events." in said(model.summaries[0])


async def test_with_little_said_there_is_nothing_to_compact() -> None:
    """F128."""
    async with opened(Recording(answering())) as session:
        await session.root.ask("hello")
        outcome = await session.wait_actor(await session.root.compact())
        assert (outcome.status, outcome.reason) == ("completed", "nothing_to_compact")
        assert kinds_of(await session.root.entries()) == ["pi.user", "pi.assistant"]


@ways
async def test_one_that_is_ready_during_a_run_is_placed_at_the_next_boundary(
    instructions: Instructions,
) -> None:
    """F136, F135."""
    gate = Gate()

    def script(request: ModelRequest) -> Item:
        return reply("", call("gate")) if "use the gate" in texts_of(request)[-1] else reply(words(10))

    model = Recording(script, summaries=[SUMMARY])
    async with talked(model, instructions=instructions) as session:
        session.register(tools=[gate.tool])
        await session.root.configure(tools=["gate"])
        run = await session.root.submit("use the gate")
        await gate.entered.wait()
        id = await session.root.compact()
        assert await session.wait_actor(id) == Outcome(status="completed")
        assert not await starts_with_a_summary(session)
        (item,) = (await inbox(session))["items"]
        assert item["mode"] == "write"
        gate.opened.set()
        assert (await run.wait()).status == "done"
        assert await starts_with_a_summary(session)
        assert SUMMARY in said(model.turns[-1])


# By themselves.


@ways
async def test_a_background_compaction_runs_beside_the_request_and_is_placed_when_that_is_answered(
    instructions: Instructions,
) -> None:
    """C67, F136."""
    model = Recording(answering(), summaries=[SUMMARY], holds=True)
    async with talked(model, instructions=instructions) as session:
        assert (await session.root.ask(words(600))).text == words(10)
        await model.asked.wait()
        assert [each["trigger"] for each in await compactions(session)] == ["background"]
        assert "first" in said(model.turns[-1])
        model.answering.set()
        await session.wait_idle()
        assert await compactions(session) == []
        assert await starts_with_a_summary(session)


@ways
async def test_a_blocking_compaction_comes_before_the_request(instructions: Instructions) -> None:
    """C66."""
    model = Recording(answering(), summaries=[SUMMARY])
    async with talked(model, instructions=instructions) as session:
        assert (await session.root.ask("third " + words(1_100))).text == words(10)
        assert [request.purpose for request in model.requests[-2:]] == ["summary", "turn"]
        assert "third" in said(model.turns[-1])
        assert SUMMARY in said(model.turns[-1])
        assert "first" not in said(model.turns[-1])
        assert tokens_of(model.turns[-1]) < WINDOW * 3 // 4


async def test_a_run_of_many_tool_calls_is_compacted_on_the_way() -> None:
    """Each request of it fits, and each call that is sent has its result."""

    @tool(replay="safe")
    async def read(page: int) -> str:
        """Read a page."""
        return f"page {page} " + words(390)

    def script(request: ModelRequest) -> Item:
        return reply("", call("read", page=request.turn)) if request.turn < 30 else reply("Read.")

    model = Recording(script, summaries=[SUMMARY])
    async with opened(model, read) as session:
        assert (await session.root.ask("Read it all.")).text == "Read."
        await session.wait_idle()
        assert max(tokens_of(request) for request in model.turns) < WINDOW
        assert len(model.summaries) >= 5
        for request in model.turns:
            roles = [message.role for message in request.messages]
            asked = [roles[at + 1] for at, message in enumerate(request.messages) if _calls(message.parts)]
            assert set(asked) <= {"tool"}
        assert broken_promises(read_log(session.live.store.log, session.id)) == []


def _calls(parts: Sequence[object]) -> bool:
    return any(type(part).__name__ == "Call" for part in parts)


async def test_what_frees_too_little_is_not_tried_and_says_so_once() -> None:
    """X72: three answers are sent as large as they are."""
    model = Recording(answering(), window=WINDOW)
    async with opened(model) as session:
        await session.root.ask(words(3_100))
        skipped = [
            each.event
            for commit in await events_of(session)
            for each in commit
            if isinstance(each.event, CompactionSkipped)
        ]
        assert len(skipped) == 1
        assert model.summaries == []


# After an overflow.


@ways
async def test_a_refused_request_is_compacted_for_once_and_then_answered(instructions: Instructions) -> None:
    model = Recording(refusing_above(2_100), summaries=[SUMMARY])
    async with talked(model, instructions=instructions) as session:
        assert (await session.root.ask(words(200))).text == "It fits."
        assert [request.purpose for request in model.requests[-3:]] == ["turn", "summary", "turn"]
        assert [request.attempt for request in model.turns[-2:]] == [1, 1]
        assert await starts_with_a_summary(session)


@ways
async def test_a_second_refusal_ends_the_run_with_what_the_provider_said(instructions: Instructions) -> None:
    """C59."""
    model = Recording(refusing_above(50), summaries=[SUMMARY])
    async with opened(model, instructions=instructions) as session:
        for _ in range(3):
            await session.root.ask(words(10))
        with pytest.raises(Unanswered, match="larger than the context window") as caught:
            await session.root.ask(words(400))
        assert caught.value.reason == "model_error"
        assert len(model.turns) == 5
        assert (await inbox(session))["held"]["reason"] == "model_error"


@pytest.mark.parametrize("why", ["no cut", "switched off", "no model", "no summary"])
async def test_where_no_summary_comes_the_run_ends_with_what_the_provider_said(why: str) -> None:
    """C59, C60: and the context is as it was."""
    summaries = [fail("no such key", retryable=False)] if why == "no summary" else [SUMMARY]
    model = Recording(refusing_above(2_100), summaries=summaries)
    settings = OFF if why == "switched off" else QUICK
    if why == "no model":
        settings = Settings(compaction=CompactionSettings(model="nobody"))
    async with talked(model, settings=settings) as session:
        if why == "no cut":
            await session.root.reset()
        before = await session.root.entries()
        with pytest.raises(Unanswered, match="larger than the context window") as caught:
            await session.root.ask(words(2_200 if why == "no cut" else 200))
        assert caught.value.reason == "model_error"
        assert (await session.root.entries())[: len(before)] == before
        assert len(model.turns) == 3


# What a summary is asked with, and what happens if it does not come.


async def test_a_summary_request_is_plain_text_without_tools_and_instructions() -> None:
    """F132: results are cut to 2,000 characters."""

    @tool
    async def read(path: str) -> str:
        """Read a file."""
        return "start " + "x" * 7_000

    def script(request: ModelRequest) -> Item:
        return reply("I look.", call("read", path="a.txt")) if request.turn == 0 else reply(words(300))

    model = Recording(script, summaries=[SUMMARY], window=8_000)
    async with opened(model, read, instructions="Be very brief.") as session:
        await session.root.configure(thinking="high")
        await session.root.ask("What is in a.txt?")
        for _ in range(8):
            await session.root.ask("And?")
        await session.wait_actor(await session.root.compact())
        (request,) = model.summaries
        assert [message.role for message in request.messages] == ["user"]
        assert (request.tools, request.thinking, request.session_id, request.attempt) == ((), None, "", 1)
        text = said(request)
        assert "[user] What is in a.txt?" in text
        assert "[assistant] I look." in text
        assert '[assistant] calls read with {"path":"a.txt"}' in text
        assert "[tool] start xxx" in text
        assert text.count("x") < 2_100
        assert "characters left out]" in text
        assert "Be very brief." not in text


async def test_a_text_too_long_for_the_summarisers_window_is_summarised_part_by_part() -> None:
    """X72: each request fits, each is told what came before, and the last summary is placed."""
    parts: list[str] = []

    def summaries(request: ModelRequest) -> str:
        parts.append(f"Sum {len(parts)}.")
        return parts[-1]

    small = Recording([], summaries=summaries, window=1_500, name="small")
    model = Recording(answering(490), window=200_000)
    compaction = CompactionSettings(model="small", keep_recent_tokens=1_000)
    settings = Settings(retry=RETRY, compaction=compaction)
    async with open_session("memory:", model=model, models={"small": small}, settings=settings) as session:
        for number in range(20):
            await session.root.ask(f"question {number} " + words(490))
        assert await session.wait_actor(await session.root.compact()) == Outcome(status="completed")
        assert len(small.summaries) > 20
        assert max(tokens_of(request) for request in small.summaries) < 1_500
        for before, request in zip(parts, small.summaries[1:], strict=False):
            assert before in said(request)
        assert parts[-1] in (await session.root.entries())[0].text
        told = "".join(said(request) for request in small.summaries)
        kept = "".join(entry.text for entry in await session.root.entries())
        assert all(f"question {number} " in told or f"question {number} " in kept for number in range(20))


async def test_a_summariser_smaller_than_it_says_is_asked_for_less() -> None:
    """X72."""

    def summaries(request: ModelRequest) -> Item:
        return overflow() if tokens_of(request) > 1_500 else reply("Sum.")

    model = Recording(answering(490), summaries=summaries, window=None)
    settings = Settings(retry=RETRY, compaction=CompactionSettings(keep_recent_tokens=1_000))
    async with opened(model, settings=settings) as session:
        for _ in range(10):
            await session.root.ask(words(490))
        assert await session.wait_actor(await session.root.compact()) == Outcome(status="completed")
        assert "Sum." in (await session.root.entries())[0].text


@pytest.mark.parametrize(
    ("summary", "problem"),
    [
        (fail("no such key", retryable=False), "no such key"),
        (fail("overloaded"), "overloaded"),
        (reply(" "), "the summary was empty"),
        (reply("They ta", stop="length"), "cut off by its length limit"),
        (reply("", call("read", path="a")), "called a tool"),
    ],
)
async def test_a_summary_that_fails_leaves_everything_as_it_was(summary: Item, problem: str) -> None:
    """F133, X73: the failure is an event, and no entry has left the context."""
    model = Recording(answering(), summaries=[summary])
    async with talked(model) as session:
        before = await session.root.entries()
        outcome = await session.wait_actor(await session.root.compact())
        assert (outcome.status, outcome.reason) == ("failed", "model_error")
        assert problem in str(outcome.detail)
        assert await session.root.entries() == before
        assert "SummaryFailed" in await topics_of(session)
        assert (await session.root.ask("Go on.")).text == words(10)


async def test_the_very_same_request_is_sent_again_after_a_retryable_error() -> None:
    """F134: but for the number of the attempt."""
    plays: list[Item] = [[fail("overloaded"), cut("They ta"), reply(SUMMARY)]]
    model = Recording(answering(), summaries=plays)
    async with talked(model) as session:
        assert await session.wait_actor(await session.root.compact()) == Outcome(status="completed")
        assert [request.attempt for request in model.summaries] == [1, 2, 3]
        assert len({request.messages for request in model.summaries}) == 1


async def test_a_model_that_raises_fails_the_compaction_and_nothing_else() -> None:
    def summaries(_: ModelRequest) -> str:
        raise ZeroDivisionError("oh")

    async with talked(Recording(answering(), summaries=summaries)) as session:
        outcome = await session.wait_actor(await session.root.compact())
        assert (outcome.status, outcome.reason) == ("failed", "model_error")


async def test_a_session_without_a_model_for_summaries_stays_usable() -> None:
    """F144."""
    settings = Settings(retry=RETRY, compaction=CompactionSettings(model="nobody"))
    async with talked(Recording(answering()), settings=settings) as session:
        outcome = await session.wait_actor(await session.root.compact())
        assert (outcome.status, outcome.reason) == ("failed", "no_model")
        assert (await session.root.ask("third " + words(1_100))).text == words(10)


async def test_a_provider_that_only_the_settings_name_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "no key")
    settings = Settings(compaction=CompactionSettings(model="anthropic:claude-opus-4-6"))
    async with opened(Recording(answering()), settings=settings) as session:
        assert "anthropic:claude-opus-4-6" in session.live.registry.models


# Usage, documents.


async def test_every_answered_request_for_a_summary_is_counted() -> None:
    """F141: failed and stale ones too."""
    model = Recording(answering(), summaries=[reply(" "), reply(SUMMARY)], holds=True)
    async with talked(model) as session:
        before = await session.usage()
        await session.root.compact()
        stale = await session.root.compact()
        await session.root.reset()
        model.answering.set()
        await session.root.wait_idle()
        assert (await session.wait_actor(stale)).reason in ("stale", "model_error")
        after = await session.usage()
        counted = [
            each.event
            for commit in await events_of(session)
            for each in commit
            if isinstance(each.event, SummarySettled | SummaryFailed)
        ]
        assert after.responses - before.responses == len(counted) == 2
        assert after.input - before.input == sum(each.usage.input for each in counted if each.usage)


async def test_two_at_once_are_both_listed_in_the_order_of_their_ids() -> None:
    """F143."""
    model = Recording(answering(), summaries=[SUMMARY], holds=True)
    async with talked(model) as session:
        first, second = await session.root.compact(), await session.root.compact()
        await model.asked.wait()
        listed = await compactions(session)
        assert [each["actor"] for each in listed] == [first, second]
        assert [each["trigger"] for each in listed] == ["manual", "manual"]
        assert listed[0]["model"] == "scripted"
        assert {node.id for node in session.tree()} >= {first, second}
        model.answering.set()
        await session.root.wait_idle()
        assert await compactions(session) == []


async def test_a_retry_of_a_summary_is_shown_and_wakes_the_session() -> None:
    model = Recording(answering(), summaries=[[fail("overloaded"), reply(SUMMARY)]])
    retry = RetrySettings(first_ms=100_000, cap_ms=100_000)
    async with talked(model, settings=Settings(retry=retry)) as session:
        await session.root.compact()
        await session.live.waits.until(lambda _: session.next_wake() is not None)
        (shown,) = await compactions(session)
        assert (shown["attempt"], shown["error"]) == (1, "overloaded")
        assert shown["due"] is not None
        await session.root.abort()


# Abort.


@pytest.mark.parametrize("kind", ["manual", "background", "blocking", "overflow"])
async def test_an_abort_of_the_agent_stops_it_and_leaves_no_entry(kind: str) -> None:
    """F141: what was not answered is not counted."""
    script = refusing_above(2_100) if kind == "overflow" else answering()
    model = Recording(script, summaries=[SUMMARY], holds=True)
    async with talked(model) as session:
        tokens = {"manual": 0, "background": 600, "blocking": 1_100, "overflow": 200}[kind]
        if kind == "manual":
            await session.root.compact()
        else:
            await session.root.submit(words(tokens))
        await model.asked.wait()
        assert [each["trigger"] for each in await compactions(session)] == [kind]
        before = await session.usage()
        await session.root.abort()
        assert await compactions(session) == []
        assert "pi.compaction" not in kinds_of(await session.root.entries())
        assert "SummarySettled" not in await topics_of(session)
        assert (await session.usage()).responses - before.responses <= 1
        model.answering.set()
        assert (await session.root.ask("Still there?")).text in (words(10), "It fits.")


async def test_a_blocking_one_that_is_aborted_by_its_id_lets_the_request_go() -> None:
    """C66."""
    model = Recording(answering(), summaries=[SUMMARY], holds=True)
    async with talked(model) as session:
        run = await session.root.submit(words(1_100))
        await model.asked.wait()
        (blocking,) = await compactions(session)
        assert await session.abort_actor(int(str(blocking["actor"]))) == "marked"
        assert (await run.wait()).text == words(10)
        assert not await starts_with_a_summary(session)


# What is said meanwhile.


@ways
async def test_what_is_said_during_a_blocking_one_is_in_the_first_request_after_it(
    instructions: Instructions,
) -> None:
    """X68, X69: consumed once, after it, and no request is sent before."""
    model = Recording(answering(), summaries=[SUMMARY], holds=True)
    async with talked(model, instructions=instructions) as session:
        run = await session.root.submit("third " + words(1_090))
        await model.asked.wait()
        sent = len(model.turns)
        follow_up = await session.root.submit("and also this")
        steer = await session.root.submit("do it quickly", when_busy="steer")
        note = await session.root.submit_write("app.note", data={"page": 1})
        assert len(model.turns) == sent
        model.answering.set()
        answers = [(await each.wait()).answer for each in (run, follow_up, steer)]
        assert (await note.wait()).status == "done"
        assert len({answer.id for answer in answers if isinstance(answer, Entry)}) == 1
        (request,) = model.turns[sent:]
        text = said(request)
        assert text.index(SUMMARY) < text.index("third") < text.index("do it quickly")
        assert text.count("and also this") == 1


async def test_steering_during_an_overflow_compaction_that_fails_waits_in_a_held_inbox() -> None:
    """X70."""
    model = Recording(refusing_above(2_100), summaries=[fail("no", retryable=False)], holds=True)
    async with talked(model) as session:
        run = await session.root.submit(words(200))
        await model.asked.wait()
        steer = await session.root.submit("do it quickly", when_busy="steer")
        model.answering.set()
        assert (await run.wait()).reason == "model_error"
        waiting = await inbox(session)
        assert (waiting["held"]["reason"], len(waiting["items"])) == ("model_error", 1)
        assert await steer.status() == "queued"
        await session.root.reset()
        assert (await steer.wait()).status == "done"


async def test_a_held_inbox_stays_held_when_a_summary_is_placed() -> None:
    gate = Gate()
    fatal = fail("no such key", retryable=False)
    plays: list[Item] = [reply(words(10)), reply(words(10)), reply("", call("gate")), fatal]
    model = Recording(plays, summaries=[SUMMARY], holds=True)
    async with talked(model) as session:
        session.register(tools=[gate.tool])
        await session.root.configure(tools=["gate"])
        id = await session.root.compact()
        run = await session.root.submit("go")
        await gate.entered.wait()
        follow_up = await session.root.submit("and then")
        gate.opened.set()
        assert (await run.wait()).reason == "model_error"
        model.answering.set()
        await session.wait_actor(id)
        assert await starts_with_a_summary(session)
        assert (await inbox(session))["held"]["reason"] == "model_error"
        assert await follow_up.status() == "queued"


# What stays the same.


@ways
async def test_the_instructions_survive_and_are_not_said_again(instructions: Instructions) -> None:
    model = Recording(answering(), summaries=[SUMMARY])
    async with talked(model, instructions=instructions) as session:
        await session.wait_actor(await session.root.compact())
        assert kinds_of(await session.root.entries())[:2] == ["pi.compaction", "pi.system"]
        await session.root.ask("third")
        assert texts_of(model.turns[-1])[0] == "Be brief."
        assert kinds_of(await session.root.history()).count("pi.system") == 1


async def test_the_session_id_that_providers_see_stays_the_same() -> None:
    """C76."""
    model = Recording(answering(), summaries=[SUMMARY])
    async with talked(model) as session:
        await session.wait_actor(await session.root.compact())
        await session.root.ask("third")
        assert len({request.session_id for request in model.turns}) == 1
        assert [request.turn for request in model.turns] == [0, 1, 2]


async def test_a_subagent_below_a_tool_compacts_its_own_context() -> None:
    """Its parent's context is its own business, and the tool waits for it."""

    @tool(replay="safe")
    async def read(page: int) -> str:
        """Read a page."""
        return f"page {page} " + words(600)

    def script(request: ModelRequest) -> Item:
        if "delegate" in texts_of(request)[0]:
            return reply("", call("task", prompt="read")) if request.turn == 0 else reply("Delegated.")
        return reply("", call("read", page=request.turn)) if request.turn < 8 else reply("Read.")

    model = Recording(script, summaries=lambda _: "read so far")
    async with opened(model, subagent_tool(), read) as session:
        assert (await session.root.ask("delegate")).text == "Delegated."
        assert len(model.summaries) >= 2
        _, child = await session.agents()
        assert "pi.compaction" in kinds_of(await child.history())
        assert "pi.compaction" not in kinds_of(await session.root.history())
        assert (await child.usage()).responses == 9 + len(model.summaries)
        await session.wait_idle()

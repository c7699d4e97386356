"""A turn: what is pinned, what is retried, what becomes an entry, what streams."""

from collections.abc import Sequence
from typing import cast

import pytest
import trio

from pi_actors import RetrySettings, Session, Settings, Unanswered, Usage, tool
from pi_actors.actors.agent.messages import ResponseSettled
from pi_actors.actors.generation.messages import (
    PartialStreamed,
    RequestStarted,
    RetryScheduled,
)
from pi_actors.core.messages import Call, Result, Text
from pi_actors.models import (
    Emit,
    ModelRequest,
    ModelResponse,
    ScriptedCall,
    ScriptedModel,
    TextDelta,
    call,
    call_raw,
    cut,
    fail,
    overflow,
    reply,
    stall,
)
from pi_actors.runtime.registry import Instructions, PromptContext
from tests.session.gate import Gate
from tests.session.opened import QUICK, WAYS, opened
from tests.session.watching import events_of, kinds_of, topics_of

ways = pytest.mark.parametrize("instructions", WAYS.values(), ids=WAYS)


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


class Recording:
    """A model that keeps the requests it was sent and plays a script."""

    name = "recording"
    context_window = 1_000

    def __init__(self, script: Sequence[object]) -> None:
        self.requests: list[ModelRequest] = []
        self._scripted = ScriptedModel(script)  # type: ignore[arg-type]

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        self.requests.append(request)
        return await self._scripted.stream(request, emit)


def texts_sent(request: ModelRequest) -> list[str]:
    """The texts of a request's messages, results included."""
    texts: list[str] = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, Result):
                texts.extend(item.text for item in part.content if isinstance(item, Text))
    return texts


async def stops(session: Session) -> list[str]:
    """How each response of the root agent settled."""
    return [
        cast(dict[str, str], entry.data)["stop"]
        for entry in await session.root.history()
        if entry.kind == "pi.assistant"
    ]


@ways
async def test_what_is_asked_is_pinned_with_the_newest_entry_included(instructions: Instructions) -> None:
    """C47, C77."""
    async with opened([reply("hi")], echo, instructions=instructions) as session:
        await session.root.configure(thinking="high")
        await session.root.ask("hello")
        commits = await events_of(session)
        (started,) = [each for commit in commits for each in commit if isinstance(each.event, RequestStarted)]
        event = cast(RequestStarted, started.event)
        entries = await session.root.entries()
        assert (event.model, event.thinking, event.tools) == ("scripted", "high", ("echo",))
        assert (event.attempt, event.turn, event.cutoff) == (1, 0, entries[1].id)
        assert [(entry.kind, entry.by != 0) for entry in entries] == [
            ("pi.user", False),
            ("pi.system", True),
            ("pi.assistant", True),
        ]


@ways
async def test_instructions_are_appended_only_when_they_change(instructions: Instructions) -> None:
    script = [reply("1"), reply("2"), reply("3"), reply("4")]
    model = Recording(script)
    async with opened(model, instructions=instructions) as session:
        await session.root.ask("a")
        await session.root.ask("b")
        await session.root.configure(instructions="Be loud.")
        await session.root.ask("c")
        await session.root.ask("d")
        assert [texts_sent(request) for request in model.requests][-1] == [
            "Be brief.",
            "a",
            "1",
            "b",
            "2",
            "c",
            "Be loud.",
            "3",
            "d",
        ]


async def test_a_failing_environment_leaves_the_instructions_without_one() -> None:
    """C48."""
    seen: list[object] = []

    async def instructions(context: PromptContext) -> str:
        seen.append((context.env, context.env_problem))
        return "Be brief."

    def broken(_: str | None) -> object:
        raise OSError("no such world")

    from pi_actors import open_session

    model = ScriptedModel([reply("hi")])
    async with open_session("memory:", model=model, instructions=instructions, env=broken) as session:  # type: ignore[arg-type]
        assert (await session.root.ask("hello")).text == "hi"
    assert seen == [(None, "OSError: no such world")]


@ways
async def test_a_retryable_failure_is_tried_again_up_to_the_limit(instructions: Instructions) -> None:
    """C61, C62: attempts 1 to 4, each an entry of its own with its usage."""
    async with opened([[fail("overloaded")]], instructions=instructions) as session:
        with pytest.raises(Unanswered, match="overloaded") as caught:
            await session.root.ask("hello")
        assert caught.value.reason == "model_error"
        assert await stops(session) == ["error"] * 4
        assert (await session.usage()).responses == 4


async def test_a_retry_is_prepared_anew_and_failed_attempts_are_not_sent() -> None:
    """C64, B42."""
    model = Recording([[fail("overloaded"), reply("hi")]])
    settings = Settings(retry=RetrySettings(first_ms=100_000, cap_ms=100_000))
    async with opened(model, settings=settings) as session:
        first = await session.root.submit("hello")
        await session.live.waits.until(lambda _: session.next_wake() is not None)
        other = Recording([[fail("overloaded"), reply("from the other")]])
        await session.root.configure(model=other)
        await session.root.abort()
        assert (await first.wait()).reason == "aborted"


async def test_a_retry_waits_for_what_the_provider_asked_and_stores_the_deadline_first() -> None:
    """C63."""
    settings = Settings(retry=RetrySettings(first_ms=1, retry_after_cap_ms=40_000))
    async with opened([[fail("slow down", retry_after_ms=90_000)]], settings=settings) as session:
        await session.root.submit("hello")
        await session.live.waits.until(lambda _: session.next_wake() is not None)
        (retry,) = [
            each
            for commit in await events_of(session)
            for each in commit
            if isinstance(each.event, RetryScheduled)
        ]
        assert cast(RetryScheduled, retry.event).due_us - retry.at_us == 40_000_000
        live = (await session.root.documents())["pi.live"]
        assert live["retry"]["attempt"] == 2


@pytest.mark.parametrize("play", [cut("half an ans"), reply(""), reply("", thinking="hmm")])
@ways
async def test_a_cut_or_empty_response_is_retried(play: object, instructions: Instructions) -> None:
    """X50."""
    async with opened([[play, reply("whole")]], instructions=instructions) as session:  # type: ignore[list-item]
        assert (await session.root.ask("hello")).text == "whole"
        assert await stops(session) == ["error", "answer"]


async def test_the_calls_of_a_cut_response_are_not_executed() -> None:
    """X50."""
    gate = Gate()
    play = cut("half", call("gate"))
    async with opened([[play, reply("whole")]], gate.tool) as session:
        assert (await session.root.ask("hello")).text == "whole"
        assert gate.runs == 0


@ways
async def test_calls_of_a_response_cut_by_its_length_get_a_result_that_says_so(
    instructions: Instructions,
) -> None:
    """C57, X36."""
    gate = Gate()
    model = Recording([reply("too lo", call("gate"), stop="length"), reply("shorter")])
    async with opened(model, gate.tool, instructions=instructions) as session:
        assert (await session.root.ask("hello")).text == "too lo"
        assert (await session.root.ask("again")).text == "shorter"
        assert gate.runs == 0
        results = [entry for entry in await session.root.entries() if entry.kind == "pi.tool-result"]
        assert [each["code"] for each in results[0].data["diagnostics"]] == ["incomplete"]
        assert any("cut off by its length limit" in text for text in texts_sent(model.requests[1]))


async def test_an_overflow_ends_the_run() -> None:
    async with opened([overflow()]) as session:
        with pytest.raises(Unanswered) as caught:
            await session.root.ask("hello")
        assert caught.value.reason == "model_error"
        assert await stops(session) == ["error"]


async def test_a_silent_stream_is_cancelled_and_tried_again() -> None:
    """X27."""
    settings = Settings(stall_ms=20, retry=QUICK.retry)
    async with opened([[stall("so far"), reply("there")]], settings=settings) as session:
        assert (await session.root.ask("hello")).text == "there"
        (failed, answered) = [each for each in await session.root.entries() if each.kind == "pi.assistant"]
        assert failed.data["error"] == "the model was silent for 20 ms"
        assert (failed.text, answered.text) == ("so far", "there")


class Chunks:
    """A model that streams when the test says so."""

    name = "chunks"
    context_window = None

    def __init__(self) -> None:
        self.send, self._chunks = trio.open_memory_channel[str](100)

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        text = ""
        async for chunk in self._chunks:
            emit(TextDelta(0, chunk))
            text += chunk
        return ModelResponse(parts=(Text(text=text),), stop="stop")


async def partials(session: Session) -> list[PartialStreamed]:
    """The stored partials, in order."""
    commits = await events_of(session)
    events = [each.event for commit in commits for each in commit]
    return [event for event in events if isinstance(event, PartialStreamed)]


async def test_partials_are_stored_as_deltas_and_shown_in_the_document() -> None:
    """C49, C51."""
    model = Chunks()
    async with opened(model, settings=Settings(progress_ms=1)) as session:
        first = await session.root.submit("hello")
        before = session.position
        for chunk in ("so ", "far ", "so good"):
            await model.send.send(chunk)
            await session.live.waits.until(lambda state: state.position > before)  # noqa: B023
            before = session.position
        generation = (await session.root.documents())["pi.live"]["generation"]
        assert generation["partial"] == [{"type": "text", "text": "so far so good"}]
        await model.send.aclose()
        assert (await first.wait()).text == "so far so good"
        stored = await partials(session)
        assert [delta.text for each in stored for delta in each.deltas] == ["so ", "far ", "so good"]
        topics = await topics_of(session)
        assert "PartialStreamed" not in topics[topics.index("ResponseSettled") :]


async def test_a_response_that_settles_at_once_has_no_partial() -> None:
    """C50."""
    async with opened([reply("quick")]) as session:
        await session.root.ask("hello")
        assert await partials(session) == []


async def test_an_abort_in_mid_stream_keeps_what_was_stored_as_an_aborted_entry() -> None:
    """C74: entry, outcome and settlement in the one commit that ends the generation."""
    model = Chunks()
    async with opened(model, settings=Settings(progress_ms=1)) as session:
        first = await session.root.submit("hello")
        await model.send.send("so far")
        before = session.position
        await session.live.waits.until(lambda state: state.position > before)
        await session.root.abort()
        settled = await first.wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted")
        last = (await events_of(session))[-1]
        assert [each.topic for each in last] == ["ResponseSettled", "WorkEnded", "RunEnded"]
        response = cast(ResponseSettled, last[0].event)
        assert (response.info.stop, response.parts) == ("aborted", (Text(text="so far"),))
        assert (await session.root.documents())["pi.live"]["generation"] is None


async def test_an_aborted_thinking_phase_leaves_a_valid_transcript() -> None:
    """X11: the aborted answer is not sent again."""
    settings = Settings(progress_ms=1)
    recording = Recording([reply("after")])

    def script(request: ModelRequest) -> object:
        return stall("hm") if len(request.messages) == 1 else reply("after")

    async with opened(ScriptedModel(script), settings=settings) as session:  # type: ignore[arg-type]
        await session.root.submit("one")
        before = session.position
        await session.live.waits.until(lambda state: state.position > before)
        await session.root.abort()
        await session.root.configure(model=recording)
        assert (await session.root.ask("two")).text == "after"
        assert texts_sent(recording.requests[0]) == ["one", "two"]


async def test_empty_and_repeated_call_ids_become_unique() -> None:
    """X12, X38, X40."""

    def say(text: str, wire_id: str) -> ScriptedCall:
        return call_raw("echo", f'{{"text": "{text}"}}', wire_id=wire_id)

    first, second = (say("a", ""), say("b", "x:0")), (say("c", "x:0"), say("d", "x:0"))
    model = Recording([reply("", *first), reply("", *second), reply("done")])
    async with opened(model, echo) as session:
        await session.root.ask("go")
        sent = model.requests[-1].messages
        parts = (part for message in sent for part in message.parts)
        ids = [part.wire_id for part in parts if isinstance(part, Call)]
        assert len(set(ids)) == 4
        assert all(ids)
        assert texts_sent(model.requests[-1]) == ["go", "a", "b", "c", "d"]


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "3", "null", '{"text": 3}', '{"other": "x"}'])
async def test_unusable_arguments_are_not_run_and_kept_as_received(text: str) -> None:
    """X35, X37, D80."""
    model = Recording([reply("", call_raw("echo", text)), reply("sorry")])
    async with opened(model, echo) as session:
        assert (await session.root.ask("go")).text == "sorry"
        call_entry, result = (await session.root.entries())[1:3]
        assert call_entry.messages[0].parts[0].arguments == text  # type: ignore[union-attr]
        assert [each["code"] for each in result.data["diagnostics"]] == ["invalid_arguments"]
        assert "ToolStarted" not in await topics_of(session)


async def test_a_call_of_a_tool_that_was_not_offered_is_answered_without_an_actor() -> None:
    """C70, D103."""
    async with opened([reply("", call("nothing")), reply("sorry")], echo) as session:
        assert (await session.root.ask("go")).text == "sorry"
        entries = await session.root.entries()
        assert kinds_of(entries) == ["pi.user", "pi.assistant", "pi.tool-result", "pi.assistant"]
        assert [each["code"] for each in entries[2].data["diagnostics"]] == ["tool_unavailable"]
        assert (await topics_of(session)).count("WorkSpawned") == 2


async def test_split_surrogates_join_across_deltas_and_lone_ones_are_replaced() -> None:
    """X41."""
    model = Chunks()
    async with opened(model, settings=Settings(progress_ms=1)) as session:
        first = await session.root.submit("hello")
        for chunk in ("a\ud83d", "\ude00b", "\ud83d", "c"):
            await model.send.send(chunk)
        await model.send.aclose()
        assert (await first.wait()).text == "a\U0001f600b\ufffdc"


async def test_a_model_that_raises_ends_the_run_with_what_it_raised() -> None:
    class Broken(Chunks):
        async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            raise RuntimeError("out of order")

    async with opened(Broken()) as session:
        with pytest.raises(Unanswered, match="RuntimeError: out of order"):
            await session.root.ask("go")


async def test_the_usage_of_every_response_counts_once() -> None:
    """H152: completed, failed and aborted ones."""
    spent = Usage(input=10, output=5)
    async with opened([[cut("x"), reply("hi", usage=spent)]]) as session:
        answer = await session.root.ask("hello")
        assert (answer.usage.responses, answer.usage.output >= 5) == (2, True)
        assert await session.usage() == answer.usage
        documents = await session.root.documents()
        assert documents["pi.usage"]["total"]["responses"] == 2


async def test_each_turn_starts_at_attempt_one_and_counts_settled_responses() -> None:
    model = Recording([reply("", call("echo", text="a")), [fail("x"), reply("b")], reply("c")])
    async with opened(model, echo) as session:
        await session.root.ask("one")
        await session.root.ask("two")
        assert [(request.turn, request.attempt) for request in model.requests] == [
            (0, 1),
            (1, 1),
            (1, 2),
            (2, 1),
        ]

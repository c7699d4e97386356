"""The scripted model: what it says depends on the request alone."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from pi_actors.core.errors import InvalidValue
from pi_actors.core.messages import Call, Message, Text, Thinking, Usage, user_message
from pi_actors.core.text import Json
from pi_actors.models import (
    ModelFailed,
    ModelRequest,
    ScriptedModel,
    StreamDelta,
    call,
    cut,
    fail,
    overflow,
    reply,
    stall,
)
from tests.models.playback import unseen


def asked(turn: int = 0, attempt: int = 1, *texts: str, session: str = "") -> ModelRequest:
    messages = tuple(user_message(text) for text in texts or ("hello",))
    return ModelRequest(messages=messages, turn=turn, attempt=attempt, session_id=session)


def summary_of(*texts: str, attempt: int = 1) -> ModelRequest:
    messages = tuple(user_message(text) for text in texts)
    return ModelRequest(messages=messages, purpose="summary", turn=7, attempt=attempt)


async def said(model: ScriptedModel, request: ModelRequest) -> str:
    response = await model.stream(request, unseen)
    return "".join(part.text for part in response.parts if isinstance(part, Text))


async def test_a_list_is_indexed_by_turn() -> None:
    model = ScriptedModel([reply("first"), reply("second")])
    assert [await said(model, asked(turn)) for turn in (1, 0, 1)] == ["second", "first", "second"]


async def test_an_item_that_is_a_list_is_indexed_by_attempt_and_its_last_repeats() -> None:
    model = ScriptedModel([[fail("overloaded"), reply("second"), reply("third")]])
    with pytest.raises(ModelFailed, match="overloaded"):
        await said(model, asked(attempt=1))
    assert [await said(model, asked(attempt=attempt)) for attempt in (2, 3, 4, 9)] == [
        "second",
        "third",
        "third",
        "third",
    ]


async def test_a_function_is_called_with_the_request() -> None:
    model = ScriptedModel(lambda request: [reply(f"turn {request.turn}"), reply("again")])
    assert await said(model, asked(3)) == "turn 3"
    assert await said(model, asked(3, 2)) == "again"


async def test_past_the_end_of_the_script_the_request_is_fatal_and_names_the_turn() -> None:
    with pytest.raises(ModelFailed, match="has 1 turns and turn 1 was asked for") as failed:
        await said(ScriptedModel([reply("only")], name="actor"), asked(1))
    assert failed.value.kind == "fatal"


def text(request: ModelRequest) -> Json:
    return "text"


def nothing(request: ModelRequest) -> Json:
    return []


def broken(request: ModelRequest) -> Json:
    raise ZeroDivisionError(request.turn)


@pytest.mark.parametrize("answer", [text, nothing, broken])
async def test_a_function_that_breaks_or_returns_no_answer_is_fatal(
    answer: Callable[[ModelRequest], Json],
) -> None:
    with pytest.raises(
        ModelFailed, match="the function that scripts model 'scripted' failed at turn 0"
    ) as failed:
        await said(ScriptedModel(answer), asked())
    assert failed.value.kind == "fatal"


def test_a_wrong_script_is_told_about_when_it_is_written() -> None:
    wrong: Json
    for wrong, problem in [
        (["text"], "turn 0 of the script is a str, not an answer; wrap it in reply"),
        (
            [reply("a"), call("read")],
            "turn 1 of the script is a ScriptedCall, not an answer; wrap it in reply",
        ),
        ([[reply("a"), 1]], "attempt 2 of turn 0 of the script is a int"),
        (reply("a"), "the script is a Reply; give a list"),
    ]:
        with pytest.raises(TypeError, match=problem):
            ScriptedModel(wrong)
    with pytest.raises(ValueError, match="turn 0 of the script is an empty list"):
        ScriptedModel([[]])
    with pytest.raises(ValueError, match="summaries is an empty list"):
        ScriptedModel([], summaries=[])
    with pytest.raises(ValueError, match="chunk_ms is -1"):
        ScriptedModel([], chunk_ms=-1)


def test_a_wrong_reply_is_told_about_when_it_is_written() -> None:
    wrong: Json = call("read")
    with pytest.raises(TypeError, match="takes its text first"):
        reply(wrong)
    wrong = "read"
    with pytest.raises(TypeError, match="takes calls made with call"):
        reply("text", wrong)
    with pytest.raises(InvalidValue, match=r"the arguments of call\('read'\)"):
        call("read", path=object())


async def test_a_call_may_have_an_argument_called_name() -> None:
    response = await ScriptedModel([reply("", call("greet", name="Ada"))]).stream(asked(), unseen)
    assert [part.arguments for part in response.parts if isinstance(part, Call)] == ['{"name":"Ada"}']


async def test_ids_of_calls_differ_between_turns_and_agents_and_not_between_runs() -> None:
    async def ids(request: ModelRequest) -> list[str]:
        script = ScriptedModel(lambda _: reply("", call("read"), call("read")))
        response = await script.stream(request, unseen)
        return [part.wire_id for part in response.parts if isinstance(part, Call)]

    requests = [asked(0), asked(1), asked(0, session="a"), asked(0, session="b")]
    made = [identity for request in requests for identity in await ids(request)]
    assert len(set(made)) == 8
    assert await ids(asked(0, session="a")) == made[4:6]


# Time.


async def test_chunk_ms_is_the_pause_between_two_deltas(autojump_clock: MockClock) -> None:
    times: list[float] = []
    model = ScriptedModel([reply("Let me look at it.", call("read", path="a"))], chunk_ms=10)
    started = trio.current_time()
    await model.stream(asked(), lambda _: times.append(trio.current_time()))
    assert times[0] == started
    assert [after - before for before, after in pairwise(times)] == pytest.approx([0.01] * (len(times) - 1))
    assert trio.current_time() == times[-1]


async def test_without_chunk_ms_it_streams_without_sleeping_and_can_be_cancelled(
    mock_clock: MockClock,
) -> None:
    deltas: list[StreamDelta] = []
    model = ScriptedModel([reply("Let me look at it.")])
    await model.stream(asked(), deltas.append)
    assert len(deltas) > 1
    with trio.CancelScope() as scope:
        scope.cancel()
        await model.stream(asked(), deltas.append)
    assert scope.cancelled_caught


async def test_a_long_text_streams_in_at_most_200_deltas() -> None:
    deltas: list[StreamDelta] = []
    await ScriptedModel([reply("x" * 100_000)]).stream(asked(), deltas.append)
    assert len(deltas) <= 200


# Faults.


async def test_faults_say_what_they_are() -> None:
    plays = [fail("busy", retry_after_ms=5), fail("no key", retryable=False), overflow()]
    failures: list[ModelFailed] = []
    for play in plays:
        with pytest.raises(ModelFailed) as failed:
            await said(ScriptedModel([play]), asked())
        failures.append(failed.value)
    assert [(failure.kind, failure.retry_after_ms) for failure in failures] == [
        ("retryable", 5),
        ("fatal", None),
        ("overflow", None),
    ]
    assert [str(failure) for failure in failures[:2]] == ["busy", "no key"]


async def test_a_cut_answer_may_have_calls() -> None:
    response = await ScriptedModel([cut("I will", call("read", path="a"))]).stream(asked(), unseen)
    assert response.stop is None
    assert [type(part) for part in response.parts] == [Text, Call]


async def test_a_stall_never_ends_by_itself(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1_000_000) as scope:
        await ScriptedModel([stall("half")]).stream(asked(), unseen)
    assert scope.cancelled_caught


async def test_thinking_may_carry_what_only_its_provider_understands() -> None:
    thought = Thinking(text="hm", opaque='{"signature":"c2ln"}')
    response = await ScriptedModel([reply("yes", thinking=thought)]).stream(asked(), unseen)
    assert response.parts == (thought, Text(text="yes"))


# Usage.


async def test_usage_is_counted_at_four_characters_a_token_unless_it_is_stated() -> None:
    model = ScriptedModel(
        [reply("12345678"), reply("x", usage=Usage(input=7)), reply("x", usage="unreported")]
    )
    usages = [(await model.stream(asked(turn, 1, "1234"), unseen)).usage for turn in range(3)]
    assert usages == [Usage(input=1, output=2), Usage(input=7), None]


# Summaries.


async def test_the_built_in_summary_says_how_long_the_text_was_and_how_it_ended() -> None:
    said_of_two = await said(ScriptedModel([]), summary_of("a", "b"))
    assert said_of_two == "Summary ef0790fb of 2 words, which ended: a b"


async def test_built_in_summaries_of_different_texts_differ_and_of_the_same_text_are_the_same() -> None:
    model = ScriptedModel([])
    texts = ["one " * 500, "one " * 501, "two " + "one " * 499, ""]
    assert len({await said(model, summary_of(text)) for text in texts}) == len(texts)
    assert await said(model, summary_of("a")) == await said(ScriptedModel([]), summary_of("a"))
    assert len(await said(model, summary_of("one " * 50_000))) < 200


async def test_summaries_follow_one_another_as_they_appear_in_the_request() -> None:
    model = ScriptedModel([], summaries=["Sum one.", reply("Sum two."), [fail("busy"), reply("Sum three.")]])
    assert await said(model, summary_of("a")) == "Sum one."
    assert await said(model, summary_of("Sum one.", "b")) == "Sum two."
    with pytest.raises(ModelFailed, match="busy"):
        await said(model, summary_of("Sum two.", "c"))
    assert await said(model, summary_of("Sum two.", "c", attempt=2)) == "Sum three."
    assert await said(model, summary_of("Sum three.", "d", attempt=2)) == "Sum three."


async def test_summaries_may_be_a_function() -> None:
    model = ScriptedModel([], summaries=lambda request: f"{len(request.messages)} told")
    assert await said(model, summary_of("a", "b")) == "2 told"


async def test_a_summary_does_not_use_up_a_turn() -> None:
    model = ScriptedModel([reply("first")])
    await said(model, summary_of("a"))
    assert await said(model, asked(0)) == "first"


async def test_a_summary_is_found_in_messages_of_every_role() -> None:
    told = Message(role="assistant", parts=(Text(text="Sum one."),))
    model = ScriptedModel([], summaries=["Sum one.", "Sum two."])
    assert await said(model, ModelRequest(messages=(told,), purpose="summary")) == "Sum two."

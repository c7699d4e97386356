"""What every model promises, scripted or real: one contract, played by each."""

from typing import Final, Literal, TypeAlias

import pytest
import trio

from pi_actors.core.messages import Call, Part, Text, Thinking, user_message
from pi_actors.models import (
    CallDelta,
    Model,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    ProviderModel,
    ScriptedModel,
    StreamDelta,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    call,
    call_raw,
    cut,
    fail,
    overflow,
    reply,
    stall,
)
from pi_actors.models.plays import Play
from tests.models.playback import Playback, answer_for

Kind: TypeAlias = Literal["scripted", "chat", "anthropic"]

TOOL: Final = ToolSpec(
    name="read",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
REQUEST: Final = ModelRequest(messages=(user_message("hello"),), tools=(TOOL,))


class Performer:
    """A model that will answer with the play it is given."""

    def __init__(self, kind: Kind, playback: Playback) -> None:
        self.kind: Kind = kind
        self.playback = playback
        self.deltas: list[StreamDelta] = []

    def model(self, play: Play) -> Model:
        if self.kind == "scripted":
            return ScriptedModel([play])
        self.playback.answers = [answer_for(play, self.kind)]
        if self.kind == "chat":
            return ProviderModel("openai:played", base_url=f"{self.playback.url}/v1", api_key="no key")
        return ProviderModel("anthropic:claude-opus-4-6", base_url=self.playback.url, api_key="no key")

    async def perform(self, play: Play) -> ModelResponse:
        return await self.model(play).stream(REQUEST, self.deltas.append)


@pytest.fixture(params=["scripted", "chat", "anthropic"])
def performer(request: pytest.FixtureRequest, playback: Playback) -> Performer:
    return Performer(request.param, playback)


def joined(deltas: list[StreamDelta]) -> list[tuple[str, str, str]]:
    """The deltas as (kind, name, text) of each part."""
    parts: dict[int, tuple[str, str, str]] = {}
    for delta in deltas:
        _, name, text = parts.get(delta.part, ("", "", ""))
        match delta:
            case TextDelta():
                parts[delta.part] = ("text", name, text + delta.text)
            case ThinkingDelta():
                parts[delta.part] = ("thinking", name, text + delta.text)
            case CallDelta():
                parts[delta.part] = ("call", name + delta.name, text + delta.arguments)
    assert sorted(parts) == list(range(len(parts)))
    return [parts[number] for number in sorted(parts)]


def told(parts: tuple[Part, ...]) -> list[tuple[str, str, str]]:
    """The parts in the form of ``joined``."""
    found: list[tuple[str, str, str]] = []
    for part in parts:
        match part:
            case Text():
                found.append(("text", "", part.text))
            case Thinking():
                found.append(("thinking", "", part.text))
            case Call():
                found.append(("call", part.name, part.arguments))
            case _:
                pytest.fail(f"a response has no {type(part).__name__}")
    return found


async def test_the_deltas_join_to_the_parts_which_stand_in_order(performer: Performer) -> None:
    play = reply("Let me look.", call("read", path="a"), call("read", path="b"), thinking="Two files.")
    response = await performer.perform(play)
    assert told(response.parts) == [
        ("thinking", "", "Two files."),
        ("text", "", "Let me look."),
        ("call", "read", '{"path":"a"}'),
        ("call", "read", '{"path":"b"}'),
    ]
    assert joined(performer.deltas) == told(response.parts)
    assert len(performer.deltas) > len(response.parts)
    assert [part.index for part in response.parts if isinstance(part, Call)] == [0, 1]
    assert response.stop == "calls"


async def test_an_answer_ends_with_stop_and_names_who_replied(performer: Performer) -> None:
    response = await performer.perform(reply("It says hello."))
    assert response.stop == "stop"
    assert response.provider
    assert response.model
    assert response.usage is not None
    assert response.usage.output > 0


async def test_an_answer_cut_by_the_output_limit_ends_with_length(performer: Performer) -> None:
    # X36
    response = await performer.perform(reply("", call_raw("read", '{"path":"a'), stop="length"))
    assert response.stop == "length"
    assert told(response.parts) == [("call", "read", '{"path":"a')]


async def test_a_stream_that_ends_without_its_finish_marker_has_no_stop(performer: Performer) -> None:
    # X50
    response = await performer.perform(cut("half an ans"))
    assert response.stop is None
    assert told(response.parts) == [("text", "", "half an ans")]


@pytest.mark.parametrize("arguments", ["[]", '"x"', "3", "null", "", '{"path": ', " {} "])
async def test_arguments_arrive_as_the_text_that_was_received(performer: Performer, arguments: str) -> None:
    # X35, X37. Anthropic streams an object: no text at all is its way to say that it is empty.
    response = await performer.perform(reply("", call_raw("read", arguments)))
    expected = "{}" if performer.kind == "anthropic" and arguments == "" else arguments
    assert told(response.parts) == [("call", "read", expected)]
    assert joined(performer.deltas) == told(response.parts)


async def test_an_id_that_the_provider_leaves_out_is_empty(performer: Performer) -> None:
    # X12
    response = await performer.perform(reply("", call_raw("read", "{}", wire_id="")))
    assert [part.wire_id for part in response.parts if isinstance(part, Call)] == [""]


async def test_an_id_that_the_provider_repeats_makes_two_calls(performer: Performer) -> None:
    # X38
    calls = [call_raw("read", f'{{"path":"{name}"}}', wire_id="read:0") for name in "ab"]
    response = await performer.perform(reply("", *calls))
    received = [part for part in response.parts if isinstance(part, Call)]
    assert [(part.index, part.wire_id, part.arguments) for part in received] == [
        (0, "read:0", '{"path":"a"}'),
        (1, "read:0", '{"path":"b"}'),
    ]


async def test_pairs_are_joined_across_deltas_and_lone_surrogates_replaced(performer: Performer) -> None:
    # X41, X44: the middle of the text, and the scripted model's sixth character, is inside the pair.
    response = await performer.perform(reply("12345\ud83d\ude00\udc00\x00ab\ud800"))
    assert told(response.parts) == [("text", "", "12345😀�ab�")]
    assert joined(performer.deltas) == told(response.parts)
    assert all(text == text.encode().decode() for _, _, text in joined(performer.deltas))


async def test_an_empty_stream_has_no_parts(performer: Performer) -> None:
    response = await performer.perform(reply())
    assert response.parts == ()


async def test_a_provider_that_is_overloaded_can_be_asked_again(performer: Performer) -> None:
    # X52
    with pytest.raises(ModelFailed) as failed:
        await performer.perform(fail("overloaded", retry_after_ms=40_000))
    assert failed.value.kind == "retryable"
    assert failed.value.retry_after_ms == 40_000
    assert "overloaded" in str(failed.value)


async def test_an_overload_inside_the_stream_can_be_asked_again(performer: Performer) -> None:
    # X51: it has no HTTP status.
    with pytest.raises(ModelFailed) as failed:
        await performer.perform(fail("overloaded", after="half an ans"))
    assert failed.value.kind == "retryable"
    assert joined(performer.deltas) == [("text", "", "half an ans")]


async def test_a_request_that_can_never_work_is_fatal(performer: Performer) -> None:
    with pytest.raises(ModelFailed) as failed:
        await performer.perform(fail("no such key", retryable=False))
    assert failed.value.kind == "fatal"


async def test_a_request_that_does_not_fit_is_an_overflow(performer: Performer) -> None:
    with pytest.raises(ModelFailed) as failed:
        await performer.perform(overflow())
    assert failed.value.kind == "overflow"


async def test_a_silent_stream_ends_when_it_is_cancelled(performer: Performer) -> None:
    model = performer.model(stall("half an ans"))
    with trio.fail_after(30), trio.CancelScope() as scope:

        def emit(delta: StreamDelta) -> None:
            performer.deltas.append(delta)
            if joined(performer.deltas) == [("text", "", "half an ans")]:
                scope.cancel()

        await model.stream(REQUEST, emit)
    assert scope.cancelled_caught
    if performer.kind != "scripted":
        with trio.fail_after(30):
            await performer.playback.client_left.wait()


async def test_usage_that_the_provider_does_not_report_is_unknown(performer: Performer) -> None:
    response = await performer.perform(reply("hello", usage="unreported"))
    always_reports_it = performer.kind == "anthropic"
    assert (response.usage is None) is not always_reports_it


async def test_the_same_request_twice_gives_the_same_response(performer: Performer) -> None:
    model = performer.model(reply("hello", call("read", path="a"), thinking="hm"))
    first = await model.stream(REQUEST, performer.deltas.append)
    shown = list(performer.deltas)
    performer.deltas.clear()
    assert await model.stream(REQUEST, performer.deltas.append) == first
    assert performer.deltas == shown


async def test_each_is_a_model(performer: Performer) -> None:
    model = performer.model(reply())
    assert isinstance(model, Model)
    assert model.name

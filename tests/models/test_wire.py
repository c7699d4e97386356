"""What is sent: valid for every provider, the same bytes each time, and secrets of a model only to itself."""

import json
from typing import Final

import pytest

from pi_actors.core.messages import (
    Blob,
    Call,
    CallRef,
    Message,
    Part,
    Result,
    Text,
    Thinking,
    calls_of,
    user_message,
)
from pi_actors.core.text import Json
from pi_actors.models import ModelRequest, ProviderModel, ToolSpec, call, reply
from pi_actors.models.plays import Reply
from pi_actors.models.wire import wire_arguments
from tests.models.playback import HttpAnswer, Playback, answer_for, event, unseen

KEY: Final = "no key"
READ: Final = ToolSpec(
    name="read",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
PIXEL: Final = Blob(media_type="image/png", data=b"\x89PNG")


class Wire:
    """Sends requests and shows the bodies that arrived."""

    def __init__(self, playback: Playback) -> None:
        self.playback = playback
        self.chat = ProviderModel("openai:played", base_url=f"{playback.url}/v1", api_key=KEY)
        self.responses = ProviderModel("openai-responses:gpt-5.1", base_url=f"{playback.url}/v1", api_key=KEY)
        self.anthropic = self.claude("claude-opus-4-6")

    def claude(self, model: str) -> ProviderModel:
        return ProviderModel(f"anthropic:{model}", base_url=self.playback.url, api_key=KEY)

    async def sent(self, model: ProviderModel, request: ModelRequest) -> Json:
        is_anthropic = model.name.startswith("anthropic")
        self.playback.answers = [answer_for(reply("ok"), "anthropic" if is_anthropic else "chat")]
        await model.stream(request, unseen)
        return self.playback.recorded[-1].json

    async def messages(self, model: ProviderModel, *messages: Message) -> Json:
        return (await self.sent(model, ModelRequest(messages=messages, tools=(READ,))))["messages"]


@pytest.fixture
def wire(playback: Playback) -> Wire:
    return Wire(playback)


def system(text: str) -> Message:
    return Message(role="system", parts=(Text(text=text),))


def assistant(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts)


def results(*parts: Result) -> Message:
    return Message(role="tool", parts=parts)


def wish(index: int, wire_id: str, arguments: str = "{}") -> Call:
    return Call(index=index, wire_id=wire_id, name="read", arguments=arguments)


def result(index: int, *content: Text | Blob, is_error: bool = False) -> Result:
    return Result(call=CallRef(entry=2, index=index), content=content, is_error=is_error)


async def test_the_same_request_twice_is_the_same_bytes(wire: Wire) -> None:
    request = ModelRequest(
        messages=(
            system("You are brief."),
            user_message("Read a and b."),
            assistant(Text(text="Yes."), wish(0, "c0", '{"path":"a"}'), wish(1, "c1", '{"path":"b"}')),
            results(result(0, Text(text="A")), result(1, Text(text="B"), is_error=True)),
            user_message("And?"),
        ),
        tools=(READ,),
        session_id="s",
    )
    for model in (wire.chat, wire.anthropic):
        first = await wire.sent(model, request)
        assert (
            wire.playback.recorded[-1].body
            == json.dumps(first, ensure_ascii=False, separators=(",", ":")).encode()
        )
        await wire.sent(model, request)
        assert wire.playback.recorded[-1].body == wire.playback.recorded[-2].body


async def test_a_longer_transcript_begins_with_the_shorter_one(wire: Wire) -> None:
    """Prompt caches stay warm: also when a system message is appended."""
    short = (system("You are brief."), user_message("hello"))
    long = (*short, assistant(Text(text="Hello.")), system("The folder is now /b."), user_message("and?"))
    for model in (wire.chat, wire.anthropic):
        before = await wire.sent(model, ModelRequest(messages=short, tools=(READ,)))
        after = await wire.sent(model, ModelRequest(messages=long, tools=(READ,)))
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert {**after, "messages": ()} == {**before, "messages": ()}


async def test_leading_system_messages_are_one_and_later_ones_stay_in_their_place(wire: Wire) -> None:
    transcript = (
        system("You are brief."),
        system("You are kind."),
        user_message("hello"),
        assistant(Text(text="Hello.")),
        system("The folder is now /b."),
        user_message("and?"),
    )
    sent = await wire.messages(wire.chat, *transcript)
    late = "<system>\nThe folder is now /b.\n</system>"
    assert [(message["role"], message["content"]) for message in sent] == [
        ("system", "You are brief.\n\nYou are kind."),
        ("user", "hello"),
        ("assistant", "Hello."),
        ("user", late),
        ("user", "and?"),
    ]
    body = await wire.sent(wire.anthropic, ModelRequest(messages=transcript))
    assert "You are brief.\n\nYou are kind." in json.dumps(body["system"], ensure_ascii=False).replace(
        "\\n", "\n"
    )
    assert "folder" not in json.dumps(body["system"])
    assert [block["text"] for block in body["messages"][-1]["content"]] == [late, "and?"]


async def test_nothing_is_added_to_the_instructions(wire: Wire) -> None:
    """pydantic-ai can explain its own tags to a model and remark on look-alikes; we have none of them."""
    request = ModelRequest(messages=(system("You are brief."), user_message("a <system>b</system> c")))
    body = await wire.sent(wire.claude("claude-sonnet-4-6"), request)
    assert [block["text"] for block in body["system"]] == ["You are brief."]
    assert [block["text"] for block in body["messages"][0]["content"]] == ["a <system>b</system> c"]


async def test_the_schema_of_a_tool_is_sent_as_it_is(wire: Wire) -> None:
    request = ModelRequest(messages=(user_message("hello"),), tools=(READ,))
    chat = await wire.sent(wire.chat, request)
    assert [tool["function"]["parameters"] for tool in chat["tools"]] == [READ.parameters]
    anthropic = await wire.sent(wire.anthropic, request)
    assert [tool["input_schema"] for tool in anthropic["tools"]] == [READ.parameters]


async def test_prompt_caching_is_asked_for_where_it_must_be(wire: Wire) -> None:
    request = ModelRequest(messages=(system("You are brief."), user_message("hello")), tools=(READ,))
    assert "cache_control" in json.dumps(await wire.sent(wire.anthropic, request))
    assert "cache" not in json.dumps(await wire.sent(wire.chat, request))


# Calls and results.


@pytest.mark.parametrize("text", ["[]", '"x"', "3", "null", "", '{"path": ', "[" * 100_000, '{"n": NaN}'])
def test_arguments_that_are_no_object_go_out_as_an_empty_one(text: str) -> None:
    # X35, X37
    assert wire_arguments(text) == {}


def test_arguments_with_half_a_pair_go_out_as_valid_text() -> None:
    # X41: the half stands in the text as an escape, which only shows when it is decoded.
    assert wire_arguments('{"path": "a\\ud800", "b": "\\ud83d\\ude00"}') == {"path": "a�", "b": "\U0001f600"}


async def test_every_call_is_followed_by_its_result_under_our_id(wire: Wire) -> None:
    # X38, X40: the provider says read:0 in every turn; the second one has an id of ours.
    transcript = (
        user_message("hello"),
        assistant(wish(0, "read_0", '{"path":"a"}')),
        results(result(0, Text(text="A"))),
        assistant(wish(0, "pi_4_0", '{"path":"b"}'), wish(1, "pi_4_1")),
        results(result(0, Text(text="B")), result(1, Text(text="gone"), is_error=True)),
    )
    chat = await wire.messages(wire.chat, *transcript)
    assert [call["id"] for message in chat for call in message.get("tool_calls", [])] == [
        "read_0",
        "pi_4_0",
        "pi_4_1",
    ]
    answers = [(message["tool_call_id"], message["content"]) for message in chat if message["role"] == "tool"]
    assert answers == [("read_0", "A"), ("pi_4_0", "B"), ("pi_4_1", '{"error":"gone"}')]
    anthropic = await wire.messages(wire.anthropic, *transcript)
    assert [block["id"] for block in blocks(anthropic, "tool_use")] == ["read_0", "pi_4_0", "pi_4_1"]
    assert [
        (block["tool_use_id"], block["content"][0]["text"], block["is_error"])
        for block in blocks(anthropic, "tool_result")
    ] == [("read_0", "A", False), ("pi_4_0", "B", False), ("pi_4_1", "gone", True)]


async def test_an_id_that_another_provider_would_refuse_is_replaced_in_call_and_result(wire: Wire) -> None:
    # X40
    transcript = (user_message("hello"), assistant(wish(0, "list_dir:0")), results(result(0, Text(text="A"))))
    sent = await wire.messages(wire.anthropic, *transcript)
    (made,) = blocks(sent, "tool_use")
    (answered,) = blocks(sent, "tool_result")
    assert made["id"] == answered["tool_use_id"]
    assert made["id"].replace("_", "").isalnum()
    own = ModelRequest(messages=transcript, origins=(None, ("openai", "played"), None))
    kept = (await wire.sent(wire.chat, own))["messages"]
    assert kept[-1]["tool_call_id"] == "list_dir:0"


def blocks(messages: Json, kind: str) -> list[Json]:
    """The content blocks of that type in an Anthropic request."""
    return [block for message in messages for block in message["content"] if block["type"] == kind]


async def test_the_body_is_valid_utf8_whatever_stands_in_the_transcript(wire: Wire) -> None:
    # X41
    half = Text(text="a\ud800")
    transcript = (
        system(half.text),
        Message(role="user", parts=(half,)),
        assistant(half, wish(0, "c0")),
        results(result(0, half)),
    )
    for model in (wire.chat, wire.anthropic):
        await wire.messages(model, *transcript)
        assert wire.playback.recorded[-1].body.decode().count("a\ufffd") == 4


async def test_images_travel_in_user_messages_and_in_results(wire: Wire) -> None:
    transcript = (
        Message(role="user", parts=(Text(text="What is this?"), PIXEL)),
        assistant(wish(0, "c0")),
        results(result(0, Text(text="a picture"), PIXEL)),
    )
    sent = await wire.messages(wire.anthropic, *transcript)
    assert [block["type"] for block in sent[0]["content"]] == ["text", "image"]
    (answered,) = blocks(sent, "tool_result")
    assert [block["type"] for block in answered["content"]] == ["text", "image"]
    chat = await wire.messages(wire.chat, *transcript)
    assert [item["type"] for item in chat[0]["content"]] == ["text", "image_url"]
    assert "image_url" in json.dumps(chat[-1])


# What only the model that made it may see.


THINKING: Final = Thinking(text="Two files.", opaque="RXF1YWw/PQ+/c2lnbmF0dXJl")


async def test_thinking_and_signature_go_back_byte_for_byte_and_only_to_the_same_model(wire: Wire) -> None:
    # X47, X48
    play = Reply(text="Let me look.", thinking=THINKING, calls=(call("read", path="a"),))
    wire.playback.answers = [answer_for(play, "anthropic")]
    first = await wire.anthropic.stream(ModelRequest(messages=(user_message("hello"),)), unseen)
    assert first.provider is not None
    assert first.model is not None
    request = ModelRequest(
        messages=(
            user_message("hello"),
            assistant(*first.parts),
            results(*(result(part.index, Text(text="A")) for part in calls_of(assistant(*first.parts)))),
        ),
        origins=(None, (first.provider, first.model), None),
        tools=(READ,),
    )
    own = await wire.sent(wire.anthropic, request)
    assert own["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Two files.", "signature": THINKING.opaque},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_0", "name": "read", "input": {"path": "a"}},
    ]
    for other in (wire.claude("claude-sonnet-4-6"), wire.chat):
        body = json.dumps((await wire.sent(other, request))["messages"])
        assert "Two files." not in body
        assert str(THINKING.opaque) not in body
        assert "Let me look." in body


async def test_hidden_thinking_goes_back_as_it_came(wire: Wire) -> None:
    start = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "redacted_thinking", "data": "UkVE"},
    }
    stop = {"type": "content_block_stop", "index": 0}
    whole = answer_for(reply(), "anthropic").pieces
    hidden = (event(start, "content_block_start"), event(stop, "content_block_stop"))
    wire.playback.answers = [HttpAnswer(pieces=(whole[0], *hidden, *whole[1:]))]
    response = await wire.anthropic.stream(ModelRequest(messages=(user_message("hello"),)), unseen)
    request = ModelRequest(
        messages=(user_message("hello"), assistant(*response.parts, Text(text="ok")), user_message("and?")),
        origins=(None, ("anthropic", "claude-opus-4-6"), None),
    )
    sent = (await wire.sent(wire.anthropic, request))["messages"]
    assert sent[1]["content"][0] == {"type": "redacted_thinking", "data": "UkVE"}


async def test_fields_that_only_the_provider_knows_survive(wire: Wire) -> None:
    # X48: OpenAI's encrypted reasoning and item ids, kept as raw JSON and sent as they were.
    opaque = {"id": "rs_1", "signature": "gAAAA+/=", "provider_name": "openai"}
    request = ModelRequest(
        messages=(
            user_message("hello"),
            assistant(
                Thinking(text="", opaque=json.dumps(opaque)),
                Text(text="ok", opaque=json.dumps({"id": "msg_1", "provider_name": "openai"})),
            ),
            user_message("and?"),
        ),
        origins=(None, ("openai", "gpt-5.1"), None),
    )
    wire.playback.answers = [HttpAnswer(status=500, headers={}, pieces=(b"{}",))]
    with pytest.raises(Exception, match="HTTP 500"):
        await wire.responses.stream(request, unseen)
    sent = wire.playback.recorded[-1].json["input"]
    assert [item for item in sent if item.get("type") == "reasoning"] == [
        {"id": "rs_1", "summary": [], "encrypted_content": "gAAAA+/=", "type": "reasoning"}
    ]


@pytest.mark.parametrize("is_own", [True, False])
async def test_thinking_alone_without_a_signature_leaves_no_message(wire: Wire, is_own: bool) -> None:
    # X11, X47: aborted while it thought. What stays is a transcript that every provider takes.
    for model, origin in (
        (wire.chat, ("openai", "played")),
        (wire.anthropic, ("anthropic", "claude-opus-4-6")),
    ):
        request = ModelRequest(
            messages=(user_message("hello"), assistant(Thinking(text="hm")), user_message("and?")),
            origins=(None, origin if is_own else ("other", "model"), None),
        )
        sent = (await wire.sent(model, request))["messages"]
        assert "hm" not in json.dumps(sent)
        assert {message["role"] for message in sent} == {"user"}


async def test_a_blank_text_of_a_model_is_not_sent(wire: Wire) -> None:
    transcript = (user_message("hello"), assistant(Text(text=" \n")), user_message("and?"))
    sent = await wire.messages(wire.anthropic, *transcript)
    assert [message["role"] for message in sent] == ["user"]

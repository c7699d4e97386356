"""Real providers' protocols, against llmock in a process of its own."""

import json
import sys
from typing import Final, Literal, TypeAlias

import pytest
import trio

from pi_actors.core.errors import UnknownName
from pi_actors.core.messages import Call, CallRef, Message, Result, Text, user_message
from pi_actors.core.text import Json
from pi_actors.models import (
    CallDelta,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    ProviderModel,
    StreamDelta,
    TextDelta,
    ToolSpec,
    make_model,
)
from tests.models.conftest import Llmock
from tests.models.playback import HttpAnswer, Playback, unseen

Protocol: TypeAlias = Literal["chat", "responses", "anthropic"]

PROTOCOLS: Final[tuple[Protocol, ...]] = ("chat", "responses", "anthropic")
KEY: Final = "correct horse battery staple"
READ: Final = ToolSpec(
    name="read",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
HELLO: Final = ModelRequest(messages=(user_message("Please read a.txt and b.txt."),), tools=(READ,))


class Conversation:
    """One model of llmock under one protocol, with a name that no other test uses."""

    def __init__(self, server: Llmock, protocol: Protocol, test: str) -> None:
        self.server = server
        self.protocol: Protocol = protocol
        self.model_name = test
        self.deltas: list[StreamDelta] = []
        name, path = {
            "chat": (f"openai:{test}", "/v1"),
            "responses": (f"openai-responses:{test}", "/v1"),
            "anthropic": (f"anthropic:{test}", "/anthropic"),
        }[protocol]
        self.model = ProviderModel(name, base_url=server.url + path, api_key=KEY)

    def behave(self, **behaviour: Json) -> None:
        self.server.behave(self.model_name, behaviour)

    async def ask(self, request: ModelRequest = HELLO) -> ModelResponse:
        with trio.fail_after(60):
            return await self.model.stream(request, self.deltas.append)

    async def failure(self) -> ModelFailed:
        with pytest.raises(ModelFailed) as failed:
            await self.ask()
        return failed.value

    def bodies(self) -> list[Json]:
        return [record["body"] for record in self.server.journal(self.model_name)]


@pytest.fixture(params=PROTOCOLS)
def conversation(request: pytest.FixtureRequest, llmock_server: Llmock) -> Conversation:
    test = request.node.name.replace("[", "-").replace("]", "")
    return Conversation(llmock_server, request.param, test)


async def test_an_answer_streams(conversation: Conversation) -> None:
    conversation.behave(type="reply", text="It says hello to you.")
    response = await conversation.ask()
    assert [part.text for part in response.parts if isinstance(part, Text)] == ["It says hello to you."]
    shown = [delta.text for delta in conversation.deltas if isinstance(delta, TextDelta)]
    assert len(shown) > 1
    assert "".join(shown) == "It says hello to you."
    assert response.stop == "stop"
    assert response.usage is not None
    assert response.usage.input > 0
    assert (response.provider, response.model) == (
        "anthropic" if conversation.protocol == "anthropic" else "openai",
        conversation.model_name,
    )


async def test_parallel_calls_arrive_in_order(conversation: Conversation) -> None:
    calls = [{"name": "read", "arguments": {"path": path}} for path in ("a.txt", "b.txt")]
    conversation.behave(type="reply", text="Let me look.", tool_calls=calls)
    response = await conversation.ask()
    received = [part for part in response.parts if isinstance(part, Call)]
    assert [(part.index, part.name, json.loads(part.arguments)) for part in received] == [
        (0, "read", {"path": "a.txt"}),
        (1, "read", {"path": "b.txt"}),
    ]
    assert len({part.wire_id for part in received}) == 2
    assert all(part.wire_id for part in received)
    names = [delta.name for delta in conversation.deltas if isinstance(delta, CallDelta) and delta.name]
    assert names == ["read", "read"]
    assert response.stop == "calls"


async def test_arguments_that_are_not_json_are_kept_and_go_out_as_an_object(
    conversation: Conversation,
) -> None:
    # X35
    conversation.behave(type="tool_fault", kind="malformed_arguments")
    response = await conversation.ask()
    (broken,) = [part for part in response.parts if isinstance(part, Call)]
    with pytest.raises(ValueError, match=r"."):
        json.loads(broken.arguments)
    result = Result(call=CallRef(entry=2, index=0), content=(Text(text="not JSON"),), is_error=True)
    answer = Message(role="assistant", parts=response.parts)
    messages = (*HELLO.messages, answer, Message(role="tool", parts=(result,)))
    await conversation.ask(ModelRequest(messages=messages, tools=(READ,)))
    assert sent_arguments(conversation.bodies()[-1], conversation.protocol) == [{}]


def sent_arguments(body: Json, protocol: Protocol) -> list[Json]:
    """The arguments of the calls in a request, decoded where they travel as text."""
    match protocol:
        case "chat":
            calls = [call for message in body["messages"] for call in message.get("tool_calls", [])]
            return [json.loads(call["function"]["arguments"]) for call in calls]
        case "responses":
            items = [item for item in body["input"] if item.get("type") == "function_call"]
            return [json.loads(item["arguments"]) for item in items]
        case "anthropic":
            blocks = [block for message in body["messages"] for block in message["content"]]
            return [block["input"] for block in blocks if block["type"] == "tool_use"]


async def test_a_rate_limit_is_retryable_after_the_time_asked_for_and_the_sdk_does_not_retry(
    conversation: Conversation,
) -> None:
    # X52
    conversation.behave(type="fail", status=429, retry_after=40, times=3)
    failed = await conversation.failure()
    assert (failed.kind, failed.retry_after_ms) == ("retryable", 40_000)
    assert len(conversation.bodies()) == 1


@pytest.mark.parametrize("status", [408, 409, 500, 503, 529])
async def test_a_provider_in_trouble_is_retryable(conversation: Conversation, status: int) -> None:
    conversation.behave(type="fail", status=status)
    failed = await conversation.failure()
    assert failed.kind == "retryable"
    assert f"HTTP {status}" in str(failed)


async def test_a_prompt_that_is_too_long_is_an_overflow(conversation: Conversation) -> None:
    said, code = {
        "anthropic": ("prompt is too long: 209 tokens > 100 maximum", None),
    }.get(
        conversation.protocol,
        ("This model's maximum context length is 100 tokens.", "context_length_exceeded"),
    )
    conversation.behave(type="fail", status=400, message=said, code=code)
    assert (await conversation.failure()).kind == "overflow"


async def test_a_refused_key_is_fatal_and_names_the_variable_but_not_the_key(
    conversation: Conversation,
) -> None:
    conversation.behave(type="fail", status=401, message=f"This key is wrong: {KEY}.")
    failed = await conversation.failure()
    assert failed.kind == "fatal"
    assert KEY not in str(failed)
    assert ("ANTHROPIC" if conversation.protocol == "anthropic" else "OPENAI") + "_API_KEY" in str(failed)
    assert failed.__cause__ is None


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_a_rejected_request_is_fatal(conversation: Conversation, status: int) -> None:
    conversation.behave(type="fail", status=status)
    assert (await conversation.failure()).kind == "fatal"


async def test_a_cut_stream_has_no_stop(conversation: Conversation) -> None:
    # X50: it ends cleanly, and neither the SDK nor pydantic-ai minds.
    conversation.behave(type="reply", text="one two three four five six")
    conversation.behave(type="stream_fault", kind="truncate", after_chunks=5)
    response = await conversation.ask()
    assert response.stop is None
    assert conversation.deltas


@pytest.mark.parametrize("kind", ["disconnect", "malformed"])
async def test_a_broken_stream_is_retryable_and_what_came_before_was_shown(
    conversation: Conversation, kind: str
) -> None:
    conversation.behave(type="reply", text="one two three four five six")
    conversation.behave(type="stream_fault", kind=kind, after_chunks=5)
    assert (await conversation.failure()).kind == "retryable"
    assert conversation.deltas


async def test_a_stalled_stream_is_cancelled_and_the_server_sees_it(conversation: Conversation) -> None:
    conversation.behave(type="reply", text="one two three four five six")
    conversation.behave(type="stream_fault", kind="stall", after_chunks=5, stall_seconds=600)
    with trio.fail_after(60), trio.CancelScope() as scope:

        def emit(delta: StreamDelta) -> None:
            conversation.deltas.append(delta)
            scope.cancel()

        await conversation.model.stream(HELLO, emit)
    assert scope.cancelled_caught
    with trio.fail_after(60):
        while not (records := conversation.server.journal(conversation.model_name)):
            await trio.lowlevel.checkpoint()
    assert [record["completed"] for record in records] == [False]
    client = conversation.model._provider._own_http_client
    assert client is not None
    assert client.is_closed


async def test_a_request_without_an_answer_is_cancelled_and_the_server_sees_it(playback: Playback) -> None:
    playback.answers = [HttpAnswer(then="stall")]
    model = ProviderModel("anthropic:claude-opus-4-6", base_url=playback.url, api_key=KEY)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(model.stream, HELLO, unseen)
            while not playback.recorded:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await playback.client_left.wait()


async def test_concurrent_requests_share_a_model(conversation: Conversation) -> None:
    responses: list[ModelResponse] = []

    async def ask() -> None:
        responses.append(await conversation.ask(ModelRequest(messages=(user_message("hello"),))))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
    assert [response.stop for response in responses] == ["stop"] * 4


async def test_a_server_that_is_not_there_is_retryable() -> None:
    with pytest.raises(ModelFailed) as failed:
        await ProviderModel("openai:m", base_url="http://127.0.0.1:1/v1").stream(HELLO, unseen)
    assert failed.value.kind == "retryable"


# Names.


def test_openai_speaks_responses_to_openai_and_chat_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def protocol(model: ProviderModel) -> str:
        return type(model._model).__name__

    assert protocol(ProviderModel("openai:gpt-5.1", api_key=KEY)) == "OpenAIResponsesModel"
    assert protocol(ProviderModel("openai-chat:gpt-5.1", api_key=KEY)) == "OpenAIChatModel"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert protocol(ProviderModel("openai:gpt-5.1")) == "OpenAIChatModel"
    assert protocol(ProviderModel("openai-responses:gpt-5.1")) == "OpenAIResponsesModel"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt-5.1", "write provider:model"),
        ("openai:", "write provider:model"),
        ("nosuch:gpt-5.1", "no provider 'nosuch'"),
        ("openai:gpt-5.1", "set the environment variable OPENAI_API_KEY"),
        ("anthropic:claude-opus-4-6", "set the environment variable ANTHROPIC_API_KEY"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_when_the_model_is_made(name: str, said: str) -> None:
    with pytest.raises(UnknownName, match=said):
        make_model(name)


def test_without_the_libraries_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pydantic_ai.providers", None)
        with pytest.raises(UnknownName, match=r"pip install 'pi-actors\[providers\]'"):
            make_model("openai:gpt-5.1")
    monkeypatch.setitem(sys.modules, "groq", None)
    with pytest.raises(UnknownName, match=r"the library of provider 'groq' is not installed.*pip install"):
        make_model("groq:played")


def test_an_option_that_the_provider_does_not_have_is_refused() -> None:
    with pytest.raises(UnknownName, match="takes no base_url"):
        ProviderModel("deepseek:deepseek-chat", base_url="http://127.0.0.1:1", api_key=KEY)


def test_a_known_model_has_a_context_window_and_an_unknown_one_has_none() -> None:
    assert ProviderModel("anthropic:claude-opus-4-6", api_key=KEY).context_window == 1_000_000
    assert ProviderModel("openai:played", base_url="http://127.0.0.1:1/v1").context_window is None
    given = ProviderModel("openai:played", base_url="http://127.0.0.1:1/v1", context_window=8_192)
    assert given.context_window == 8_192


# Settings.


def test_the_thinking_level_becomes_the_unified_setting() -> None:
    model = ProviderModel("anthropic:claude-opus-4-6", api_key=KEY)

    def thinking(level: str | None) -> Json:
        return model.request_settings(ModelRequest(messages=(), thinking=level)).get("thinking", "unset")

    assert [thinking(level) for level in (None, "off", "on", "high")] == ["unset", False, True, "high"]
    with pytest.raises(ModelFailed, match="no thinking level 'vast'") as failed:
        thinking("vast")
    assert failed.value.kind == "fatal"


def test_no_cache_is_asked_for_where_a_text_is_summarised() -> None:
    """F132: it is sent once."""
    model = ProviderModel("anthropic:claude-opus-4-6", api_key=KEY)
    settings = {
        purpose: model.request_settings(ModelRequest(messages=(), purpose=purpose))
        for purpose in ("turn", "summary")
    }
    assert settings["turn"].get("cache") is True
    assert "cache" not in settings["summary"]


def test_the_session_id_is_the_cache_key_at_openai_and_goes_nowhere_else() -> None:
    request = ModelRequest(messages=(), session_id="session-1")
    at_openai = ProviderModel("openai:gpt-5.1", api_key=KEY)
    elsewhere = ProviderModel("openai:gpt-5.1", api_key=KEY, base_url="http://127.0.0.1:1/v1")
    assert dict(at_openai.request_settings(request))["openai_prompt_cache_key"] == "session-1"
    assert "openai_prompt_cache_key" not in elsewhere.request_settings(request)


def test_settings_of_the_caller_come_last() -> None:
    model = ProviderModel("openai:gpt-5.1", api_key=KEY, settings={"cache": False, "temperature": 0.0})
    settings = model.request_settings(ModelRequest(messages=()))
    assert (settings.get("cache"), settings.get("temperature"), settings.get("max_retries")) == (
        False,
        0.0,
        0,
    )

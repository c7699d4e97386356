"""What comes back: usage in one convention, and every way a response can end."""

import json
from typing import Final

import pytest

from pi_actors.core.messages import Thinking, user_message
from pi_actors.core.text import Json
from pi_actors.models import ModelFailed, ModelRequest, ModelResponse, ProviderModel, fail, reply
from tests.models.playback import (
    CHAT_HEAD,
    HttpAnswer,
    Playback,
    answer_for,
    anthropic_start,
    chat_event,
    event,
    unseen,
)

HELLO: Final = ModelRequest(messages=(user_message("hello"),))


class Source:
    """Plays events of either protocol to a model that receives them."""

    def __init__(self, playback: Playback) -> None:
        self.playback = playback

    async def chat(self, *events: bytes) -> ModelResponse:
        self.playback.answers = [HttpAnswer(pieces=events)]
        model = ProviderModel("openai:gpt-5.1", base_url=f"{self.playback.url}/v1", api_key="no key")
        return await model.stream(HELLO, unseen)

    async def responses(self, *events: bytes) -> ModelResponse:
        created = responses_event("created", response=responses_body("in_progress"))
        self.playback.answers = [HttpAnswer(pieces=(created, *events))]
        base_url = f"{self.playback.url}/v1"
        model = ProviderModel("openai-responses:gpt-5.1", base_url=base_url, api_key="no key")
        return await model.stream(HELLO, unseen)

    async def anthropic(self, answer: HttpAnswer, asked: str = "claude-opus-4-6") -> ModelResponse:
        self.playback.answers = [answer]
        model = ProviderModel(f"anthropic:{asked}", base_url=self.playback.url, api_key="no key")
        return await model.stream(HELLO, unseen)


@pytest.fixture
def source(playback: Playback) -> Source:
    return Source(playback)


async def test_input_counts_every_token_sent_whatever_the_provider_calls_input(source: Source) -> None:
    """Anthropic counts cached tokens apart from its input, OpenAI within it."""
    usage = (await source.anthropic(answer_for(reply("hello"), "anthropic"))).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output) == (1_110, 1_000, 100, 5)
    reported: Json = {
        "prompt_tokens": 1_110,
        "completion_tokens": 5,
        "total_tokens": 1_115,
        "prompt_tokens_details": {"cached_tokens": 1_000},
    }
    usage = (
        await source.chat(
            chat_event({"content": "hello"}, None),
            chat_event({}, "stop"),
            event({**CHAT_HEAD, "choices": [], "usage": reported}),
        )
    ).usage
    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output) == (1_110, 1_000, 0, 5)


async def test_a_response_has_its_price(source: Source) -> None:
    usage = (await source.anthropic(answer_for(reply("hello"), "anthropic"))).usage
    assert usage is not None
    # 10 plain tokens at $5, 100 written to the cache at $6.25, 1,000 read at $0.5, 5 out at $25.
    assert usage.cost == "0.0013"


async def test_an_alias_costs_what_the_model_behind_it_costs(source: Source) -> None:
    response = await source.anthropic(answer_for(reply("hello"), "anthropic"), asked="our-favourite")
    assert response.usage is not None
    assert response.usage.cost == "0.0013"
    assert response.model == "our-favourite"


async def test_what_a_failed_request_has_used_is_told(source: Source) -> None:
    with pytest.raises(ModelFailed) as failed:
        await source.anthropic(answer_for(fail("overloaded", after="half an ans"), "anthropic"))
    assert failed.value.usage is not None
    assert failed.value.usage.input == 1_110


async def test_a_content_filter_is_fatal_and_its_usage_is_told(source: Source) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 5}}
    pieces = (
        event(anthropic_start(), "message_start"),
        event(end, "message_delta"),
        event({"type": "message_stop"}, "message_stop"),
    )
    with pytest.raises(ModelFailed, match="content filter stopped the response") as failed:
        await source.anthropic(HttpAnswer(pieces=pieces))
    assert failed.value.kind == "fatal"
    assert failed.value.usage is not None
    with pytest.raises(ModelFailed, match="content filter stopped the response") as failed:
        await source.chat(chat_event({"content": "half"}, None), chat_event({}, "content_filter"))
    assert failed.value.kind == "fatal"


async def test_calls_decide_over_a_finish_reason_that_forgot_them(source: Source) -> None:
    function = {"name": "read", "arguments": "{}"}
    wish = {"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": function}]}
    response = await source.chat(chat_event(wish, None), chat_event({}, "stop"))
    assert response.stop == "calls"
    response = await source.chat(chat_event({"content": "hello"}, None), chat_event({}, "tool_calls"))
    assert response.stop == "stop"


async def test_a_finish_reason_that_nobody_knows_is_no_finish(source: Source) -> None:
    response = await source.chat(chat_event({"content": "hello"}, None), chat_event({}, "vanished"))
    assert response.stop is None


async def test_a_signature_that_comes_after_its_part_has_ended_is_kept(source: Source) -> None:
    """OpenAI's reasoning: two summaries stream, then the encrypted whole belongs to the first."""
    response = await source.responses(
        responses_event("output_item.added", output_index=0, item=reasoning()),
        *(summary_event(place, text) for place, text in enumerate(["First.", "Second."])),
        responses_event("output_item.done", output_index=0, item=reasoning(encrypted_content="gAAAA+/=")),
        responses_event("completed", response=responses_body("completed")),
    )
    first, second = response.parts
    assert isinstance(first, Thinking)
    assert isinstance(second, Thinking)
    assert (first.text, second.text) == ("First.", "Second.")
    assert json.loads(first.opaque or "") == {
        "id": "rs_1",
        "signature": "gAAAA+/=",
        "provider_name": "openai",
    }
    assert response.stop == "stop"


def responses_event(name: str, **fields: Json) -> bytes:
    prefixed = f"response.{name}"
    return event({"type": prefixed, "sequence_number": 1, **fields}, prefixed)


def summary_event(place: int, text: str) -> bytes:
    where = {"item_id": "rs_1", "output_index": 0, "summary_index": place}
    return responses_event("reasoning_summary_text.delta", **where, delta=text)


def reasoning(**fields: Json) -> Json:
    return {"id": "rs_1", "type": "reasoning", "summary": [], **fields}


def responses_body(status: str) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.1",
        "status": status,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }

"""How errors are classified, whichever library raised them."""

import json
from datetime import UTC, datetime
from typing import Final

import anthropic
import httpx
import httpx2
import openai
import pytest
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelHTTPError,
    ModelRequestTimeout,
    UnexpectedModelBehavior,
    UserError,
)

from pi_actors.core.messages import Usage
from pi_actors.core.text import Json
from pi_actors.models import ModelFailed
from pi_actors.models.failures import model_failed, retry_after_ms

MODEL: Final = "openai:played"
REQUEST: Final = httpx2.Request("POST", "http://127.0.0.1/v1")


def failed(error: Exception) -> ModelFailed:
    return model_failed(error, model=MODEL, key_variable="OPENAI_API_KEY")


def kind(error: Exception) -> str:
    return failed(error).kind


def http(status: int, body: Json = None, headers: dict[str, str] | None = None) -> ModelHTTPError:
    return ModelHTTPError(status, "played", body, headers=headers)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_what_may_pass_is_retryable(status: int) -> None:
    assert kind(http(status)) == "retryable"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 422])
def test_what_will_not_pass_is_fatal(status: int) -> None:
    assert kind(http(status)) == "fatal"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens"),
        (400, "prompt is too long: 209000 tokens > 200000 maximum"),
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed (8)"),
        (422, "Please reduce the length of the messages"),
        (413, "Request Entity Too Large"),
        (429, "Request too large for played on tokens per min"),
    ],
)
def test_a_request_that_does_not_fit_is_an_overflow_under_every_status(status: int, message: str) -> None:
    assert kind(http(status, {"error": {"message": message}})) == "overflow"


def test_a_code_for_overflow_needs_no_words() -> None:
    assert kind(http(400, {"code": "context_length_exceeded", "message": "no"})) == "overflow"


def test_a_server_in_trouble_is_not_an_overflow_whatever_it_says() -> None:
    assert kind(http(500, {"error": {"message": "context window service failed"}})) == "retryable"


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_error"])
def test_an_empty_account_is_fatal_although_it_comes_as_a_rate_limit(code: str) -> None:
    failure = failed(http(429, {"error": {"code": code, "message": "You exceeded your quota"}}))
    assert failure.kind == "fatal"
    assert "top it up" in str(failure)


# Inside a stream there is no status (X51).


@pytest.mark.parametrize("code", ["overloaded_error", "rate_limit_error", "api_error", "server_error"])
def test_an_error_inside_the_stream_is_retryable(code: str) -> None:
    body = {"type": "error", "error": {"type": code, "message": "Overloaded"}}
    ok = httpx2.Response(200, request=REQUEST)
    assert kind(anthropic.APIStatusError("Overloaded", response=ok, body=body)) == "retryable"
    assert kind(openai.APIError("Overloaded", request=REQUEST, body=body["error"])) == "retryable"


@pytest.mark.parametrize("code", ["invalid_request_error", "authentication_error", "permission_error"])
def test_a_rejection_inside_the_stream_is_fatal(code: str) -> None:
    body = {"type": code, "message": "no"}
    assert kind(openai.APIError("no", request=REQUEST, body=body)) == "fatal"


# The network and broken data.


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadTimeout("", request=httpx.Request("POST", "http://127.0.0.1")),
        httpx.RemoteProtocolError("peer closed connection"),
        httpx2.ReadTimeout("silent"),
        httpx2.RemoteProtocolError("peer closed connection"),
        httpx2.ConnectError("refused"),
        openai.APIConnectionError(request=REQUEST),
        openai.APITimeoutError(request=REQUEST),
        ConnectionResetError("reset"),
        TimeoutError(),
        json.JSONDecodeError("Expecting value", "{", 1),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        UnexpectedModelBehavior("Streamed response ended without content or tool calls"),
        ModelAPIError("played", "Failed to decode response as JSON"),
        ModelRequestTimeout("played", 5.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_connection_and_broken_data_are_retryable(error: Exception) -> None:
    failure = failed(error)
    assert failure.kind == "retryable"
    assert str(failure).startswith("openai:played: the request failed and may be tried again")
    assert not str(failure).endswith(": ")


@pytest.mark.parametrize(
    "error", [ContentFilterError("filtered"), UserError("no such setting"), KeyError("choices")]
)
def test_what_nobody_foresaw_is_fatal(error: Exception) -> None:
    assert kind(error) == "fatal"


def test_a_failure_is_not_translated_twice() -> None:
    failure = ModelFailed("overflow", "full")
    assert failed(failure) is failure


def test_of_a_group_the_error_that_forbids_a_retry_decides() -> None:
    assert kind(ExceptionGroup("two", [httpx2.ReadTimeout("silent"), http(401)])) == "fatal"
    nested = ExceptionGroup("outer", [ExceptionGroup("inner", [http(429, headers={"Retry-After": "2"})])])
    assert (failed(nested).kind, failed(nested).retry_after_ms) == ("retryable", 2_000)


def test_usage_so_far_is_kept() -> None:
    assert model_failed(http(529), model=MODEL, usage=Usage(input=3)).usage == Usage(input=3)


# When to come back (X52).


NOW: Final = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "milliseconds"),
    [
        ({"Retry-After": "40"}, 40_000),
        ({"retry-after": "0.25"}, 250),
        ({"Retry-After": "Mon, 30 Nov 2026 12:00:40 GMT"}, 40_000),
        ({"Retry-After": "Mon, 30 Nov 2026 11:59:00 GMT"}, 0),
        ({"Retry-After": "Mon Nov 30 12:00:40 2026"}, 40_000),
        ({"retry-after-ms": "1500", "retry-after": "40"}, 1_500),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], milliseconds: int | None) -> None:
    assert retry_after_ms(http(429, headers=headers), now=NOW) == milliseconds


def test_retry_after_is_found_on_the_response_of_an_sdk_error() -> None:
    response = httpx2.Response(429, headers={"Retry-After": "40"}, request=REQUEST)
    error = openai.RateLimitError("slow down", response=response, body=None)
    assert (failed(error).kind, failed(error).retry_after_ms) == ("retryable", 40_000)


def test_only_a_retryable_failure_says_when_to_come_back() -> None:
    assert failed(http(401, headers={"Retry-After": "40"})).retry_after_ms is None


# What a message says, and what it must not.


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "check the model's name"), (402, "top it up")],
)
def test_a_fatal_failure_says_what_to_do(status: int, advice: str) -> None:
    failure = failed(http(status, {"error": {"message": "the provider's words"}}))
    assert advice in str(failure)
    assert str(failure).endswith("the provider's words")


@pytest.mark.parametrize(
    "words",
    [
        "Incorrect API key provided: sk-proj-abc123DEF456_-x.",
        "bad header Authorization: Bearer abc.def-ghi",
        "GET https://host/v1?key=AIzaSyA0123456789 failed",
        "https://user:hunter22@host refused",
        "token=abcdef123456&x=1 expired",
        "the key was my-own-secret",
    ],
)
def test_no_key_stands_in_a_message(words: str) -> None:
    failure = model_failed(http(400, {"error": {"message": words}}), model=MODEL, secrets=["my-own-secret"])
    secrets = (
        "abc123DEF456",
        "abc.def-ghi",
        "AIzaSyA0123456789",
        "hunter22",
        "abcdef123456",
        "my-own-secret",
    )
    assert not any(secret in str(failure) for secret in secrets)
    assert "[key]" in str(failure)


def test_a_message_is_one_line_of_bounded_length() -> None:
    failure = failed(http(500, {"error": {"message": "a\nb\x00\ud800 " + "x" * 10_000}}))
    assert "\n" not in str(failure)
    assert "\x00" not in str(failure)
    assert len(str(failure)) < 800
    str(failure).encode()

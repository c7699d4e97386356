"""Where errors of providers, networks and protocols become ModelFailed, and nowhere else.

Errors are recognised by what they carry and by the names of their classes, so no SDK is imported
here and none has to be installed. What a message says was said by the provider, with every key
taken out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, cast

import msgspec

from pi_actors.core.messages import Usage
from pi_actors.core.text import Json, normalise
from pi_actors.models.protocol import ModelFailed

FailureKind: TypeAlias = Literal["retryable", "overflow", "fatal"]

DETAIL_CHARACTERS_MAX: Final = 600

RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429})
QUOTA_CODES: Final = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "exceeded_current_quota_error"}
)
FATAL_CODES: Final = frozenset(
    {
        "authentication_error",
        "content_filter",
        "invalid_api_key",
        "invalid_request_error",
        "model_not_found",
        "not_found_error",
        "permission_error",
    }
)
RETRYABLE_NAMES: Final = frozenset(
    {
        # The network: httpx and httpx2, the SDKs' and pydantic-ai's names for it, and the system's.
        "TransportError",
        "StreamError",
        "APIConnectionError",
        "ModelConnectionError",
        "ModelRequestTimeout",
        "OSError",
        "EOFError",
        # What the provider says of itself.
        "ModelRateLimitError",
        "ModelUnavailableError",
        "ModelServerError",
        # A chunk or a body that cannot be read.
        "JSONDecodeError",
        "UnicodeDecodeError",
        "DecodingError",
        "ValidationError",
        "APIResponseValidationError",
        "UnexpectedModelBehavior",
        "ModelAPIError",
        "APIError",
    }
)
FATAL_NAMES: Final = frozenset({"ContentFilterError", "ModelRequestRejectedError", "ModelQuotaExceededError"})

_TOO_LARGE = re.compile(
    r"context.?(length|window|size)|maximum context|prompt is too long|input is too long"
    r"|too many (input )?tokens|input token count|reduce the length|request.?too.?large",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|key|api)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}|\beyJ[\w-]{10,}[\w.-]*"
    r"|(?<=bearer )\S+|(?<=://)[^\s/@]+(?=@)"
    r"|(?<=key=)[^\s&\"']+|(?<=token=)[^\s&\"']+",
    re.IGNORECASE,
)


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """What an error says. ``status`` is an HTTP status from 400 on, ``code`` the provider's own words."""

    status: int | None
    codes: frozenset[str]
    detail: str
    names: frozenset[str]


def model_failed(
    error: Exception,
    *,
    model: str,
    key_variable: str = "",
    secrets: Iterable[str] = (),
    usage: Usage | None = None,
) -> ModelFailed:
    """Return *error* as the failure of a request to *model*.

    Of a group, the error that forbids a retry decides. ``key_variable`` names the environment
    variable that holds the key, for the message; ``secrets`` never stand in it.
    """
    if isinstance(error, ModelFailed):
        return error
    failures = [(leaf, complaint(leaf)) for leaf in _leaves(error)]
    leaf, said = min(failures, key=lambda pair: _SEVERITY[kind_of(pair[1])])
    kind = kind_of(said)
    detail = _redacted(said.detail, secrets)
    return ModelFailed(
        kind,
        f"{model}: {_headline(said, kind, key_variable)}: {detail}",
        retry_after_ms=retry_after_ms(leaf) if kind == "retryable" else None,
        usage=usage,
    )


_SEVERITY: Final[dict[FailureKind, int]] = {"fatal": 0, "overflow": 1, "retryable": 2}


def kind_of(said: Complaint) -> FailureKind:
    """Whether trying again can help, and with what.

    Overflow is looked for first, because providers send it under several statuses. Then the
    provider's own codes, which know more than a status (no credit left also comes as 429, and
    errors inside a stream have no status at all), the status, and the class of the error.
    """
    if _is_overflow(said):
        return "overflow"
    if said.codes & QUOTA_CODES or said.status == 402 or "ModelQuotaExceededError" in said.names:
        return "fatal"
    if said.status is not None:
        return "retryable" if said.status in RETRYABLE_STATUSES or said.status >= 500 else "fatal"
    if said.codes & FATAL_CODES or said.names & FATAL_NAMES:
        return "fatal"
    return "retryable" if said.names & RETRYABLE_NAMES else "fatal"


def _is_overflow(said: Complaint) -> bool:
    if said.status == 413 or "ModelContextWindowExceededError" in said.names:
        return True
    if said.codes & {"context_length_exceeded", "request_too_large", "exceed_context_size_error"}:
        return True
    may_be = said.status in {None, 400, 422, 429} and "OSError" not in said.names
    return may_be and _TOO_LARGE.search(said.detail) is not None


def _headline(said: Complaint, kind: FailureKind, key_variable: str) -> str:
    status = f" (HTTP {said.status})" if said.status is not None else ""
    if kind == "overflow":
        return f"the request is larger than the context window{status}"
    if kind == "retryable":
        return f"the request failed and may be tried again{status}"
    if said.codes & QUOTA_CODES or said.status == 402 or "ModelQuotaExceededError" in said.names:
        return f"the account has no credit or quota left{status}; top it up or use another model"
    if said.status in {401, 403} or said.codes & {"authentication_error", "invalid_api_key"}:
        where = f" in the environment variable {key_variable}" if key_variable else ""
        return f"the provider refused the key{status}; check the key{where} and what it may be used for"
    if said.status == 404 or said.codes & {"model_not_found", "not_found_error"}:
        return f"the provider does not know this{status}; check the model's name and the base URL"
    if "ContentFilterError" in said.names or "content_filter" in said.codes:
        return "the provider's content filter stopped the response"
    if said.status is not None or said.codes:
        return f"the provider rejected the request{status}"
    return "the request failed"


# Reading an error.


def complaint(error: BaseException) -> Complaint:
    """What *error* says, whichever library it is from."""
    body = _reported(getattr(error, "body", None))
    codes = {
        getattr(error, "provider_error_code", None),
        getattr(error, "provider_error_type", None),
        getattr(error, "code", None),
        getattr(error, "type", None),
        body.get("code"),
        body.get("type"),
    }
    message = body.get("message")
    detail = message if isinstance(message, str) and message else str(error) or type(error).__name__
    return Complaint(
        status=_status(error),
        codes=frozenset(code.lower() for code in codes if isinstance(code, str)),
        detail=detail,
        names=frozenset(ancestor.__name__ for ancestor in type(error).__mro__),
    )


def retry_after_ms(error: BaseException, *, now: datetime | None = None) -> int | None:
    """How long the provider asks to wait, from its headers or its words; None if it does not say.

    ``Retry-After`` is read as seconds, whole or not, and as an HTTP date; ``now`` is for the date.
    """
    headers = _headers(error)
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is None and (seconds := _number(headers.get("retry-after"))) is not None:
        milliseconds = seconds * 1000
    if milliseconds is None and (date := headers.get("retry-after")) is not None:
        milliseconds = _milliseconds_until(date, now or datetime.now(UTC))
    if milliseconds is None and isinstance(seconds := getattr(error, "retry_after", None), int | float):
        milliseconds = seconds * 1000
    return None if milliseconds is None else max(0, round(milliseconds))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for inner in group.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int):
            return status if status >= 400 else None
    return None


def _headers(error: BaseException) -> dict[str, str]:
    found = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(found, Mapping):
        return {}
    headers = cast("Mapping[str, str]", found)
    return {name.lower(): value for name, value in headers.items()}


def _reported(body: Json) -> Mapping[str, Json]:
    """The object in an error body that describes the error; some wrap it in ``error``."""
    if not isinstance(body, Mapping):
        return {}
    outer = cast("Mapping[str, Json]", body)
    inner: Json = outer.get("error")
    return cast("Mapping[str, Json]", inner) if isinstance(inner, Mapping) else outer


def _number(text: str | None) -> float | None:
    if text is None or re.fullmatch(r"\s*\d{1,12}(\.\d*)?\s*", text) is None:
        return None
    return float(text)


def _milliseconds_until(date: str, now: datetime) -> float | None:
    from email.utils import parsedate_to_datetime  # needed rarely, and slow to import

    try:
        instant = parsedate_to_datetime(date)
    except ValueError:
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - now).total_seconds() * 1000


def _redacted(detail: str, secrets: Iterable[str]) -> str:
    """*detail* on one line, without keys, and not longer than a message should be."""
    text = " ".join(normalise(detail).split())
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[key]")
    text = _KEY.sub("[key]", text)
    return text if len(text) <= DETAIL_CHARACTERS_MAX else text[:DETAIL_CHARACTERS_MAX] + "…"

"""Answers as JSON, and the bodies of requests: read within limits of size and time, or refused."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Final, TypeVar

import msgspec
import trio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from pi_actors.core.text import Json
from pi_actors.server.connections import connection_of
from pi_actors.server.refusals import Refused

BODY_BYTES_MAX: Final = 8 * 1024 * 1024

SECURITY_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""On every answer that does not say otherwise."""

JSON_TYPE: Final = "application/json"
DIGITS_MAX: Final = 18

B = TypeVar("B", bound=msgspec.Struct)


def json_answer(value: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says *value*."""
    body = msgspec.json.encode(value)
    return Response(body, status, media_type=JSON_TYPE, headers={**(headers or {})})


def refusal_answer(refused: Refused) -> Response:
    """An answer that says why there is none."""
    told = {"error": {"code": refused.code, "message": refused.message}}
    return json_answer(told, status=refused.status, headers=refused.headers)


async def body_of(request: Request, kind: type[B]) -> B:
    """The request's JSON body.

    Raises:
        Refused: it is not JSON, not what *kind* says, too large or too slow.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON_TYPE:
        raise Refused(415, "not_json", "send the body as JSON, with Content-Type: application/json")
    raw = await _read(request)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise Refused(400, "bad_body", f"the body is not what is expected here: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "bad_json", f"the body is not JSON: {error}") from None


def number_of(request: Request, name: str, default: int) -> int:
    """A parameter of the query that is a position or a count.

    Raises:
        Refused: it is something else.
    """
    given = request.query_params.get(name)
    number = default if given is None else whole_number(given)
    if number is None:
        raise Refused(400, "bad_parameter", f"{name} must be a whole number")
    return number


def whole_number(text: str) -> int | None:
    """*text* as a number that is not negative and that a store can hold; None where it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None


async def _read(request: Request) -> bytes:
    too_large = Refused(413, "body_too_large", f"the body is larger than {BODY_BYTES_MAX} bytes")
    said = request.headers.get("content-length", "0")
    if said.isdecimal() and int(said) > BODY_BYTES_MAX:
        raise too_large
    read = bytearray()
    body_s = connection_of(request.scope).limits.body_s
    with trio.move_on_after(body_s) as patience:
        try:
            async with aclosing(request.stream()) as pieces:
                async for piece in pieces:
                    read += piece
                    if len(read) > BODY_BYTES_MAX:
                        raise too_large
        except ClientDisconnect:
            raise Refused(400, "bad_body", "the body ended before its end") from None
    if patience.cancelled_caught:
        raise Refused(408, "body_too_slow", f"the body took longer than {body_s} s")
    return bytes(read)

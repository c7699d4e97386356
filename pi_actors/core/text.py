"""What may enter the log: text is normalised once, values are checked once.

msgpack and JSON cannot carry lone surrogates and PostgreSQL text no NUL, so both go where text
enters. Everything after that can rely on it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from pi_actors.core.errors import InvalidValue

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, a list of them or a dict with str keys."""

VALUE_BYTES_MAX: Final = 8 * 1024 * 1024
DEPTH_MAX: Final = 100
INTEGER_BITS_MAX: Final = 64

_UNCLEAN = re.compile("[\x00\ud800-\udfff]")


def normalise(text: str) -> str:
    """Return *text* without NUL and with every lone surrogate as U+FFFD; pairs are joined."""
    # ASCII is told at once, however long it is; the pattern looks at each character.
    if (text.isascii() and "\x00" not in text) or _UNCLEAN.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", "")


def split_surrogate(text: str) -> tuple[str, str]:
    """Split off a trailing high surrogate, which may pair with the start of the next delta."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        return text[:-1], text[-1]
    return text, ""


def clean_text(text: str, what: str) -> str:
    """Return *text* normalised.

    Raises:
        InvalidValue: it is longer than 8 MiB in UTF-8.
    """
    clean = normalise(text)
    if len(clean) * 4 > VALUE_BYTES_MAX and len(clean.encode()) > VALUE_BYTES_MAX:
        raise InvalidValue(
            f"{what} is larger than {VALUE_BYTES_MAX} bytes; store it elsewhere and refer to it"
        )
    return clean


def clean_json(value: object, what: str) -> Json:
    """Return a private, normalised copy of *value*: what the caller mutates later is not stored.

    Raises:
        InvalidValue: *value* is not JSON, not finite, nested deeper than 100 or beyond 8 MiB.
    """
    budget = [VALUE_BYTES_MAX]
    return _clean(value, what, 0, budget)


def _clean(value: object, what: str, depth: int, budget: list[int]) -> Json:
    if depth > DEPTH_MAX:
        raise InvalidValue(f"{what} is nested deeper than {DEPTH_MAX}")
    budget[0] -= 1
    cleaned: Json
    match value:
        case str():
            cleaned = normalise(value)
            budget[0] -= len(cleaned) if cleaned.isascii() else len(cleaned.encode())
        case None | bool():
            cleaned = value
        case int():
            if value.bit_length() > INTEGER_BITS_MAX - 1:
                raise InvalidValue(
                    f"{what} has an integer of more than {INTEGER_BITS_MAX} bits; send it as text"
                )
            cleaned = value
        case float():
            if not math.isfinite(value):
                raise InvalidValue(f"{what} has the number {value}, which JSON cannot carry")
            cleaned = value
        case dict() | Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            cleaned = {_key(key, what): _clean(item, what, depth + 1, budget) for key, item in pairs}
        case list() | tuple():
            items = cast("Sequence[object]", value)
            cleaned = [_clean(item, what, depth + 1, budget) for item in items]
        case _:
            raise InvalidValue(f"{what} has a value of type {type(value).__name__}, which is not JSON")
    if budget[0] < 0:
        raise InvalidValue(
            f"{what} is larger than {VALUE_BYTES_MAX} bytes; store it elsewhere and refer to it"
        )
    return cleaned


def _key(key: object, what: str) -> str:
    if not isinstance(key, str):
        raise InvalidValue(f"{what} has a key of type {type(key).__name__}; JSON keys are text")
    return normalise(key)

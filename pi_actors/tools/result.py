"""What a tool gives back, made into parts of a transcript."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from typing import Final, TypeAlias, cast

import msgspec

from pi_actors.core.errors import InvalidValue
from pi_actors.core.messages import Blob, Text, Usage
from pi_actors.core.parts import clean_part
from pi_actors.core.text import Json, clean_json, clean_text

Content: TypeAlias = tuple[Text | Blob, ...]


# A dataclass and not a Struct: `content` is positional, and a Struct cannot have only some so.
@dataclass(frozen=True)
class ToolResult:
    """A tool's result. ``content``: text, parts (Text, Blob), or any value that JSON can carry.

    ``is_error`` marks a failure that the model should read; the call itself is completed.
    ``details`` are JSON for people and programs, never shown to the model. ``usage`` is what the
    call cost. ``add_tools`` are names offered from the next request on. ``terminate``: when every
    result of a round says so, the run ends without asking the model again.
    """

    content: Json
    _: KW_ONLY
    is_error: bool = False
    details: Json = None
    usage: Usage | None = None
    add_tools: Sequence[str] = ()
    terminate: bool = False

    @property
    def parts(self) -> Content:
        """The content as parts; no part at all where it is empty.

        Raises:
            InvalidValue: the content is not text, parts or JSON, or beyond the limits of a value.
        """
        return _parts(self.content)


class Verdict(Enum):
    """What a reconciler answers when it has no result to give.

    not_done: the call had no effect, so it is run. unknown: nobody can tell.
    """

    NOT_DONE = "not_done"
    UNKNOWN = "unknown"


NOT_DONE: Final = Verdict.NOT_DONE
UNKNOWN: Final = Verdict.UNKNOWN


def as_result(value: object) -> ToolResult:
    """Return what a tool function returned as a result that can be stored: its content is parts.

    Raises:
        InvalidValue: it is neither text, parts, a ToolResult nor a value that JSON can carry, or a
            verdict, which only a reconciler may give.
    """
    if isinstance(value, Verdict):
        raise InvalidValue(f"a tool returned {value}; only its reconcile= function may")
    result = value if isinstance(value, ToolResult) else ToolResult(value)
    if result.usage is not None and not isinstance(cast(object, result.usage), Usage):
        raise InvalidValue(f"the usage of a result is a {type(result.usage).__name__}; it must be a Usage")
    for name in ("is_error", "terminate"):
        if not isinstance(getattr(result, name), bool):
            raise InvalidValue(f"{name} of a result is {getattr(result, name)!r}; it must be True or False")
    return replace(
        result,
        content=result.parts,
        details=clean_json(result.details, "the details of a tool's result"),
        add_tools=_names(result.add_tools),
    )


def _parts(content: object) -> Content:
    match content:
        case None | "":
            return ()
        case str():
            return (Text(text=clean_text(content, "a tool's result")),)
        case Text() | Blob():
            return (clean_part(content, "a tool's result"),)
        case list() | tuple() if _are_parts(cast(Sequence[object], content)):
            return tuple(clean_part(part, "a tool's result") for part in cast(Sequence[Text | Blob], content))
        case _:
            return (Text(text=_json_text(content)),)


def _are_parts(items: Sequence[object]) -> bool:
    """An empty list is JSON; an empty tuple is content without parts."""
    return bool(items or isinstance(items, tuple)) and all(isinstance(item, Text | Blob) for item in items)


def _json_text(value: object) -> str:
    try:
        plain: Json = msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            f"a tool returned a {type(value).__name__} that is not JSON ({error}); "
            "return text, parts, a ToolResult or a JSON value"
        ) from error
    return msgspec.json.encode(clean_json(plain, "a tool's result")).decode()


def _names(names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidValue(f"add_tools is {names!r}; it must be a sequence of tool names")
    for name in cast(Sequence[object], names):
        if not isinstance(name, str):
            raise InvalidValue(f"add_tools names {name!r}; a tool's name is text")
    return tuple(cast(Sequence[str], names))

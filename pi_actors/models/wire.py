"""From our messages to pydantic-ai's: what is sent to a provider.

The same request always becomes the same messages. Imported only once a provider is used.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, cast

import msgspec
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequestPart,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.messages import (
    ModelRequest as WireRequest,
)
from pydantic_ai.messages import (
    ModelResponse as WireResponse,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from pi_actors.core.errors import InvalidValue
from pi_actors.core.messages import Blob, Call, Message, Result, Text, Thinking
from pi_actors.core.text import Json, clean_json, normalise
from pi_actors.models.protocol import ModelRequest, ToolSpec

CallNames: TypeAlias = dict[int, tuple[str, str]]
"""The calls of the newest assistant message: index to tool name and outgoing id."""

ID_FIT_FOR_ALL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request goes. ``origin``: the (provider, model) whose own data may go back.

    ``inline_system``: the API takes system messages between others.
    """

    origin: tuple[str, str]
    inline_system: bool = False


def outgoing(request: ModelRequest, destination: Destination) -> list[ModelMessage]:
    """Return the messages of *request* as *destination* takes them.

    Thinking and opaque data go back only where they came from. Assistant messages that have nothing
    left are dropped. Messages between two of an assistant become one request.
    """
    wire: list[ModelMessage] = []
    pending: list[ModelRequestPart] = []
    calls: CallNames = {}
    leading, rest = _split_leading_system(request)
    if leading:
        pending.append(SystemPromptPart(leading))
    for message, origin in rest:
        if message.role == "assistant":
            is_own = origin == destination.origin
            calls = _outgoing_calls(message, is_own=is_own) or calls
            if parts := list(_response_parts(message, calls, is_own=is_own)):
                if pending:
                    wire.append(WireRequest(parts=pending))
                    pending = []
                wire.append(WireResponse(parts=parts))
        else:
            pending += _request_parts(message, calls, destination)
    if pending:
        wire.append(WireRequest(parts=pending))
    return wire


def parameters(tools: Sequence[ToolSpec]) -> ModelRequestParameters:
    """Return the offered tools, with the schemas exactly as given."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
                strict=False,
            )
            for tool in tools
        ]
    )


Located: TypeAlias = tuple[Message, tuple[str, str] | None]


def _split_leading_system(request: ModelRequest) -> tuple[str, list[Located]]:
    """The system messages before all others as one text (many servers take only one), and the rest."""
    origins = request.origins or (None,) * len(request.messages)
    located = list(zip(request.messages, origins, strict=True))
    leading = 0
    while leading < len(located) and located[leading][0].role == "system":
        leading += 1
    texts = [_text(message) for message, _ in located[:leading]]
    return "\n\n".join(text for text in texts if text), located[leading:]


# What the model has said.


def _outgoing_calls(message: Message, *, is_own: bool) -> CallNames:
    calls = (part for part in message.parts if isinstance(part, Call))
    return {call.index: (normalise(call.name), _outgoing_id(call.wire_id, is_own=is_own)) for call in calls}


def _outgoing_id(wire_id: str, *, is_own: bool) -> str:
    """Our id of a call. Another provider may not take its characters or length, so it gets a digest."""
    if wire_id and (is_own or ID_FIT_FOR_ALL.fullmatch(wire_id)):
        return wire_id
    digest = hashlib.sha256(wire_id.encode(errors="replace")).hexdigest()
    return f"call_{digest[:24]}"


def _response_parts(message: Message, calls: CallNames, *, is_own: bool) -> Iterator[ModelResponsePart]:
    for part in message.parts:
        match part:
            case Text():
                opaque = _opaque(part.opaque) if is_own else {}
                if opaque or part.text.strip():
                    yield TextPart(normalise(part.text), **opaque)
            case Thinking():
                opaque = _opaque(part.opaque) if is_own else {}
                if opaque:
                    yield ThinkingPart(part.text, **opaque)
            case Call():
                opaque = _opaque(part.opaque) if is_own else {}
                name, wire_id = calls[part.index]
                yield ToolCallPart(name, wire_arguments(part.arguments), tool_call_id=wire_id, **opaque)
            case Result() | Blob():
                pass


def wire_arguments(text: str) -> dict[str, Json]:
    """Return call arguments as the JSON object every provider demands: empty where they are none."""
    try:
        value: Json = clean_json(json.loads(text), "arguments")
    except (ValueError, RecursionError, InvalidValue):
        return {}
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


OPAQUE_FIELDS: Final = frozenset({"id", "signature", "provider_name", "provider_details"})


def _opaque(text: str | None) -> dict[str, Json]:
    """The fields kept from a part of a response, as pydantic-ai names them."""
    value: Json = None if text is None else msgspec.json.decode(text)
    if not isinstance(value, dict):
        return {}
    kept = cast("dict[str, Json]", value)
    return {name: field for name, field in kept.items() if name in OPAQUE_FIELDS}


# What the model is told.


def _request_parts(
    message: Message, calls: CallNames, destination: Destination
) -> Iterable[ModelRequestPart]:
    match message.role:
        case "system":
            text = _text(message)
            if not text:
                return []
            if destination.inline_system:
                return [SystemPromptPart(text)]
            return [UserPromptPart(f"<system>\n{text}\n</system>")]
        case "tool":
            results = [part for part in message.parts if isinstance(part, Result)]
            return [_result(part, *calls[part.call.index]) for part in results if part.call.index in calls]
        case "user" | "assistant":
            content = _content(part for part in message.parts if isinstance(part, Text | Blob))
            return [UserPromptPart(content)] if content else []


def _content(parts: Iterable[Text | Blob]) -> str | list[UserContent]:
    """Text alone stays a string; with blobs it becomes a list in the same order."""
    items: list[UserContent] = []
    for part in parts:
        match part:
            case Blob():
                items.append(BinaryContent(part.data, media_type=part.media_type))
            case Text():
                if part.text.strip():
                    items.append(normalise(part.text))
    texts = [item for item in items if isinstance(item, str)]
    return "\n".join(texts) if len(texts) == len(items) else items


def _result(result: Result, name: str, wire_id: str) -> ToolReturnPart:
    texts = [item.text for item in result.content if isinstance(item, Text)]
    text = normalise("\n".join(texts))
    blobs = [
        BinaryContent(item.data, media_type=item.media_type)
        for item in result.content
        if isinstance(item, Blob)
    ]
    return ToolReturnPart(
        tool_name=name,
        content=[*([text] if text else []), *blobs] if blobs else text,
        tool_call_id=wire_id,
        outcome="failed" if result.is_error else "success",
    )


def _text(message: Message) -> str:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    return normalise("\n".join(texts))

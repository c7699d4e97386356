"""From pydantic-ai's stream to our deltas and parts: what comes back from a provider.

Imported only once a provider is used.
"""

import json
from collections.abc import Sequence
from typing import Final, Literal

from pydantic_ai.messages import (
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse
from pydantic_core import to_jsonable_python

from pi_actors.core.messages import Call, Part, Usage
from pi_actors.core.text import Json
from pi_actors.models.assembly import Assembly
from pi_actors.models.protocol import ModelFailed

MADE_UP_ID: Final = "pyd_ai_"
"""How ids begin that pydantic-ai gives to calls that came without one."""


class Reception:
    """Takes a stream's events into *assembly*. Part kinds that we do not have are left out."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._started: set[int] = set()

    def receive(self, event: ModelResponseStreamEvent) -> None:
        """Add what *event* brings."""
        assembly = self._assembly
        match event:
            case PartStartEvent(index=index, part=part):
                self._started.add(index)
                _start(index, part, assembly)
            case PartDeltaEvent(index=index, delta=TextPartDelta(content_delta=text)):
                assembly.text(index, text)
            case PartDeltaEvent(index=index, delta=ThinkingPartDelta(content_delta=text)):
                assembly.thinking(index, text or "")
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=str(text))):
                assembly.arguments(index, text)
            case _:
                pass

    def finish(self, parts: Sequence[ModelResponsePart]) -> tuple[Part, ...]:
        """Add what only the whole *parts* tell, such as signatures, and return ours.

        A signature may come long after its part has ended. *parts* has no numbers, but it holds
        exactly the parts that were started, in order.
        """
        for index, part in zip(sorted(self._started), parts, strict=True):
            _seal(index, part, self._assembly)
        return self._assembly.finish()


def stop_of(
    stream: StreamedResponse, parts: Sequence[Part], *, model: str, usage: Usage | None
) -> Literal["stop", "calls", "length"] | None:
    """Return why the response ended, None where the provider did not say.

    pydantic-ai takes a chat stream without a finish reason for a finished one; only the provider's
    own word for it, among the details, tells that there was one.

    Raises:
        ModelFailed: a content filter stopped it, or the provider says that it failed.
    """
    said = (stream.provider_details or {}).get("finish_reason")
    match stream.finish_reason:
        case _ if said is None and stream.finish_reason != "content_filter":
            return None
        case "stop" | "tool_call":
            return "calls" if any(isinstance(part, Call) for part in parts) else "stop"
        case "length":
            return "length"
        case "content_filter":
            raise ModelFailed(
                "fatal",
                f"{model}: the provider's content filter stopped the response ({said or 'refusal'}); "
                "change the input or use another model",
                usage=usage,
            )
        case "error":
            raise ModelFailed(
                "retryable", f"{model}: the provider ended the response with an error", usage=usage
            )
        case None:
            return None


def usage_of(stream: StreamedResponse) -> Usage | None:
    """Return the tokens counted so far, None where the provider reported none."""
    counted = stream.usage
    if not counted.input_tokens and not counted.output_tokens:
        return None
    return Usage(
        input=counted.input_tokens,
        output=counted.output_tokens,
        cache_read=counted.cache_read_tokens,
        cache_write=counted.cache_write_tokens,
    )


def _start(index: int, part: ModelResponsePart, assembly: Assembly) -> None:
    match part:
        case TextPart():
            assembly.text(index, part.content)
        case ThinkingPart():
            assembly.thinking(index, part.content)
        case ToolCallPart():
            assembly.call(index, part.tool_name, _wire_id(part))
            if isinstance(part.args, str):
                assembly.arguments(index, part.args)
        case _:
            pass


def _seal(index: int, part: ModelResponsePart, assembly: Assembly) -> None:
    match part:
        case TextPart():
            assembly.seal(index, _opaque(part.id, part.provider_name, part.provider_details))
        case ThinkingPart():
            assembly.seal(index, _opaque(part.id, part.provider_name, part.provider_details, part.signature))
        case ToolCallPart():
            assembly.call(index, part.tool_name, _wire_id(part))
            if not isinstance(part.args, str) and assembly.size(index) == 0:
                # Not text: a provider that sends an object, and for no arguments nothing at all.
                assembly.arguments(
                    index, json.dumps(part.args or {}, ensure_ascii=False, separators=(",", ":"))
                )
            assembly.seal(index, _opaque(part.id, part.provider_name, part.provider_details))
        case _:
            pass


def _wire_id(part: ToolCallPart) -> str:
    return "" if part.tool_call_id.startswith(MADE_UP_ID) else part.tool_call_id


def _opaque(
    id: str | None,
    provider_name: str | None,
    provider_details: dict[str, Json] | None,
    signature: str | None = None,
) -> str | None:
    """What only the provider understands, as JSON in ASCII: every character survives every store."""
    kept: dict[str, Json] = {"id": id, "signature": signature, "provider_details": provider_details}
    kept = {name: value for name, value in kept.items() if value}
    if not kept:
        return None
    kept["provider_name"] = provider_name
    return json.dumps(to_jsonable_python(kept), ensure_ascii=True, separators=(",", ":"))

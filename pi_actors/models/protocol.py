"""What a model is: something that streams one request and returns how it ended."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from pi_actors.core.errors import PiActorsError
from pi_actors.core.messages import Message, Part, Usage
from pi_actors.core.text import Json


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as offered to a model. ``parameters`` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Json


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, complete: the same fields give the same bytes on the wire.

    ``messages`` is a valid provider transcript: system messages first or where they were appended,
    every call followed by its result, ``Result.content`` with the remarks already rendered.
    ``origins[i]`` is the (provider, provider model) that made ``messages[i]``, None for others:
    opaque data and thinking go back only where they came from.
    ``turn``: from 0, responses of this agent that settled as an answer or as calls before this one.
    ``attempt``: from 1, raised only by a scheduled retry.
    ``session_id``: the stable provider-facing session id, for prompt caches.
    """

    messages: tuple[Message, ...]
    origins: tuple[tuple[str, str] | None, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    purpose: Literal["turn", "summary"] = "turn"
    turn: int = 0
    attempt: int = 1
    thinking: str | None = None
    session_id: str = ""


class TextDelta(msgspec.Struct, frozen=True):
    """Text part number ``part`` of the response grew by ``text``."""

    part: int
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """Thinking part number ``part`` grew by ``text``."""

    part: int
    text: str


class CallDelta(msgspec.Struct, frozen=True):
    """Call part number ``part`` grew: ``name`` and ``wire_id`` once, ``arguments`` piece by piece."""

    part: int
    arguments: str = ""
    name: str = ""
    wire_id: str = ""


StreamDelta: TypeAlias = TextDelta | ThinkingDelta | CallDelta
Emit: TypeAlias = Callable[[StreamDelta], None]
"""Takes the next delta; never blocks."""


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True):
    """How a request ended.

    ``parts``: Text, Thinking and Call, in order; a Call carries the provider's id ("" where it gave
    none) and its arguments as the text received. ``stop`` is None where the stream ended without
    its finish marker. ``provider`` and ``model`` name what replied. ``usage``: None if unreported.
    """

    parts: tuple[Part, ...]
    stop: Literal["stop", "calls", "length"] | None
    provider: str | None = None
    model: str | None = None
    usage: Usage | None = None


class ModelFailed(PiActorsError):
    """The request failed. Raised by models, recorded as an event, never shown as an exception.

    retryable: try again later, after ``retry_after_ms`` if given. overflow: the request is larger
    than the context window. fatal: trying again cannot help.
    """

    def __init__(
        self,
        kind: Literal["retryable", "overflow", "fatal"],
        message: str,
        *,
        retry_after_ms: int | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: Literal["retryable", "overflow", "fatal"] = kind
        self.retry_after_ms = retry_after_ms
        self.usage = usage


@runtime_checkable
class Model(Protocol):
    """A language model, real or scripted."""

    @property
    def name(self) -> str:
        """The name under which logs know it, such as ``openai:gpt-5``."""
        ...

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, None if unknown."""
        ...

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Send *request*, hand each delta to *emit* as it arrives, return how it ended.

        Cancellation closes the connection. Never retries by itself.

        Raises:
            ModelFailed: the provider, the network or the protocol failed.
        """
        ...

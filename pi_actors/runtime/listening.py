"""Listening to a model: whatever it does, it ends with a response or with ModelFailed."""

from typing import Final

import msgspec
import trio

from pi_actors.core.messages import Usage
from pi_actors.models.protocol import Emit, Model, ModelFailed, ModelRequest, ModelResponse, StreamDelta
from pi_actors.runtime.scopes import contained

TOKENS_MAX: Final = 2**53
"""More than any request can have; all sums of such counts can be stored."""


async def listen(model: Model, request: ModelRequest, emit: Emit, *, stall_ms: int) -> ModelResponse:
    """Stream *request*, handing each delta to *emit*, and return how it ended.

    Usage that no request can have is as good as unreported. Cancellation closes the connection.

    Raises:
        ModelFailed: the model failed, raised anything else, returned what is no response, or was
            silent for *stall_ms*.
    """
    silence = trio.CancelScope()

    def heard() -> None:
        silence.deadline = trio.current_time() + stall_ms / 1000

    def hear(delta: StreamDelta) -> None:
        heard()
        emit(delta)

    heard()
    with silence:
        return await _stream(model, request, hear)
    raise ModelFailed("retryable", f"the model was silent for {stall_ms} ms")


async def _stream(model: Model, request: ModelRequest, emit: Emit) -> ModelResponse:
    """Ask the model; whatever it raises or returns instead is a failure of the world, not of its caller."""
    try:
        with contained():
            return _checked(await model.stream(request, emit))
    except ModelFailed as failure:
        failure.usage = _possible(failure.usage)
        raise
    except Exception as error:  # the door to models that users bring
        raise ModelFailed("fatal", f"the model raised {type(error).__name__}: {error}") from error


def _checked(returned: object) -> ModelResponse:
    """What was *returned*, once it is known to be a response: deciders rely on what its types say."""
    if not isinstance(returned, ModelResponse):
        raise _no_response(f"it is a {type(returned).__name__}")
    response = msgspec.structs.replace(returned, usage=_possible(returned.usage))
    try:
        # Not by way of bytes: text may still have lone surrogates.
        msgspec.convert(msgspec.to_builtins(response, builtin_types=(bytes,)), ModelResponse)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_response(str(error)) from error
    return response


def _no_response(problem: str) -> ModelFailed:
    return ModelFailed("fatal", f"what the model returned is no ModelResponse: {problem}")


def _possible(usage: object) -> Usage | None:
    """*usage*, or None where it counts something else than tokens."""
    if not isinstance(usage, Usage):
        return None
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    return usage if all(type(count) is int and 0 <= count <= TOKENS_MAX for count in counts) else None

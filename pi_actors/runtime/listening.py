"""Listening to a model: whatever it does, it ends with a response or with ModelFailed."""

import trio

from pi_actors.models.protocol import Emit, Model, ModelFailed, ModelRequest, ModelResponse, StreamDelta
from pi_actors.runtime.scopes import contained


async def listen(model: Model, request: ModelRequest, emit: Emit, *, stall_ms: int) -> ModelResponse:
    """Stream *request*, handing each delta to *emit*, and return how it ended.

    Cancellation closes the connection.

    Raises:
        ModelFailed: the model failed, raised anything else, or was silent for *stall_ms*.
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
    """Ask the model; whatever it raises is a failure of the world, not of its caller."""
    try:
        with contained():
            return await model.stream(request, emit)
    except ModelFailed:
        raise
    except Exception as error:  # the door to models that users bring
        raise ModelFailed("fatal", f"the model raised {type(error).__name__}: {error}") from error

"""The door to language models: real ones and scripted ones.

Importing this is cheap: a provider's libraries are imported when its first model is made.
"""

from pi_actors.models.plays import (
    Cut,
    Failure,
    Reply,
    ScriptedCall,
    Stall,
    call,
    call_raw,
    cut,
    fail,
    overflow,
    reply,
    stall,
)
from pi_actors.models.prices import context_window, price
from pi_actors.models.protocol import (
    CallDelta,
    Emit,
    Model,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    StreamDelta,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
)
from pi_actors.models.providers import ProviderModel, make_model
from pi_actors.models.scripted import ScriptedModel

__all__ = [
    "CallDelta",
    "Cut",
    "Emit",
    "Failure",
    "Model",
    "ModelFailed",
    "ModelRequest",
    "ModelResponse",
    "ProviderModel",
    "Reply",
    "ScriptedCall",
    "ScriptedModel",
    "Stall",
    "StreamDelta",
    "TextDelta",
    "ThinkingDelta",
    "ToolSpec",
    "call",
    "call_raw",
    "context_window",
    "cut",
    "fail",
    "make_model",
    "overflow",
    "price",
    "reply",
    "stall",
]

"""Events and outcomes as JSON, one object a line, for programs.

An event: ``{"type": "event", "position", "end", "at", "actor", "cause", "topic", "event": {...}}``, the
event's fields by name, bytes as base64. How ``run`` and ``resume`` ended: ``{"type": "result", ...}``.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from pi_actors.actors.agent.entries import fork_of
from pi_actors.actors.compaction.messages import KIND as COMPACTION_KIND
from pi_actors.actors.compaction.messages import CompactionInput
from pi_actors.actors.tool.messages import KIND as TOOL_KIND
from pi_actors.actors.tool.messages import ToolInput
from pi_actors.core.lifecycle import AgentSpawned, WorkSpawned
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from projections.fold import iso


def event_json(recorded: Recorded) -> str:
    """*recorded* as a line of JSON."""
    return json_line(
        {
            "type": "event",
            "position": recorded.position,
            "end": recorded.end,
            "at": iso(recorded.at_us),
            "actor": recorded.actor,
            "cause": recorded.cause,
            "topic": recorded.topic,
            "event": _event(recorded),
        }
    )


def json_line(value: Mapping[str, Json]) -> str:
    """*value* as JSON without line breaks."""
    return msgspec.json.encode(value).decode()


def named(value: object) -> Json:
    """*value* as JSON in which every field has its name, also where it is stored as an array."""
    match value:
        case msgspec.Struct():
            tag = value.__struct_config__.tag
            fields = {name: named(getattr(value, name)) for name in value.__struct_fields__}
            return fields if tag is None else {"type": tag, **fields}
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            return {str(key): named(item) for key, item in pairs}
        case list() | tuple():
            return [named(item) for item in cast("Sequence[object]", value)]
        case _:
            return value


def _event(recorded: Recorded) -> Json:
    event = recorded.event
    fields = named(event)
    match event:
        case WorkSpawned(kind=kind, input=born) if kind in _INPUTS:
            fields["input"] = named(msgspec.msgpack.decode(born, type=_INPUTS[kind]))
        case AgentSpawned(input=born) if born:
            fields["input"] = named(fork_of(event))
        case _:
            pass
    return fields


_INPUTS: Final[dict[str, type[msgspec.Struct]]] = {TOOL_KIND: ToolInput, COMPACTION_KIND: CompactionInput}
"""What work actors are born with, packed into one field of their birth."""

"""Events as JSON: every field under its name, and nothing that JSON cannot carry."""

import json
from typing import Any

import msgspec

from pi_actors.actors.agent.entries import ForkInput
from pi_actors.actors.agent.messages import EntryAppended, ToolResultSettled
from pi_actors.actors.compaction.messages import CompactionInput
from pi_actors.cli.json_lines import event_json, named
from pi_actors.core.decider import Event
from pi_actors.core.lifecycle import AgentSpawned, WorkSpawned
from pi_actors.core.messages import Blob, CallRef, Message, Text
from pi_actors.core.record import Recorded, UnknownEvent


def test_what_is_stored_as_an_array_has_names() -> None:
    result = ToolResultSettled(call=CallRef(entry=4, index=1), name="ls", by=2, own=True)
    fields = named(result)
    assert fields["call"] == {"entry": 4, "index": 1}
    assert fields["own"] is True


def test_parts_tell_their_type_and_bytes_are_base64() -> None:
    message = Message(role="user", parts=(Text(text="see"), Blob(media_type="image/png", data=b"\x00\xff")))
    parts = named(EntryAppended(kind="pi.user", messages=(message,)))["messages"][0]["parts"]
    assert parts[0] == {"type": "text", "text": "see", "opaque": None}
    assert parts[1]["data"] == "AP8="


def test_an_event_is_one_line_also_where_its_topic_is_unknown() -> None:
    event = UnknownEvent(topic="New.2", display=False, body=b"\x93\x01")
    recorded = Recorded(position=3, end=4, at_us=0, actor=1, cause=2, topic="New.2", event=event)
    line = event_json(recorded)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["position"], told["end"], told["at"]) == (3, 4, "1970-01-01T00:00:00Z")
    assert told["event"]["body"] == "kwE="


def test_what_actors_are_born_with_is_unpacked() -> None:
    compaction = msgspec.msgpack.encode(CompactionInput(trigger="manual", entries=(2, 3), keep_from=4))
    fork = msgspec.msgpack.encode(ForkInput(parent=1, at=8, context=()))
    born = [WorkSpawned(kind="pi.compaction", agent=1, input=compaction), AgentSpawned(input=fork)]
    told = [event_of(event)["input"] for event in born]
    assert (told[0]["trigger"], told[0]["entries"], told[0]["keep_from"]) == ("manual", [2, 3], 4)
    assert (told[1]["parent"], told[1]["at"]) == (1, 8)
    assert event_of(AgentSpawned())["input"] == ""


def event_of(event: Event) -> dict[str, Any]:
    """The fields of *event*, as a program reads them."""
    recorded = Recorded(position=3, end=3, at_us=0, actor=3, cause=0, topic=type(event).__name__, event=event)
    fields: dict[str, Any] = json.loads(event_json(recorded))["event"]
    return fields

"""Events as JSON: every field under its name, and nothing that JSON cannot carry."""

import json

from pi_actors.actors.agent.messages import EntryAppended, ToolResultSettled
from pi_actors.cli.json_lines import event_json, named
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

"""Rows: what is encoded is decoded, and anything else is told apart."""

from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_actors.actors import topics as actors
from pi_actors.core.errors import InvalidValue, LogCorrupt, LogTooNew
from pi_actors.core.record import Recorded, UnknownEvent
from pi_actors.storage.codec import (
    ROW_BYTES_MAX,
    Topics,
    Upcaster,
    decode_row,
    decode_rows,
    encode_row,
    published,
)
from pi_actors.storage.log import Row
from tests.storage.events import NOW_US, TOPICS, Noted, Shown, commit, recorded

counts = st.integers(min_value=0, max_value=2**53)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
notes = st.builds(Noted, text=st.text(), times=st.integers(0, 2**31))
showings = st.builds(Shown, text=st.text(), data=values)


@st.composite
def recordings(draw: st.DrawFn) -> Recorded:
    event = draw(notes | showings)
    return Recorded(
        position=draw(counts),
        end=draw(counts),
        at_us=draw(counts),
        actor=draw(counts),
        cause=draw(counts),
        topic=TOPICS.topic_of(event),
        event=event,
    )


@given(recordings(), st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=200))
def test_what_was_encoded_is_decoded(event: Recorded, session: str) -> None:
    assert decode_row(session, encode_row(session, event, TOPICS), TOPICS) == event


def test_a_row_is_the_documented_array_with_its_event_in_place() -> None:
    row = encode_row("main", recorded(7, end=9), TOPICS)
    format_, flags, end, at_us, actor, cause, body, checksum = msgspec.msgpack.decode(row.state)
    assert (row.position, row.topic) == (7, "Noted")
    assert (format_, flags, end, at_us, actor, cause, body) == (1, 0, 9, NOW_US + 7, 1, 0, ["a note", 1])
    assert checksum == crc32(row.state[:-4], crc32(b"main\x007\x00Noted\x00"))


def test_a_flipped_bit_anywhere_in_a_row_is_told_with_its_position() -> None:
    row = encode_row("main", recorded(7), TOPICS)
    for place in range(len(row.state) * 8):
        state = bytearray(row.state)
        state[place // 8] ^= 1 << place % 8
        with pytest.raises(LogCorrupt, match=r"session 'main' is damaged at position 7: the checksum"):
            decode_row("main", msgspec.structs.replace(row, state=bytes(state)), TOPICS)


@given(st.binary(max_size=40))
def test_any_other_bytes_are_told_as_damage(state: bytes) -> None:
    with pytest.raises(LogCorrupt):
        decode_row("main", Row(7, "Noted", state), TOPICS)


def test_a_row_moved_to_another_session_position_or_topic_is_told_as_damage() -> None:
    row = encode_row("main", recorded(7), TOPICS)
    for session, moved in (
        ("other", row),
        ("main", msgspec.structs.replace(row, position=8)),
        ("main", msgspec.structs.replace(row, topic="Shown")),
    ):
        with pytest.raises(LogCorrupt):
            decode_row(session, moved, TOPICS)


def test_a_body_that_is_not_what_its_topic_says_is_told_as_damage_although_its_checksum_is_right() -> None:
    with pytest.raises(LogCorrupt, match=r"position 7: its bytes are no 'Noted' event"):
        decode_row("main", row_of([1, 0, 7, NOW_US, 1, 0, ["a note", "twice"]]), TOPICS)
    with pytest.raises(LogCorrupt, match="format 1 never existed in this shape"):
        decode_row("main", row_of([1, 0, 7]), TOPICS)


def test_a_row_of_a_newer_format_asks_for_an_upgrade_whatever_else_is_in_it() -> None:
    shapes: list[list[object]] = [
        [2, 0, 7, NOW_US, 1, 0, ["a note", 1]],
        [2, "another shape"],
        [300, 0],
    ]
    for fields in shapes:
        with pytest.raises(LogTooNew, match=r"format \d+ at position 7 \(topic 'Noted'\). Upgrade pi-actors"):
            decode_row("main", row_of(fields), TOPICS)


def test_a_format_that_never_was_is_told_as_damage() -> None:
    with pytest.raises(LogCorrupt, match="format 0 never existed"):
        decode_row("main", row_of([0, 0, 7, NOW_US, 1, 0, ["a note", 1]]), TOPICS)


def test_an_unknown_topic_is_returned_as_what_it_is_for_the_caller_to_judge() -> None:
    writer = Topics({"Noted": Noted, "Shown": Shown}, display=frozenset({"Shown"}))
    reader = Topics({})
    needed = decode_row("main", encode_row("main", recorded(7), writer), reader)
    assert needed.event == UnknownEvent(
        topic="Noted", display=False, body=msgspec.msgpack.encode(["a note", 1])
    )
    assert (needed.topic, needed.end, needed.at_us) == ("Noted", 7, NOW_US + 7)
    shown = Recorded(position=8, end=8, at_us=NOW_US, actor=1, cause=0, topic="Shown", event=Shown())
    skippable = decode_row("main", encode_row("main", shown, writer), reader).event
    assert isinstance(skippable, UnknownEvent)
    assert skippable.display


def test_a_hostile_topic_builds_nothing_and_imports_nothing() -> None:
    # X99
    row = row_of([1, 0, 7, NOW_US, 1, 0, {"__reduce__": ["os.system", "true"]}], topic="os:system")
    event = decode_row("main", row, TOPICS).event
    assert type(event) is UnknownEvent


def test_a_former_topic_is_read_as_the_event_of_today() -> None:
    class NotedOnce(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
        words: tuple[str, ...]

    def upcast(former: NotedOnce) -> Noted:
        return Noted(text=" ".join(former.words))

    former = Topics({"Noted": NotedOnce})
    today = Topics({"Noted.2": Noted}, upcasters={"Noted": Upcaster(NotedOnce, upcast, "Noted.2")})
    stored = Recorded(
        position=7, end=7, at_us=NOW_US, actor=1, cause=0, topic="Noted", event=NotedOnce(words=("a", "b"))
    )
    read = decode_row("main", encode_row("main", stored, former), today)
    assert (read.topic, read.event) == ("Noted.2", Noted(text="a b"))


def test_a_field_that_a_later_version_added_at_the_end_is_passed_over() -> None:
    read = decode_row("main", row_of([1, 0, 7, NOW_US, 1, 0, ["a note", 2, "new"]]), TOPICS)
    assert read.event == Noted(text="a note", times=2)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("\ud800", "surrogates not allowed"),
        (2**70, "serialize ints"),
        (object(), "unsupported"),
        ({"a": {1, 2}, "b": object}, "unsupported"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_before_any_row_exists(data: object, problem: str) -> None:
    # R272
    event = recording(Shown(data=data))
    with pytest.raises(InvalidValue, match=rf"'Shown' cannot be stored: .*{problem}.*Nothing was stored"):
        encode_row("main", event, TOPICS)


def test_a_value_nested_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidValue, match="'Shown' cannot be stored"):
        encode_row("main", recording(Shown(data=endless)), TOPICS)


def test_an_event_too_large_to_keep_is_refused() -> None:
    with pytest.raises(InvalidValue, match="more than 16777216; store it elsewhere"):
        encode_row("main", recording(Shown(text="x" * ROW_BYTES_MAX)), TOPICS)
    largest = recording(Shown(text="x" * (ROW_BYTES_MAX - 100)))
    assert decode_row("main", encode_row("main", largest, TOPICS), TOPICS) == largest


def test_an_event_that_could_not_be_read_back_is_refused() -> None:
    # X12
    untyped: Any = 7
    with pytest.raises(InvalidValue, match="'Noted' cannot be stored: Expected `str`, got `int`"):
        encode_row("main", recording(Noted(text=untyped)), TOPICS)
    with pytest.raises(InvalidValue, match="it is a Shown, which is not what the topic stands for"):
        encode_row("main", msgspec.structs.replace(recorded(7), event=Shown(text="a", data=1)), TOPICS)
    with pytest.raises(InvalidValue, match="the topic is not registered"):
        encode_row("main", msgspec.structs.replace(recorded(7), topic="Lost"), TOPICS)


def test_an_event_without_a_topic_is_refused() -> None:
    class Unheard(msgspec.Struct, frozen=True):
        pass

    with pytest.raises(InvalidValue, match="events of type Unheard have no topic"):
        TOPICS.topic_of(Unheard())


def same(event: Noted) -> Noted:
    return event


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"events": {"A": Noted, "B": Noted}}, "two topics"),
        ({"events": {"A": Noted}, "display": frozenset({"B"})}, r"display topics \['B'\]"),
        (
            {"events": {"A": Noted}, "upcasters": {"A": Upcaster(Noted, same, "A")}},
            "from a former topic",
        ),
        (
            {"events": {"A": Noted}, "upcasters": {"B": Upcaster(Shown, same, "C")}},
            "from a former topic",
        ),
    ],
)
def test_topics_that_contradict_each_other_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Topics(**arguments)


def test_every_event_of_the_built_in_actors_can_be_registered() -> None:
    built_in = Topics(actors.ALL, display=actors.PROGRESS)
    assert {built_in.events[topic] for topic in actors.PROGRESS} < set(built_in.events.values())


def test_whole_commits_are_published_on_seeing_their_end() -> None:
    rows = [*commit("main", 0, 2), *commit("main", 2), *commit("main", 3, 3)]
    commits = list(published(decode_rows("main", rows, TOPICS)))
    assert [[event.position for event in one] for one in commits] == [[1, 2], [3], [4, 5, 6]]


def test_a_part_of_a_commit_is_never_published() -> None:
    rows = [*commit("main", 0, 2), *commit("main", 2, 3)]
    for shown in range(len(rows)):
        commits = list(published(decode_rows("main", rows[:shown], TOPICS)))
        assert [len(one) for one in commits] == ([2] if shown >= 2 else [])


def test_a_commit_whose_end_was_scavenged_is_published_on_seeing_a_later_one() -> None:
    rows = [*commit("main", 0, 3)[:1], *commit("main", 3)]
    commits = list(published(decode_rows("main", rows, TOPICS)))
    assert [[event.position for event in one] for one in commits] == [[1], [4]]


def test_damage_in_mid_stream_is_met_after_what_is_before_it() -> None:
    rows = [*commit("main", 0), *commit("main", 1)]
    damaged = msgspec.structs.replace(rows[1], state=rows[1].state[:-1] + b"?")
    events = decode_rows("main", [rows[0], damaged], TOPICS)
    assert next(events).position == 1
    with pytest.raises(LogCorrupt):
        next(events)


def recording(event: msgspec.Struct) -> Recorded:
    topic = TOPICS.topic_of(event)
    return Recorded(position=7, end=7, at_us=NOW_US, actor=1, cause=0, topic=topic, event=event)


def row_of(fields: list[object], *, topic: str = "Noted") -> Row:
    """A row with any fields and a right checksum."""
    covered = msgspec.msgpack.encode([*fields, 0xFFFFFFFF])[:-4]
    checksum = crc32(covered, crc32(f"main\x007\x00{topic}\x00".encode()))
    return Row(7, topic, covered + checksum.to_bytes(4, "big"))

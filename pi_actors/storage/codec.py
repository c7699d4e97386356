"""An event as bytes: a msgpack array [format, flags, end, at_us, actor, cause, body, crc32].

The array's first item (the format) and its last five bytes (the checksum as a 32-bit integer) stay
as they are in every format to come, so damage is told from news. The checksum covers session,
position, topic and every byte before it: a row that was moved or renamed does not decode.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import GenericAlias
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from pi_actors.core.decider import Event
from pi_actors.core.errors import InvalidValue, LogCorrupt, LogTooNew
from pi_actors.core.ids import SessionId
from pi_actors.core.record import Commit, Recorded, UnknownEvent
from pi_actors.core.text import VALUE_BYTES_MAX, Json
from pi_actors.storage.log import FORMAT, Row

DISPLAY: Final = 1
"""Flag bit 0: only for display; a writer that does not know the topic may skip the row."""

DISPLAY_START: Final = bytes((0x98, FORMAT, DISPLAY))
"""How the bytes of every row begin that is only for display."""

ROW_BYTES_MAX: Final = 2 * VALUE_BYTES_MAX

_NO_CHECKSUM: Final = 0xFFFFFFFF
"""Takes the checksum's place: packs to 0xce and four bytes, as every checksum is written."""

_HEADER: Final = bytes((0x98, FORMAT))
_CHECKSUM_BYTES: Final = 4

Fields: TypeAlias = tuple[int, int, int, int, int, int, Json, int]
"""A decoded row: format, flags, end, at_us, actor, cause, body, checksum."""


class Upcaster(NamedTuple):
    """How an event of a former topic becomes an event of today's."""

    type: type[Event]
    upcast: Callable[[Json], Event]
    topic: str


class Topics:
    """The registered topics. Only their struct types are ever built from stored bytes.

    ``display``: topics whose rows a writer that does not know them may skip. ``upcasters``: by
    former topic; nothing is written under a former topic any more.
    """

    def __init__(
        self,
        events: Mapping[str, type[Event]],
        *,
        display: frozenset[str] = frozenset(),
        upcasters: Mapping[str, Upcaster] | None = None,
    ) -> None:
        """Raises ValueError where topics, types and upcasters contradict each other."""
        self.events = dict(events)
        self.display = display
        self.upcasters = dict(upcasters or {})
        self._topics = {event: topic for topic, event in self.events.items()}
        self._require_sense()
        stored = self.events | {topic: upcaster.type for topic, upcaster in self.upcasters.items()}
        self.decoders = {topic: _decoder(event) for topic, event in stored.items()}

    def topic_of(self, event: Event) -> str:
        """The topic that *event* is stored under. Raises InvalidValue where its type has none."""
        topic = self._topics.get(type(event))
        if topic is None:
            raise InvalidValue(f"events of type {type(event).__name__} have no topic; nothing was stored")
        return topic

    def _require_sense(self) -> None:
        if len(self._topics) < len(self.events):
            raise ValueError("two topics stand for one event type; a former topic needs an upcaster")
        if unknown := self.display - self.events.keys() - self.upcasters.keys():
            raise ValueError(f"display topics {sorted(unknown)} stand for no event type")
        for topic, upcaster in self.upcasters.items():
            if topic in self.events or upcaster.topic not in self.events:
                raise ValueError(f"the upcaster of {topic!r} must lead from a former topic to one of today's")


def encode_row(session: SessionId, recorded: Recorded, topics: Topics) -> Row:
    """Pack *recorded* as a row that ``decode_row`` returns it from. No I/O happens.

    Raises:
        InvalidValue: the event cannot be stored, or could not be read back as what it is.
    """
    position, topic, event = recorded.position, recorded.topic, recorded.event
    try:
        packed = _encode(
            (
                FORMAT,
                DISPLAY if topic in topics.display else 0,
                recorded.end,
                recorded.at_us,
                recorded.actor,
                recorded.cause,
                event,
                _NO_CHECKSUM,
            )
        )
        if topics.decoders[topic].decode(packed)[6].__class__ is not event.__class__:
            raise _refused(topic, f"it is a {type(event).__name__}, which is not what the topic stands for")
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise _refused(topic, str(error)) from error
    except KeyError:
        raise _refused(topic, "the topic is not registered") from None
    if len(packed) > ROW_BYTES_MAX:
        raise _refused(topic, f"it takes {len(packed)} bytes, more than {ROW_BYTES_MAX}; store it elsewhere")
    covered = packed[:-_CHECKSUM_BYTES]
    checksum = crc32(covered, crc32(f"{session}\0{position}\0{topic}\0".encode()))
    return Row(position, topic, covered + checksum.to_bytes(_CHECKSUM_BYTES, "big"))


def decode_row(session: SessionId, row: Row, topics: Topics) -> Recorded:
    """The event that *row* holds; of an unregistered topic it is an UnknownEvent.

    Raises:
        LogCorrupt: the row fails its checksum, or is not what its topic says.
        LogTooNew: the row is whole and of a newer major format.
    """
    position, topic, state = row.position, row.topic, row.state
    checksum = crc32(state[:-_CHECKSUM_BYTES], crc32(f"{session}\0{position}\0{topic}\0".encode()))
    if state[-_CHECKSUM_BYTES:] != checksum.to_bytes(_CHECKSUM_BYTES, "big"):
        raise LogCorrupt(session, position, f"the checksum of the {topic!r} row is wrong")
    if state[:2] != _HEADER:
        raise _other_format(session, row)
    decoder = topics.decoders.get(topic)
    try:
        _, flags, end, at_us, actor, cause, event, _ = (decoder or _unknown).decode(state)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise LogCorrupt(session, position, f"its bytes are no {topic!r} event: {error}") from error
    if decoder is None:
        event = UnknownEvent(topic=topic, display=bool(flags & DISPLAY), body=bytes(event))
    elif topic in topics.upcasters:
        upcaster = topics.upcasters[topic]
        event, topic = upcaster.upcast(event), upcaster.topic
    return Recorded(
        position=position, end=end, at_us=at_us, actor=actor, cause=cause, topic=topic, event=event
    )


def decode_rows(session: SessionId, rows: Iterable[Row], topics: Topics) -> Iterator[Recorded]:
    """The events of *rows*, one by one. Raises as ``decode_row`` does."""
    return (decode_row(session, row, topics) for row in rows)


def published(events: Iterable[Recorded]) -> Iterator[Commit]:
    """The whole commits among *events*, in order; never a part of one.

    A commit is whole once its end was seen, or any later commit (its end may have been scavenged).
    What follows the last whole commit is not returned.
    """
    open_commit: list[Recorded] = []
    for recorded in events:
        if open_commit and open_commit[0].end != recorded.end:
            yield tuple(open_commit)
            open_commit.clear()
        open_commit.append(recorded)
        if recorded.position == recorded.end:
            yield tuple(open_commit)
            open_commit.clear()


def _refused(topic: str, problem: str) -> InvalidValue:
    return InvalidValue(f"the event {topic!r} cannot be stored: {problem}. Nothing was stored.")


def _other_format(session: SessionId, row: Row) -> LogCorrupt | LogTooNew:
    try:
        written = msgspec.msgpack.decode(_items.decode(row.state)[0], type=int)
    except (msgspec.MsgspecError, IndexError):
        return LogCorrupt(session, row.position, f"its bytes are no {row.topic!r} event")
    if written > FORMAT:
        return LogTooNew(session, row.position, row.topic, f"a row of format {written}")
    return LogCorrupt(session, row.position, f"format {written} never existed in this shape")


def _decoder(body: type) -> msgspec.msgpack.Decoder[Fields]:
    return msgspec.msgpack.Decoder(GenericAlias(tuple, (int, int, int, int, int, int, body, int)))


_encode = msgspec.msgpack.Encoder().encode
_unknown = _decoder(msgspec.Raw)
_items = msgspec.msgpack.Decoder(list[msgspec.Raw])

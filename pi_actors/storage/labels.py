"""Whose a packed state is: of which session, and made by which versions of the folds.

A state of another session or of other versions is no state for whoever finds it; the log tells the same.
"""

from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from pi_actors.core.ids import ROOT, SessionId
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.storage.codec import Topics, decode_row
from pi_actors.storage.log import LogReader
from pi_actors.storage.packing import Unpacker, pack

Versions: TypeAlias = dict[str, int]
"""All that has a say in what a state is and how it is packed, by name."""


class _Labelled(NamedTuple):
    """What is looked at before anything else is believed, and the rest."""

    versions: Versions
    uuid: str
    body: msgspec.Raw


def labelled(body: bytes, versions: Versions, uuid: str) -> bytes:
    """*body*, packed with what it is of."""
    return pack(_Labelled(versions, uuid, msgspec.Raw(body)))


def unlabelled(packed: bytes, versions: Versions, uuid: str) -> msgspec.Raw | None:
    """The body that is in *packed*, None where that is of anything else, or nothing of the kind."""
    try:
        found = _LABELLED(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found.body if (found.versions, found.uuid) == (versions, uuid) else None


def known_events(topics: Topics) -> int:
    """Stands for which events are understood: a state that was folded without some of them is of no use."""
    return crc32("\n".join(sorted(topics.events)).encode())


def session_uuid(log: LogReader, topics: Topics, session: SessionId) -> str | None:
    """What the session's first event says, None where that is missing. Blocks.

    Raises:
        LogCorrupt, LogTooNew: it cannot be read.
    """
    for row in log.read_at(session, [ROOT]):
        event = decode_row(session, row, topics).event
        if isinstance(event, AgentSpawned):
            return event.session_uuid
    return None


_LABELLED: Final = Unpacker(_Labelled)

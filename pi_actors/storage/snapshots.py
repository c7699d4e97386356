"""Snapshots as they are stored: sealed, so that a damaged, moved or foreign one is told from a good one.

Whatever is wrong with a snapshot, it is as good as missing: the log tells the same, only slower.
"""

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from pi_actors.core.ids import Position, SessionId
from pi_actors.storage.log import Snapshot

FORMAT: Final = 1
"""Of the seal: this byte, the checksum, the body."""

SNAPSHOTS_KEPT: Final = 2
"""How many of a name are kept: if the newest turns out to be damaged, there is one more."""

SHRINK_MAX: Final = 64 * 1024
"""An older snapshot is not kept where it is larger than the newest by more bytes than this: a long
answer that was unfinished in it is settled by now, and would stand in the store twice."""

_CHECKSUM_BYTES: Final = 4


def seal(session: SessionId, snapshot: Snapshot) -> bytes:
    """The snapshot's body as stored: with a checksum over it and over what it is a snapshot of."""
    checksum = _checksum(session, snapshot.name, snapshot.position, snapshot.body)
    return bytes((FORMAT,)) + checksum.to_bytes(_CHECKSUM_BYTES) + snapshot.body


def usable(
    session: SessionId, name: str, through: Position, stored: Iterable[tuple[Position, bytes]]
) -> list[Snapshot]:
    """The snapshots of what is *stored*, in the same order, without those that do not fit.

    *through*: the head's position. What goes beyond it covers events that are not in the log.
    """
    found: list[Snapshot] = []
    for position, sealed in stored:
        body = _unsealed(session, name, position, sealed)
        if body is not None and position <= through:
            found.append(Snapshot(name, position, body))
    return found


def _unsealed(session: SessionId, name: str, position: Position, sealed: bytes) -> bytes | None:
    start = 1 + _CHECKSUM_BYTES
    if len(sealed) < start or sealed[0] != FORMAT:
        return None
    body = sealed[start:]
    is_whole = int.from_bytes(sealed[1:start]) == _checksum(session, name, position, body)
    return body if is_whole else None


def _checksum(session: SessionId, name: str, position: Position, body: bytes) -> int:
    return crc32(body, crc32(f"{session}\n{name}\n{position}\n".encode()))

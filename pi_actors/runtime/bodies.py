"""The bodies of transcript entries, read from the log by position and kept within a bound."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from pi_actors.actors.agent.messages import entry_of
from pi_actors.core.ids import EntryId, Position
from pi_actors.core.messages import Blob, Call, Entry, Result, Text, Thinking
from pi_actors.core.record import Commit, Recorded
from pi_actors.core.state import SessionState

CACHE_BYTES_MAX: Final = 64 * 1024 * 1024

Read: TypeAlias = Callable[[Sequence[Position]], Awaitable[list[Recorded]]]
"""Reads the acknowledged events at some positions of the session."""


class Bodies:
    """Entries of one session. What was used longest ago is given up first."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._kept: OrderedDict[EntryId, tuple[Entry, int]] = OrderedDict()
        self._bytes = 0

    async def entries(self, ids: Sequence[EntryId]) -> list[Entry]:
        """The entries *ids*, in that order; one that is not in the log is left out."""
        missing = sorted(id for id in ids if id not in self._kept)
        found = {entry.id: entry for entry in await self._missing(missing)} if missing else {}
        for entry in found.values():
            self._keep(entry)
        chosen: list[Entry] = []
        for id in ids:
            kept = self._kept.get(id)
            if kept is not None:
                self._kept.move_to_end(id)
                chosen.append(kept[0])
            elif id in found:
                chosen.append(found[id])
        return chosen

    async def entry(self, id: EntryId) -> Entry:
        """The entry *id*, which must exist."""
        (entry,) = await self.entries([id])
        return entry

    def follow(self, commit: Commit, _: SessionState) -> None:
        """Keep the entries of a commit: they are likely to be wanted next."""
        for recorded in commit:
            entry = _entry(recorded)
            if entry is not None:
                self._keep(entry)

    async def _missing(self, ids: Sequence[EntryId]) -> list[Entry]:
        entries = map(_entry, await self._read(ids))
        return [entry for entry in entries if entry is not None]

    def _keep(self, entry: Entry) -> None:
        size = _size(entry)
        if size > CACHE_BYTES_MAX or entry.id in self._kept:
            return
        self._kept[entry.id] = (entry, size)
        self._bytes += size
        while self._bytes > CACHE_BYTES_MAX:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed


def _entry(recorded: Recorded) -> Entry | None:
    return entry_of(recorded.event, position=recorded.position, agent=recorded.actor, at_us=recorded.at_us)


def _size(entry: Entry) -> int:
    """About how many bytes of memory *entry* takes."""
    size = 500
    for message in entry.messages:
        for part in message.parts:
            match part:
                case Text() | Thinking():
                    size += len(part.text)
                case Call():
                    size += len(part.arguments)
                case Blob():
                    size += len(part.data)
                case Result():
                    size += sum(
                        len(item.text) if isinstance(item, Text) else len(item.data) for item in part.content
                    )
    return size

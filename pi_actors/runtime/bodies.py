"""The bodies of transcript entries, read from the log by position and kept within a bound."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

from pi_actors.actors.agent.entries import entry_of
from pi_actors.actors.agent.messages import EntryAppended, ResponseSettled, ToolResultSettled
from pi_actors.actors.topics import ENTRIES
from pi_actors.core.ids import EntryId, Position
from pi_actors.core.messages import Blob, Call, Entry, Part, Result, Text, Thinking
from pi_actors.core.record import Commit, Recorded
from pi_actors.core.state import SessionState

CACHE_BYTES_MAX: Final = 64 * 1024 * 1024

Read: TypeAlias = Callable[[Sequence[Position]], Awaitable[list[Recorded]]]
"""Reads the acknowledged events at some positions of the session."""


class Bodies:
    """Entries of one session. What was used longest ago is given up first.

    What a commit brings is kept as it comes and made an entry when somebody asks for it.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._kept: OrderedDict[EntryId, Entry | Recorded] = OrderedDict()
        self._bytes = 0

    async def entries(self, ids: Sequence[EntryId]) -> list[Entry]:
        """The entries *ids*, in that order; one that is not in the log is left out."""
        missing = sorted(id for id in ids if id not in self._kept)
        found = {each.position: each for each in await self._read(missing)} if missing else {}
        chosen: list[Entry] = []
        for id in ids:
            kept = self._kept.get(id) or found.get(id)
            entry = _entry(kept) if isinstance(kept, Recorded) else kept
            if entry is not None:
                self._keep(id, entry)
                chosen.append(entry)
        return chosen

    async def entry(self, id: EntryId) -> Entry:
        """The entry *id*, which must exist."""
        (entry,) = await self.entries([id])
        return entry

    def follow(self, commit: Commit, _: SessionState) -> None:
        """Keep the entries of a commit: they are likely to be wanted next."""
        for recorded in commit:
            if type(recorded.event) in ENTRIES:
                self._keep(recorded.position, recorded)

    def _keep(self, id: EntryId, kept: Entry | Recorded) -> None:
        if id in self._kept:
            self._kept.move_to_end(id)
        else:
            self._bytes += _size(kept)
        self._kept[id] = kept
        while self._bytes > CACHE_BYTES_MAX and len(self._kept) > 1:
            _, given_up = self._kept.popitem(last=False)
            self._bytes -= _size(given_up)


def _entry(recorded: Recorded) -> Entry | None:
    return entry_of(recorded.event, position=recorded.position, agent=recorded.actor, at_us=recorded.at_us)


def _size(kept: Entry | Recorded) -> int:
    """About how many bytes of memory *kept* takes; the same for an event and the entry made of it."""
    size = 500
    for part in _parts(kept):
        size += _part_size(part)
    return size


def _parts(kept: Entry | Recorded) -> Iterable[Part]:
    match kept.event if isinstance(kept, Recorded) else kept:
        case ResponseSettled(parts=parts):
            return parts
        case ToolResultSettled(content=content):
            return content
        case EntryAppended(messages=messages) | Entry(messages=messages):
            return [part for message in messages for part in message.parts] if messages else ()
        case _:
            return ()


def _part_size(part: Part) -> int:
    match part:
        case Text() | Thinking():
            return len(part.text)
        case Call():
            return len(part.arguments)
        case Blob():
            return len(part.data)
        case Result():
            return sum(_part_size(item) for item in part.content)

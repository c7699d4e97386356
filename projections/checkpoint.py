"""A projection of one's own, and where its state is kept between runs.

    class Spoken(msgspec.Struct, frozen=True, kw_only=True):
        answers: int = 0

    def evolve(state: Spoken, recorded: Recorded) -> Spoken:
        match recorded.event:
            case ResponseSettled():
                return Spoken(answers=state.answers + 1)
            case _:
                return state

    SPOKEN = Projection(name="spoken", version=1, initial=Spoken(), evolve=evolve, document=as_json)

    projected = await run_projection("work.db", "main", SPOKEN, SQLiteCheckpoint("spoken.db"))
    print(projected.state.answers, "answers up to position", projected.position)

Run again, it reads only what has been stored since. A state must be something that msgspec stores
and reads back as the type of ``initial``: a Struct, or plain data.
"""

from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pi_actors.core.errors import InvalidValue
from pi_actors.core.ids import Position, SessionId
from projections.fold import Projection
from projections.replay import OpenStore, Source, opened
from projections.tail import Tail

S = TypeVar("S")

PAGES_A_SAVE: Final = 25
"""While much is read, the state is saved this often, so that a long run that dies does not start anew."""


class Checkpoint(Protocol):
    """Where the states of projections are kept, by projection and session. Methods may block."""

    @property
    def blocks(self) -> bool:
        """Whether the methods wait for a disk, so that an event loop calls them in threads."""
        ...

    def load(self, name: str, session: SessionId) -> bytes | None:
        """What was saved last; None where nothing was, or it cannot be read."""
        ...

    def save(self, name: str, session: SessionId, saved: bytes) -> None:
        """Keep *saved* in place of what was there: all of it, or nothing where this fails."""
        ...


class MemoryCheckpoint:
    """Checkpoints that live as long as this object."""

    blocks = False

    def __init__(self) -> None:
        self._saved: dict[tuple[str, SessionId], bytes] = {}

    def load(self, name: str, session: SessionId) -> bytes | None:
        return self._saved.get((name, session))

    def save(self, name: str, session: SessionId, saved: bytes) -> None:
        self._saved[name, session] = saved


class Projected(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """A projection's state as of the commit that ends at ``position``."""

    state: S
    position: Position


async def run_projection(
    store: str | Path | OpenStore, session_id: SessionId, projection: Projection[S], checkpoint: Checkpoint
) -> Projected[S]:
    """Bring *projection* up to the end of the session's log, and its checkpoint with it.

    It goes on from the checkpoint. One that is missing, damaged, of another version of the projection
    or of another log is passed over, and the projection folded from the beginning. State and
    position are saved together, so a state is never folded with the same commit twice, whenever the
    process ends. ``evolve`` may run in a worker thread.

    Cancellation: between pages of the log; what was saved by then stays.

    Raises:
        InvalidValue: the state cannot be stored.
        StoreError: the checkpoint cannot be written. Besides, as ``replay``.
    """
    async with opened(store) as source:
        run = _Run(source, session_id, projection, checkpoint)
        call = partial(source.call, blocks=checkpoint.blocks)
        await call(run.begin)
        while await call(run.advance):
            pass
        return run.projected


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint. ``mark``: the digest of the row at ``position``, which tells one log from another."""

    version: int
    position: Position
    mark: bytes
    state: bytes


class _Run(Generic[S]):
    """One run. Its methods block."""

    def __init__(
        self, source: Source, session: SessionId, projection: Projection[S], checkpoint: Checkpoint
    ) -> None:
        self._source = source
        self._session = session
        self._projection = projection
        self._checkpoint = checkpoint
        self._tail = source.tail(session)
        self._pages = 0
        self._saved_to: Position = 0
        self.projected: Projected[S] = Projected(state=projection.initial, position=0)

    def begin(self) -> None:
        """Take up the checkpoint, if it is of any use."""
        found = self._checkpoint.load(self._projection.name, self._session)
        saved = None if found is None else _unpacked(found)
        if saved is None or (saved.version, saved.mark) != (
            self._projection.version,
            self._mark(saved.position),
        ):
            return
        try:
            state = msgspec.msgpack.decode(saved.state, type=type(self._projection.initial))
        except msgspec.MsgspecError:
            # Saved by a version that forgot to say that it is another.
            return
        self.projected = Projected(state=state, position=saved.position)
        self._saved_to = saved.position
        self._tail = Tail(self._source.log, self._source.topics, self._session, after=saved.position)

    def advance(self) -> bool:
        """Fold the next page; save now and then, and at the end, where this is False."""
        commits = self._tail.read()
        state = self.projected.state
        for commit in commits:
            for recorded in commit:
                state = self._projection.evolve(state, recorded)
            self.projected = Projected(state=state, position=commit[-1].end)
        self._pages += 1
        if not commits or self._pages % PAGES_A_SAVE == 0:
            self._save()
        return bool(commits)

    def _save(self) -> None:
        """Save state and position, unless nothing has come since the last time."""
        position = self.projected.position
        mark = self._mark(position)
        if position == self._saved_to or mark is None:
            return
        try:
            state = msgspec.msgpack.encode(self.projected.state)
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            name = self._projection.name
            raise InvalidValue(f"the state of the projection {name!r} cannot be stored: {error}") from error
        saved = _Saved(version=self._projection.version, position=position, mark=mark, state=state)
        self._checkpoint.save(self._projection.name, self._session, _packed(saved))
        self._saved_to = position

    def _mark(self, position: Position) -> bytes | None:
        """The digest of the row at *position*, None where there is no row."""
        rows = self._source.log.read_at(self._session, [position])
        return _digest(rows[0].state) if rows else None


def _packed(saved: _Saved) -> bytes:
    body = msgspec.msgpack.encode(saved)
    return _digest(body) + body


def _unpacked(stored: bytes) -> _Saved | None:
    """What was saved, None where it is damaged."""
    digest, body = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    if digest != _digest(body):
        return None
    return msgspec.msgpack.decode(body, type=_Saved)


_DIGEST_BYTES: Final = 16


def _digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=_DIGEST_BYTES).digest()

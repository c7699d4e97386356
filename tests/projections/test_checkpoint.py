"""A projection of one's own, and its checkpoint."""

from pathlib import Path

import msgspec
import pytest

from pi_actors import open_session
from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.actors.generation.messages import Delta, PartialStreamed
from pi_actors.core.errors import InvalidValue, NotFound
from pi_actors.core.messages import user_message
from pi_actors.core.record import Recorded
from pi_actors.storage.log import Row
from pi_actors.storage.memory import MemoryLog
from projections import Checkpoint, MemoryCheckpoint, Projected, Projection, SQLiteCheckpoint, run_projection
from projections import checkpoint as checkpoints
from projections.fold import as_json
from tests.projections.stored import Opened, stored
from tests.projections.story import ROOT, Story


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    notes: int = 0


FOLDED: list[int] = []
"""The positions that were folded since a test has begun."""


@pytest.fixture(autouse=True)
def _nothing_folded_yet() -> None:
    FOLDED.clear()


def count(state: Counted, recorded: Recorded) -> Counted:
    FOLDED.append(recorded.position)
    match recorded.event:
        case EntryAppended():
            return Counted(notes=state.notes + 1)
        case _:
            return state


NOTES = Projection(name="notes", version=1, initial=Counted(), evolve=count, document=as_json)


@pytest.fixture(params=["memory", "sqlite"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoint:
    return MemoryCheckpoint() if request.param == "memory" else SQLiteCheckpoint(tmp_path / "notes.db")


def add_notes(story: Story, commits: int) -> None:
    for _ in range(commits):
        story.commit(*[(ROOT, EntryAppended(kind="note", messages=(user_message("x"),)))] * 2)


def told(commits: int) -> Story:
    story = Story()
    story.spawn_root()
    add_notes(story, commits)
    return story


def projected(notes: int) -> Projected[Counted]:
    return Projected(state=Counted(notes=notes), position=notes + 1)


async def test_a_restart_goes_on_from_the_checkpoint(checkpoint: Checkpoint) -> None:
    log, story = MemoryLog(), told(3)
    store = Opened(stored(log, story))
    assert await run_projection(store, "main", NOTES, checkpoint) == projected(6)
    assert FOLDED == [1, 2, 3, 4, 5, 6, 7]
    FOLDED.clear()
    add_notes(story, 1)
    stored(log, story)
    assert await run_projection(store, "main", NOTES, checkpoint) == projected(8)
    assert FOLDED == [8, 9]
    assert await run_projection(store, "main", NOTES, checkpoint) == projected(8)
    assert FOLDED == [8, 9]


@pytest.mark.parametrize("gone", [[5], [4], [5, 4]], ids=["its last row", "a row before", "both"])
async def test_a_checkpoint_is_of_use_also_where_progress_was_scavenged_since(
    checkpoint: Checkpoint, gone: list[int]
) -> None:
    """It goes on, or begins anew where the row that it is known by has gone; the result is the same."""
    log, story = MemoryLog(), told(1)
    for _ in range(2):
        story.commit((ROOT, PartialStreamed(deltas=(Delta(part=0, type="text", text="so far"),))))
    store = Opened(stored(log, story))
    assert (await run_projection(store, "main", NOTES, checkpoint)).position == 5
    add_notes(story, 2)
    epoch = stored(log, story).claim("main", now_us=0).epoch
    assert log.scavenge("main", epoch=epoch, positions=gone, through=7) is None
    again = await run_projection(store, "main", NOTES, checkpoint)
    assert again == await run_projection(store, "main", NOTES, MemoryCheckpoint())
    assert again == Projected(state=Counted(notes=6), position=9)


async def test_a_store_is_projected_by_its_name(tmp_path: Path) -> None:
    async with open_session(tmp_path / "work.db") as session:
        await session.root.submit_write("note")
        done = await run_projection(tmp_path / "work.db", "main", NOTES, MemoryCheckpoint())
    assert done == Projected(state=Counted(notes=1), position=3)


async def test_sessions_and_projections_share_a_checkpoint_without_meeting(checkpoint: Checkpoint) -> None:
    log = MemoryLog()
    store = Opened(stored(stored(log, told(1)), told(2), "other"))
    twice = Projection(name="twice", version=1, initial=Counted(), evolve=count, document=as_json)
    for _ in range(2):
        assert await run_projection(store, "main", NOTES, checkpoint) == projected(2)
        assert await run_projection(store, "other", NOTES, checkpoint) == projected(4)
        assert await run_projection(store, "main", twice, checkpoint) == projected(2)
    assert len(FOLDED) == 3 + 5 + 3


async def test_another_version_of_the_projection_is_folded_anew(checkpoint: Checkpoint) -> None:
    store = Opened(stored(MemoryLog(), told(2)))
    await run_projection(store, "main", NOTES, checkpoint)
    FOLDED.clear()
    second = Projection(name="notes", version=2, initial=Counted(notes=10), evolve=count, document=as_json)
    assert (await run_projection(store, "main", second, checkpoint)).state == Counted(notes=14)
    assert len(FOLDED) == 5


@pytest.mark.parametrize("other", [1, 2, 5])
async def test_the_checkpoint_of_another_log_is_passed_over(checkpoint: Checkpoint, other: int) -> None:
    await run_projection(Opened(stored(MemoryLog(), told(2))), "main", NOTES, checkpoint)
    FOLDED.clear()
    story = Story()
    story.at_us += 1
    story.spawn_root()
    add_notes(story, other)
    done = await run_projection(Opened(stored(MemoryLog(), story)), "main", NOTES, checkpoint)
    assert done == projected(2 * other)
    assert len(FOLDED) == story.position


async def test_a_damaged_checkpoint_is_passed_over_whatever_is_wrong_with_it() -> None:
    checkpoint = MemoryCheckpoint()
    store = Opened(stored(MemoryLog(), told(2)))
    await run_projection(store, "main", NOTES, checkpoint)
    saved = checkpoint.load("notes", "main")
    assert saved is not None
    damaged = [saved[:place] + bytes([saved[place] ^ 1]) + saved[place + 1 :] for place in range(len(saved))]
    for wrong in [*damaged, *(saved[:length] for length in range(len(saved))), saved + b"x"]:
        FOLDED.clear()
        checkpoint.save("notes", "main", wrong)
        assert await run_projection(store, "main", NOTES, checkpoint) == projected(4)
        assert len(FOLDED) == 5
        assert checkpoint.load("notes", "main") == saved


async def test_a_state_that_has_become_another_type_is_folded_anew(checkpoint: Checkpoint) -> None:
    store = Opened(stored(MemoryLog(), told(2)))
    texts = Projection[list[int]](
        name="notes", version=1, initial=[], evolve=lambda state, _: state, document=lambda _: {}
    )
    await run_projection(store, "main", texts, checkpoint)
    assert await run_projection(store, "main", NOTES, checkpoint) == projected(4)


async def test_state_and_position_are_saved_together_now_and_then_and_never_within_a_commit(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the process ends, what is found fits together."""
    monkeypatch.setattr(checkpoints, "PAGES_A_SAVE", 1)
    found: list[bytes | None] = []

    class Watched:
        blocks = checkpoint.blocks
        load = staticmethod(checkpoint.load)

        def save(self, name: str, session: str, saved: bytes) -> None:
            checkpoint.save(name, session, saved)
            found.append(checkpoint.load(name, session))

    store = Opened(Paging(told(9)))
    assert await run_projection(store, "main", NOTES, Watched()) == projected(18)
    assert len(found) > 3
    for saved in found:
        assert saved is not None
        begun = MemoryCheckpoint()
        begun.save("notes", "main", saved)
        FOLDED.clear()
        assert await run_projection(store, "main", NOTES, begun) == projected(18)
        assert list(range(20 - len(FOLDED), 20)) == FOLDED


class Paging(MemoryLog):
    """A log whose pages are short."""

    def __init__(self, story: Story) -> None:
        super().__init__()
        stored(self, story)

    def read(self, session: str, *, after: int, through: int, limit: int = 3) -> list[Row]:
        return super().read(session, after=after, through=through, limit=limit)


async def test_a_state_that_cannot_be_stored_is_refused_with_its_projection(checkpoint: Checkpoint) -> None:
    strange = Projection[object](
        name="strange", version=1, initial=0, evolve=lambda _, __: object(), document=lambda _: {}
    )
    with pytest.raises(InvalidValue, match="the state of the projection 'strange' cannot be stored"):
        await run_projection(Opened(stored(MemoryLog(), told(1))), "main", strange, checkpoint)
    assert checkpoint.load("strange", "main") is None


async def test_a_session_that_is_not_there_is_not_projected(checkpoint: Checkpoint) -> None:
    with pytest.raises(NotFound):
        await run_projection(Opened(MemoryLog()), "main", NOTES, checkpoint)

"""Reading a log on and on."""

from collections.abc import Callable

import pytest

from pi_actors.actors.agent.messages import EntryAppended
from pi_actors.actors.generation.messages import Delta, PartialStreamed
from pi_actors.core.errors import LogCorrupt, NotFound, StoreError
from pi_actors.core.messages import user_message
from pi_actors.core.record import Commit
from pi_actors.storage.log import PAGE_ROWS, Head, Log, Row
from pi_actors.storage.memory import MemoryLog
from projections.replay import TOPICS
from projections.tail import Tail
from tests.projections.stored import stored
from tests.projections.story import ROOT, Story


def tail_of(log: Log, after: int = 0) -> Tail:
    return Tail(log, TOPICS, "main", after=after)


def told(commits: int, text: str = "x", each: int = 1) -> Story:
    story = Story()
    story.spawn_root()
    for _ in range(commits - 1):
        story.commit(*[(ROOT, EntryAppended(kind="note", messages=(user_message(text),)))] * each)
    return story


def all_of(tail: Tail) -> list[Commit]:
    commits: list[Commit] = []
    while page := tail.read():
        commits += page
    return commits


def test_a_tail_gives_every_commit_once_and_goes_on_where_it_ended() -> None:
    log, story = MemoryLog(), told(3)
    tail = tail_of(stored(log, story))
    assert all_of(tail) == story.commits
    assert tail.read() == []
    known = len(story.commits)
    story.commit((ROOT, EntryAppended(kind="note")), (ROOT, EntryAppended(kind="note")))
    stored(log, story)
    assert all_of(tail) == story.commits[known:]


def test_a_tail_starts_after_any_commit() -> None:
    story = told(5, each=2)
    log = stored(MemoryLog(), story)
    for known in range(len(story.commits)):
        assert all_of(tail_of(log, story.commits[known][-1].position)) == story.commits[known + 1 :]


def test_a_commit_that_crosses_the_border_of_a_page_is_given_whole() -> None:
    story = told(2 * PAGE_ROWS // 3, each=3)
    assert all_of(tail_of(stored(MemoryLog(), story))) == story.commits


def test_a_commit_longer_than_a_page_is_given_whole() -> None:
    story = told(2, each=2 * PAGE_ROWS + 1)
    assert all_of(tail_of(stored(MemoryLog(), story))) == story.commits


def test_a_tail_stops_at_the_last_commit_that_ends_by_a_position() -> None:
    story = told(3, each=2)
    tail = tail_of(stored(MemoryLog(), story))
    assert tail.read(to=4) == story.commits[:2]
    assert tail.read(to=4) == []
    assert all_of(tail) == story.commits[2:]


def test_a_session_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound, match="the store has no session 'main'; its sessions are: none"):
        tail_of(MemoryLog()).read()


class Exchangeable(MemoryLog):
    """A store whose file can be replaced."""

    def become(self, other: MemoryLog) -> None:
        self.__dict__ = other.__dict__


def replaced(by: Story, after: Story) -> Tail:
    log = Exchangeable()
    tail = tail_of(stored(log, after))
    assert all_of(tail) == after.commits
    log.become(stored_anew(by))
    return tail


def stored_anew(story: Story) -> MemoryLog:
    log = MemoryLog()
    stored(log, story)
    return log


@pytest.mark.parametrize("commits", [1, 3, 4, 9])
def test_a_log_that_was_replaced_by_another_is_noticed_before_anything_of_it_is_given(commits: int) -> None:
    tail = replaced(told(commits, text="another"), after=told(3))
    if commits == 3:
        assert tail.read() == []  # nothing has come that could be told apart
        return
    with pytest.raises(StoreError, match=r"is not the one that was read up to position 3.*follow it again"):
        tail.read()


def test_a_copy_that_was_put_in_the_place_of_the_log_is_read_on() -> None:
    story = told(3)
    longer = told(5)
    assert all_of(replaced(longer, after=story)) == longer.commits[3:]


class Scavenging(MemoryLog):
    """A store from which rows may go."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: set[int] = set()

    def head(self, session: str) -> Head | None:
        head = super().head(session)
        if head is None or not self.gone:
            return head
        return Head(
            session=head.session,
            epoch=head.epoch,
            position=head.position,
            format=head.format,
            scavenged_to=max(self.gone),
            live=head.live,
            updated_us=head.updated_us,
        )

    def read(self, session: str, *, after: int, through: int, limit: int = PAGE_ROWS) -> list[Row]:
        rows = super().read(session, after=after, through=through, limit=limit)
        return [row for row in rows if row.position not in self.gone]


def test_progress_that_was_scavenged_behind_a_tail_is_no_other_log() -> None:
    log, story = Scavenging(), told(3, each=2)
    tail = tail_of(stored(log, story))
    assert all_of(tail) == story.commits
    log.gone = {4, 5}
    assert tail.read() == []
    known = len(story.commits)
    story.commit((ROOT, EntryAppended(kind="note")))
    stored(log, story)
    assert all_of(tail) == story.commits[known:]


def test_what_is_left_of_a_commit_whose_end_was_scavenged_is_given() -> None:
    log, story = Scavenging(), told(4, each=2)
    stored(log, story)
    log.gone = {3, 5}
    commits = all_of(tail_of(log))
    assert [[each.position for each in commit] for commit in commits] == [[1], [2], [4], [6, 7]]
    assert [commit[-1].end for commit in commits] == [1, 3, 5, 7]


class Raced(MemoryLog):
    """A store from which rows go after a reader has looked at the head and before it reads the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.before_reading: Callable[[], object] | None = None

    def read(self, session: str, *, after: int, through: int, limit: int = PAGE_ROWS) -> list[Row]:
        race, self.before_reading = self.before_reading, None
        if race is not None:
            race()
        return super().read(session, after=after, through=through, limit=limit)


def streamed(*, partials: int) -> Story:
    """A root, something that streamed, and a note; each is a commit."""
    story = Story()
    story.spawn_root()
    for _ in range(partials):
        story.commit((ROOT, PARTIAL))
    story.commit((ROOT, EntryAppended(kind="note")))
    return story


PARTIAL = PartialStreamed(deltas=(Delta(part=0, type="text", text="so far"),))


def ends(commits: list[Commit]) -> list[int]:
    return [commit[-1].end for commit in commits]


def test_rows_that_go_between_a_look_at_the_head_and_the_reading_are_no_damage() -> None:
    log = Raced()
    stored(log, streamed(partials=4))
    tail = tail_of(log)
    log.before_reading = lambda: log.scavenge("main", epoch=1, positions=[5, 4], through=6)
    assert ends(tail.read()) == [1, 2, 3]
    assert tail.exact_from == 0
    assert ends(tail.read()) == [6]
    assert tail.exact_from == 6
    assert tail.read() == []


def test_states_are_exact_up_to_a_gap_and_again_from_where_the_head_says() -> None:
    log, story = MemoryLog(), streamed(partials=4)
    story.commit((ROOT, EntryAppended(kind="note")))
    stored(log, story)
    assert log.scavenge("main", epoch=1, positions=[5, 4], through=7) is None
    tail = tail_of(log)
    assert (ends(tail.read()), tail.exact_from) == ([1, 2, 3], 0)
    assert (ends(tail.read()), tail.exact_from) == ([6, 7], 7)


def test_where_nothing_is_missing_all_is_exact_whatever_the_head_says() -> None:
    log = MemoryLog()
    stored(log, streamed(partials=4))
    log.scavenge("main", epoch=1, positions=[], through=6)
    tail = tail_of(log)
    assert (ends(all_of(tail)), tail.exact_from) == ([1, 2, 3, 4, 5, 6], 0)


def test_a_gap_below_the_known_mark_may_be_newer_than_the_mark() -> None:
    """What is missing there may still be in later states than the mark says, so the head tells anew."""
    log, story = Raced(), streamed(partials=4)
    for _ in range(3):
        story.commit((ROOT, EntryAppended(kind="note")))
    stored(log, story)
    log.scavenge("main", epoch=1, positions=[5], through=6)
    tail = tail_of(log, after=2)
    log.before_reading = lambda: log.scavenge("main", epoch=1, positions=[4, 3], through=8)
    assert (ends(tail.read()), tail.exact_from) == ([6, 7, 8, 9], 8)


def test_many_gaps_do_not_make_many_pages() -> None:
    story = Story()
    story.spawn_root()
    for _ in range(300):
        story.commit((ROOT, PARTIAL))
        story.commit((ROOT, EntryAppended(kind="note")))
    log = MemoryLog()
    stored(log, story)
    for position in range(2, 601, 2):
        log.scavenge("main", epoch=1, positions=[position], through=601)
    tail = tail_of(log)
    assert [len(commits) for commits in (tail.read(), tail.read(), tail.read())] == [1, 300, 0]
    assert tail.exact_from == 601


def test_rows_that_are_missing_beyond_what_was_scavenged_meanwhile_are_damage() -> None:
    log = Raced()
    stored(log, streamed(partials=6))

    def race() -> None:
        log.scavenge("main", epoch=1, positions=[6, 5], through=6)
        log.recorder.forget("main", 7)

    tail = tail_of(log, after=4)
    log.before_reading = race
    with pytest.raises(LogCorrupt, match="damaged at position 7"):
        tail.read()


@pytest.mark.parametrize("missing", [(3,), (4, 5), (6,)])
def test_missing_rows_that_were_not_scavenged_are_damage(missing: tuple[int, ...]) -> None:
    """A reader reports them by position, as an opener does."""
    log = Holey(missing)
    stored(log, told(6))
    with pytest.raises(LogCorrupt, match=f"damaged at position {missing[0]}") as caught:
        all_of(tail_of(log))
    assert caught.value.position == missing[0]


class Holey(MemoryLog):
    """A log from which rows have gone."""

    def __init__(self, missing: tuple[int, ...]) -> None:
        super().__init__()
        self._missing = missing

    def read(self, session: str, *, after: int, through: int, limit: int = PAGE_ROWS) -> list[Row]:
        rows = super().read(session, after=after, through=through, limit=limit)
        return [row for row in rows if row.position not in self._missing]

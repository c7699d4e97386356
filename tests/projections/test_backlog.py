"""How much of a view's past is kept for those who are slow."""

from datetime import UTC, datetime

from projections.backlog import FRAMES_MAX, Backlog
from projections.frames import Frame, Op

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def snapshot(position: int) -> Frame:
    return Frame(position=position, at=NOW, snapshot={"x": position})


def step(position: int) -> Frame:
    return Frame(position=position, at=NOW, ops=(Op(op="set", path=("x",), value=position),))


def grown(*positions: int) -> Backlog:
    backlog = Backlog(snapshot(1))
    for position in positions:
        backlog.add([step(position)], snapshot(position))
    return backlog


def test_the_frame_after_a_position_is_the_first_one_beyond_it() -> None:
    backlog = grown(3, 7)
    assert [backlog.next(position) for position in range(1, 8)] == [
        step(3),
        step(3),
        step(7),
        step(7),
        step(7),
        step(7),
        None,
    ]


def test_who_lags_by_a_hundred_frames_gets_them_all_and_who_lags_by_more_a_snapshot() -> None:
    backlog = grown(*range(2, FRAMES_MAX + 2))
    assert backlog.next(1) == step(2)
    backlog.add([step(FRAMES_MAX + 2)], snapshot(FRAMES_MAX + 2))
    assert backlog.next(1) == snapshot(FRAMES_MAX + 2)
    assert backlog.next(2) == step(3)
    assert backlog.next(FRAMES_MAX + 2) is None


def test_commits_that_change_nothing_move_the_position_and_cost_no_frame() -> None:
    backlog = grown(3)
    for position in range(4, 1_000):
        backlog.add([], snapshot(position))
    assert backlog.now == snapshot(999)
    assert backlog.next(1) == step(3)
    assert backlog.next(3) is None

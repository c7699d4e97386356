"""The viewers benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples

HOSTS = ("the writer's process", "its own process")
WATCHED = {
    "over unwatched",
    "delay",
    "delay, p99",
    "frames",
    "snapshots",
    "received",
    "viewers behind",
    "server at start",
    "server at end",
    "writer at start",
    "writer at end",
}
LATE = {"late", "late, p99"}


def test_writers_are_measured_unwatched_and_watched_with_the_server_beside_them_and_in_them(
    tmp_path: Path,
) -> None:
    report = quickly("viewers", tmp_path)
    expected: dict[str, set[str]] = {}
    for pace, late in (("steady", LATE), ("full speed", set[str]())):
        for host in HOSTS:
            name = f"{pace}, server in {host}"
            expected[f"{name}, none watch"] = {"commits"} | late
            expected[f"{name}, 4 viewers, 1 stuck"] = {"commits"} | late | WATCHED
    assert quantities(report) == expected
    steady, full_speed = [5, 5, 20, 32, 32], [0.5]
    assert [criterion["limit"] for criterion in report["criteria"]] == 2 * steady + 2 * full_speed


def test_viewers_that_read_see_all_that_was_written_beside_one_that_is_stuck(tmp_path: Path) -> None:
    report = quickly("viewers", tmp_path)
    for host in HOSTS:
        case = f"steady, server in {host}, 4 viewers, 1 stuck"
        assert samples(report, case, "viewers behind") == [0]
        frames, snapshots = samples(report, case, "frames"), samples(report, case, "snapshots")
        assert frames[0] + snapshots[0] > 0


def test_the_largest_costs_are_shown_when_asked_for(tmp_path: Path) -> None:
    assert "The thread that serves:" in quickly("viewers", tmp_path, "--profile")["profile"]

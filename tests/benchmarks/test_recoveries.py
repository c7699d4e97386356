"""The recoveries benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples


def test_killed_agents_are_answered_and_the_floor_does_as_much_reading_and_writing(tmp_path: Path) -> None:
    report = quickly("recoveries", tmp_path)
    measured = {
        "ours",
        "recoveries",
        "floor",
        "ours / floor",
        "rows read",
        "rows written",
        "commits",
        "fsyncs",
    }
    assert quantities(report) == {"2 agents, sessions": measured, "3 agents, one session": measured}
    for case in quantities(report):
        (rows_written,) = samples(report, case, "rows written")
        (commits,) = samples(report, case, "commits")
        assert rows_written > commits > 0


def test_the_largest_costs_are_shown_when_asked_for(tmp_path: Path) -> None:
    report = quickly("recoveries", tmp_path, "--profile")
    assert "2 agents, sessions:" in report["profile"]
    assert "3 agents, one session:" in report["profile"]

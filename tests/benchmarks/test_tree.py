"""The tree benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples


def test_both_agents_are_timed_in_turn(tmp_path: Path) -> None:
    report = quickly("tree", tmp_path)
    measured = {"none finished", "20 finished", "ratio"}
    assert quantities(report) == {"a write, 5 live": measured, "a work actor, 5 live": measured}
    assert len(samples(report, "a write, 5 live", "ratio")) == 2
    assert [criterion["limit"] for criterion in report["criteria"]] == [1.2, 1.2]


def test_the_largest_costs_are_shown_when_asked_for(tmp_path: Path) -> None:
    assert "20 finished:" in quickly("tree", tmp_path, "--profile")["profile"]

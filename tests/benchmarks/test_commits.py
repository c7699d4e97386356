"""The commits benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples


def test_both_layouts_are_measured_beside_the_floor(tmp_path: Path) -> None:
    report = quickly("commits", tmp_path)
    measured = {"ours", "floor", "ours / floor", "ours / bare floor", "fsyncs a commit"}
    assert quantities(report) == {
        "1 agent, sessions": measured,
        "4 agents, sessions": measured,
        "1 agent, one session": measured,
        "4 agents, one session": measured,
    }
    assert [criterion["limit"] for criterion in report["criteria"]] == [1.5, 1.5]


def test_a_commit_of_a_lone_agent_is_a_transaction_of_its_own(tmp_path: Path) -> None:
    report = quickly("commits", tmp_path)
    assert samples(report, "1 agent, sessions", "fsyncs a commit") == [1]
    assert samples(report, "1 agent, one session", "fsyncs a commit") == [1]


def test_the_largest_costs_are_shown_when_asked_for(tmp_path: Path) -> None:
    report = quickly("commits", tmp_path, "--profile")
    assert "encode_row" in report["profile"]

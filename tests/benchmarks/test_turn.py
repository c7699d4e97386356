"""The turn benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples


def test_a_turn_with_a_tool_of_policy_never_takes_five_fsyncs(tmp_path: Path) -> None:
    report = quickly("turn", tmp_path)
    assert quantities(report) == {"2 turns": {"fsyncs a turn", "bytes a turn", "time of a turn"}}
    assert samples(report, "2 turns", "fsyncs a turn") == [5]
    assert [criterion["limit"] for criterion in report["criteria"]] == [5, 3584]

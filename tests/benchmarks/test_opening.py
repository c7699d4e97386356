"""The opening benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples


def test_both_sessions_are_opened_as_they_were_left_in_each_way(tmp_path: Path) -> None:
    report = quickly("opening", tmp_path)
    measured = {
        "600 events",
        "600: memory",
        "200 events",
        "200: memory",
        "time ratio",
        "memory ratio",
    }
    assert quantities(report) == {
        "killed, 2 live": measured,
        "closed, 2 live": measured,
        "no snapshots, 2 live": measured,
        "5 idle agents of 3 entries": {"resident", "passive", "opened passive"},
    }
    assert len(samples(report, "killed, 2 live", "time ratio")) == 1
    assert [criterion["limit"] for criterion in report["criteria"]] == [2, 1.2, 2, 1.2, 1]
    assert report["criteria"][-1]["met"]

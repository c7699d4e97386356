"""The conversation benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples


def test_a_conversation_goes_through_a_small_window(tmp_path: Path) -> None:
    report = quickly("conversation", tmp_path)
    assert quantities(report) == {
        "36 turns": {
            "bytes a turn up to turn 12",
            "bytes a turn up to turn 36",
            "growth",
            "largest request",
            "requests for summaries",
            "time of a turn",
        }
    }
    assert samples(report, "36 turns", "largest request")[0] < 4_000
    assert samples(report, "36 turns", "requests for summaries")[0] >= 2
    assert [criterion["limit"] for criterion in report["criteria"]] == [1.2, 4_000]

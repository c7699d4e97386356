"""The growth benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly, samples

SIZE = {"file", "streamed", "left"}
COMMITS = {"commits", "commit, p50", "commit, p99", "commit, longest"}


def test_what_streamed_is_stored_and_goes_unless_it_is_kept(tmp_path: Path) -> None:
    report = quickly("growth", tmp_path)
    assert quantities(report) == {
        "answers of 100, without progress": SIZE,
        "answers of 100, scavenged": SIZE | {"over without progress"},
        "a single answer, without progress": SIZE,
        "a single answer, scavenged": SIZE | {"over without progress"},
        "beside another agent, scavenged": SIZE | COMMITS,
        "beside another agent, kept": SIZE | COMMITS,
    }
    for case in quantities(report):
        streamed, left = samples(report, case, "streamed"), samples(report, case, "left")
        assert streamed == [0 if "without" in case else 200]
        assert left == [200 if "kept" in case else 0]
    assert [criterion["limit"] for criterion in report["criteria"]] == [1.5, 1.5]

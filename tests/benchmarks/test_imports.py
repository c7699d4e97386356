"""The imports benchmark measures what it says."""

from pathlib import Path

from tests.benchmarks.running import quantities, quickly


def test_imports_are_timed_with_and_without_the_package(tmp_path: Path) -> None:
    report = quickly("imports", tmp_path)
    timed = {"libraries", "with pi_actors"}
    assert quantities(report) == {"import": timed | {f"{name}, processor" for name in timed}}
    assert [criterion["limit"] for criterion in report["criteria"]] == [50]


def test_the_dearest_modules_are_named_when_asked_for(tmp_path: Path) -> None:
    assert " pi_actors." in quickly("imports", tmp_path, "--profile")["profile"]

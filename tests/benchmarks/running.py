"""Benchmarks run as people run them, but quickly. Nothing here judges speed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).parents[2]

KEYS: Final = {"benchmark", "quick", "method", "machine", "cases", "criteria", "profile"}
FACTS: Final = {"cores", "system", "python", "sqlite", "fsync_us", "load"}


def quickly(name: str, folder: Path, *options: str) -> dict[str, Any]:
    """The JSON of a quick run whose stores lay in *folder*; checks what every benchmark promises."""
    file = folder / "report.json"
    command = [sys.executable, "-m", "benchmarks", name, "--quick", *options]
    ended = subprocess.run(
        [*command, "--folder", str(folder), "--json", str(file)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    report: dict[str, Any] = json.loads(file.read_text())
    assert report.keys() == KEYS
    assert report["machine"].keys() == FACTS
    assert (report["benchmark"], report["quick"]) == (name, True)
    assert report["method"] in ended.stdout
    for case in report["cases"]:
        assert case["name"] in ended.stdout
        assert all(series["samples"] for series in case["series"].values())
    return report


def quantities(report: dict[str, Any]) -> dict[str, set[str]]:
    """What was measured, by case."""
    return {case["name"]: set(case["series"]) for case in report["cases"]}


def samples(report: dict[str, Any], case: str, quantity: str) -> list[float]:
    """The samples of one quantity."""
    (found,) = [each for each in report["cases"] if each["name"] == case]
    taken: list[float] = found["series"][quantity]["samples"]
    return taken

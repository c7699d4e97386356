"""Every snippet of the README runs, and says what the README says it does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

PRINTED = [
    "It has five words.\n",
    "Done.\nsent to ada@example.org\n",
    "completed ['pi.compaction', 'pi.assistant', 'pi.user', 'pi.assistant']\n",
    "completed paid None 4\nfailed None a card was declined 4\n",
]


@pytest.mark.parametrize(("snippet", "printed"), list(zip(SNIPPETS, PRINTED, strict=True)))
def test_a_snippet_prints_the_same_the_first_and_the_second_time(
    snippet: str, printed: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("one two three four five\n")
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", snippet],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.stdout, ran.stderr) == (printed, "")


def test_every_benchmark_is_named() -> None:
    assert sorted(re.findall(r"-m benchmarks (\w+)", README)) == sorted(BENCHMARKS)


def test_the_first_agent_fits_in_fifteen_lines_of_code() -> None:
    code = [line for line in SNIPPETS[0].splitlines() if line.strip() and not line.startswith("#")]
    assert len([line for line in code if not line.startswith(("import", "from"))]) <= 15


def test_the_files_on_the_reading_path_exist() -> None:
    named = re.findall(r"`(\w+/[\w/.]+)`", README)
    assert len(named) > 20
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "pi_actors" / name).exists(), name

"""What ``import pi_actors`` costs a program that has imported its libraries already."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.machine import machine
from benchmarks.report import Case, Options, Report, Series, at_most

METHOD: Final = """\
New processes with warm bytecode and file caches time their own imports, with and without pi_actors in turn.
Each cell: median (least .. most); the cost is the difference of the two medians. Processor time, which other
programs disturb less, stands beside it."""

LIBRARIES: Final = "import trio, msgspec, eventsourcing.sqlite"
EVERYTHING: Final = f"{LIBRARIES}, pi_actors"
TIMED: Final = """\
import time
start, used = time.perf_counter(), time.process_time()
{}
print(time.perf_counter() - start, time.process_time() - used)
"""
COST_MS_MAX: Final = 50
STARTS: Final = 10
STARTS_QUICK: Final = 1
PROJECT: Final = Path(__file__).parents[1]


class Sample(NamedTuple):
    """What one process took for its imports."""

    ms: float
    cpu_ms: float


def measure(options: Options) -> Report:
    """Start both programs in turn."""
    facts = machine(options.folder)
    with TemporaryDirectory(dir=options.folder) as bytecode:
        _started(bytecode, "-c", EVERYTHING)
        libraries: list[Sample] = []
        everything: list[Sample] = []
        for _ in range(STARTS_QUICK if options.quick else STARTS):
            libraries.append(_sampled(bytecode, LIBRARIES))
            everything.append(_sampled(bytecode, EVERYTHING))
        profile = _profiled(bytecode) if options.profile else ""
    case = Case(
        name="import",
        series={
            "libraries": Series(unit="ms", samples=tuple(sample.ms for sample in libraries)),
            "with pi_actors": Series(unit="ms", samples=tuple(sample.ms for sample in everything)),
            "libraries, processor": Series(unit="ms", samples=tuple(sample.cpu_ms for sample in libraries)),
            "with pi_actors, processor": Series(
                unit="ms", samples=tuple(sample.cpu_ms for sample in everything)
            ),
        },
    )
    cost = case.series["with pi_actors"].median - case.series["libraries"].median
    return Report(
        benchmark="imports",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=(case,),
        criteria=(at_most("ms of `import pi_actors` beyond its libraries", cost, COST_MS_MAX),),
        profile=profile,
    )


def _sampled(bytecode: str, imports: str) -> Sample:
    seconds, cpu_seconds = map(float, _started(bytecode, "-c", TIMED.format(imports)).stdout.split())
    return Sample(1_000 * seconds, 1_000 * cpu_seconds)


def _started(bytecode: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """What another process said. It keeps its bytecode where *bytecode* says, whatever ours does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env={**environment, "PYTHONPYCACHEPREFIX": bytecode},
        capture_output=True,
        text=True,
        check=True,
    )


def _profiled(bytecode: str, lines: int = 25) -> str:
    """The modules that take longest by themselves, as Python's own report says."""
    program = f"{LIBRARIES}; import sys; print('|', file=sys.stderr); import pi_actors"
    said = _started(bytecode, "-X", "importtime", "-c", program).stderr
    _, _, ours = said.partition("\n|\n")
    costs = sorted(ours.splitlines(), key=lambda line: -int(line.partition(":")[2].split("|")[0]))
    return "\n".join(["Modules by microseconds of their own, and with what they import:", *costs[:lines]])

"""How stores grow: each part streams, talks or works in its own way and says how large the file became."""

from collections.abc import Callable
from typing import Final, TypeAlias

from benchmarks import streaming
from benchmarks.machine import machine
from benchmarks.report import Options, Part, Report

Measure: TypeAlias = Callable[[Options], Part]

PARTS: Final[tuple[Measure, ...]] = (streaming.measure,)
"""What is measured. A part has a module of its own; its cases and criteria are named after it."""


def measure(options: Options) -> Report:
    """Measure every part."""
    facts = machine(options.folder)
    parts = [part(options) for part in PARTS]
    return Report(
        benchmark="growth",
        quick=options.quick,
        method="\n\n".join(part.method for part in parts),
        machine=facts,
        cases=tuple(case for part in parts for case in part.cases),
        criteria=tuple(criterion for part in parts for criterion in part.criteria),
    )

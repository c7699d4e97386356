"""What a benchmark found: samples, the criteria they are held against, and how both are shown."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.machine import Machine


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to measure. ``folder``: where stores are made; None leaves it to the system."""

    quick: bool = False
    profile: bool = False
    folder: Path | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The samples of one quantity, one a round, in the order they were taken."""

    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: a workload and what was measured of it, by name."""

    name: str
    series: dict[str, Series]


class Criterion(msgspec.Struct, frozen=True, kw_only=True):
    """A promise and the measured median it is held against."""

    promise: str
    measured: float
    bound: Literal["at most", "at least"]
    limit: float
    met: bool


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run found. ``profile``: where the time went, as text, if it was asked for."""

    benchmark: str
    quick: bool
    method: str
    machine: Machine
    cases: tuple[Case, ...]
    criteria: tuple[Criterion, ...]
    profile: str = ""


def at_most(promise: str, measured: float, limit: float) -> Criterion:
    """The promise that *measured* does not exceed *limit*."""
    return Criterion(promise=promise, measured=measured, bound="at most", limit=limit, met=measured <= limit)


def at_least(promise: str, measured: float, limit: float) -> Criterion:
    """The promise that *measured* reaches *limit*."""
    return Criterion(promise=promise, measured=measured, bound="at least", limit=limit, met=measured >= limit)


def ratios(above: Sequence[float], below: Sequence[float], unit: str = "x") -> Series:
    """The quotients of two series, round by round."""
    return Series(unit=unit, samples=tuple(a / b for a, b in zip(above, below, strict=True)))


def as_text(report: Report) -> str:
    """The report for people: what was measured, on what, medians with (least .. most), criteria."""
    blocks = [
        f"{report.benchmark}{' (quick: a smoke run, no measurement)' if report.quick else ''}",
        report.method,
        report.machine.as_text(),
        _table(report.cases),
        "\n".join(map(_line, report.criteria)),
        report.profile,
    ]
    return "\n\n".join(block for block in blocks if block)


def _table(cases: Sequence[Case]) -> str:
    columns = list(dict.fromkeys(name for case in cases for name in case.series))
    lines = [["", *columns]]
    for case in cases:
        lines.append([case.name, *(_cell(case.series.get(column)) for column in columns)])
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns) + 1)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cell(series: Series | None) -> str:
    if series is None:
        return "-"
    least, most = _number(min(series.samples)), _number(max(series.samples))
    return f"{_number(series.median)} {series.unit} ({least} .. {most})".replace("  ", " ")


def _number(value: float) -> str:
    if value == round(value) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(criterion: Criterion) -> str:
    verdict = "met" if criterion.met else "NOT MET"
    return (
        f"{verdict:>7}  {criterion.promise}: {_number(criterion.measured)}"
        f" ({criterion.bound} {_number(criterion.limit)})"
    )

"""Whether opening a session costs more the longer its log is, and what an idle agent costs."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from benchmarks.long_logs import make_conversation, make_crowd
from benchmarks.machine import machine
from benchmarks.opening_programs import Idle, Opened
from benchmarks.report import Case, Criterion, Options, Report, Series, at_least, at_most, ratios

METHOD: Final = """\
Two sessions, a long and a short one, each with live actors that wait for a far deadline and contexts that are
reset now and then. Fresh processes open them in turn, until open_session is entered; memory is the process's
largest so far. "killed": their process died just before the next snapshot was due; "closed": in order;
"no snapshots": all were deleted. Idle agents are measured by Python's allocations: with what they remember,
after they gave it up, and in a session that is opened with all of them passive.
Each cell: median (least .. most) of the rounds."""

TIME_MAX: Final = 2.0
MEMORY_MAX: Final = 1.2
PROJECT: Final = Path(__file__).parents[1]

T = TypeVar("T")


class Sizes(NamedTuple):
    """How much is measured. ``whole``: rounds without snapshots. ``tail``: events after the newest one."""

    long: int
    short: int
    live: int
    tail: int
    rounds: int
    whole: int
    agents: int
    entries: int


FULL: Final = Sizes(1_000_000, 10_000, 10, 9_900, 9, 1, 10_000, 20)
QUICK: Final = Sizes(600, 200, 2, 100, 1, 1, 5, 3)

Rounds: TypeAlias = tuple[list[Opened], list[Opened]]
"""Of the long session and of the short one."""


def measure(options: Options) -> Report:
    """Open both sessions in turn, as they were left in each way."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    with TemporaryDirectory(dir=options.folder) as made:
        stores = (Path(made, "long.db"), Path(made, "short.db"))
        for store, events in zip(stores, (sizes.long, sizes.short), strict=True):
            make_conversation(store, events=events, live=sizes.live, tail=sizes.tail)
        killed = _opened(stores, sizes.rounds)
        equal = all(_told("compare", store, bool) for store in stores)
        for store in stores:
            _told("close", store, str)
        closed = _opened(stores, sizes.rounds)
        bare = _opened(stores, sizes.whole, before=_delete_snapshots)
        crowd = Path(made, "crowd.db")
        make_crowd(crowd, agents=sizes.agents, entries=sizes.entries)
        idle = _told("idle", crowd, Idle)
    return Report(
        benchmark="opening",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=(
            _case("killed", killed, sizes),
            _case("closed", closed, sizes),
            _case("no snapshots", bare, sizes),
            _idle_case(idle, sizes),
        ),
        criteria=(
            *_criteria("killed", killed),
            *_criteria("closed", closed),
            at_least("the newest snapshot and its tail give the state of the whole log", equal, 1),
        ),
    )


def _opened(
    stores: tuple[Path, Path], rounds: int, *, before: Callable[[Path], None] = lambda _: None
) -> Rounds:
    """Each store opened by processes of their own, in turn."""
    found: Rounds = ([], [])
    for number in range(rounds):
        order = [*zip(stores, found, strict=True)]
        for store, taken in order if number % 2 else reversed(order):
            before(store)
            taken.append(_told("open", store, Opened))
    return found


def _case(name: str, rounds: Rounds, sizes: Sizes) -> Case:
    series: dict[str, Series] = {}
    for events, opened in zip((sizes.long, sizes.short), rounds, strict=True):
        times = tuple(1_000 * each.seconds for each in opened)
        series[f"{events:,} events"] = Series(unit="ms", samples=times)
        series[f"{events:,}: memory"] = Series(unit="MB", samples=tuple(each.peak_mb for each in opened))
    return Case(
        name=f"{name}, {sizes.live} live",
        series=series | {"time ratio": _times(rounds), "memory ratio": _memory(rounds)},
    )


def _times(rounds: Rounds) -> Series:
    long, short = rounds
    return ratios([each.seconds for each in long], [each.seconds for each in short])


def _memory(rounds: Rounds) -> Series:
    long, short = rounds
    return ratios([each.peak_mb for each in long], [each.peak_mb for each in short])


def _criteria(name: str, rounds: Rounds) -> tuple[Criterion, ...]:
    return (
        at_most(f"{name}: time to open the long session over the short one", _times(rounds).median, TIME_MAX),
        at_most(f"{name}: memory of the long session over the short one", _memory(rounds).median, MEMORY_MAX),
    )


def _idle_case(idle: Idle, sizes: Sizes) -> Case:
    return Case(
        name=f"{sizes.agents:,} idle agents of {sizes.entries} entries",
        series={
            "resident": Series(unit="bytes", samples=(idle.resident,)),
            "passive": Series(unit="bytes", samples=(idle.passive,)),
            "opened passive": Series(unit="bytes", samples=(idle.reopened,)),
        },
    )


def _delete_snapshots(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("DELETE FROM snapshots")


def _told(what: str, store: Path, kind: type[T]) -> T:
    """What a process of its own says."""
    program = [sys.executable, "-m", "benchmarks.opening_programs", what, str(store)]
    said = subprocess.run(program, cwd=PROJECT, stdout=subprocess.PIPE, check=True).stdout
    return msgspec.json.decode(said, type=kind)

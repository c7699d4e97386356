"""How fast agents go on after kill -9, each with a tool whose effect is unknown."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

from benchmarks.floor import Row, connected
from benchmarks.machine import machine
from benchmarks.recovery_programs import LAYOUTS, Layout, Measured, NewRow, Workload
from benchmarks.report import Case, Options, Report, Series, ratios

METHOD: Final = """\
A process starts the agents, each with a tool of policy never that is running, and is killed with SIGKILL. A
new process opens the store and brings every agent to an answer; timed from opening to the last answer. The
floor is written by hand on sqlite3 and msgspec: a new process reads as many rows of the same bytes, decodes
them and stores as many as the recovery did, in the same commits. Ours and floor in turn; each cell: median
(least .. most) of the rounds."""

PROJECT: Final = Path(__file__).parents[1]


class Sizes(NamedTuple):
    """How much is measured: rounds, and the number of agents of each layout."""

    rounds: int
    agents: dict[Layout, int]


FULL: Final = Sizes(5, {"sessions": 100, "one session": 1_000})
QUICK: Final = Sizes(1, {"sessions": 2, "one session": 3})


class Sample(NamedTuple):
    """One crash, its recovery and the floor of that."""

    ours: Measured
    floor: Measured
    rows_read: int
    rows_written: int
    commits: int


def measure(options: Options) -> Report:
    """Crash, recover, and run the floor, for each layout in turn."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    samples: dict[Layout, list[Sample]] = {layout: [] for layout in LAYOUTS}
    for _ in range(sizes.rounds):
        for layout, taken in samples.items():
            with TemporaryDirectory(dir=options.folder) as made:
                taken.append(_sampled(Path(made), layout, sizes.agents[layout]))
    return Report(
        benchmark="recoveries",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=tuple(_case(layout, sizes.agents[layout], taken) for layout, taken in samples.items()),
        criteria=(),
        profile=_profiled(options.folder, sizes) if options.profile else "",
    )


def _case(layout: Layout, agents: int, samples: Sequence[Sample]) -> Case:
    ours = [sample.ours.seconds for sample in samples]
    floor = [sample.floor.seconds for sample in samples]
    return Case(
        name=f"{agents} agents, {layout}",
        series={
            "ours": Series(unit="s", samples=tuple(ours)),
            "recoveries": Series(unit="/s", samples=tuple(agents / seconds for seconds in ours)),
            "floor": Series(unit="s", samples=tuple(floor)),
            "ours / floor": ratios(ours, floor),
            "rows read": _counts(samples, "rows_read"),
            "rows written": _counts(samples, "rows_written"),
            "commits": _counts(samples, "commits"),
            "fsyncs": Series(unit="", samples=tuple(sample.ours.transactions for sample in samples)),
        },
    )


def _counts(samples: Sequence[Sample], field: str) -> Series:
    return Series(unit="", samples=tuple(getattr(sample, field) for sample in samples))


def _sampled(folder: Path, layout: Layout, agents: int) -> Sample:
    store = folder / "store.db"
    _start_and_kill(store, layout, agents)
    read = _rows(store)
    ours = _measured("recover", str(store), layout, str(agents))
    known = {row[:2] for row in read}
    commits = _commits([row for row in _rows(store) if row[:2] not in known])
    return Sample(
        ours=ours,
        floor=_floor(folder, read, commits, agents),
        rows_read=len(read),
        rows_written=sum(map(len, commits)),
        commits=len(commits),
    )


def _start_and_kill(store: Path, layout: Layout, agents: int) -> None:
    program = [*_PROGRAM, "start", str(store), layout, str(agents)]
    with subprocess.Popen(program, cwd=PROJECT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
        finally:
            os.kill(process.pid, signal.SIGKILL)
    assert said == b'"started"\n', said


def _floor(folder: Path, read: Sequence[Row], commits: Sequence[list[NewRow]], agents: int) -> Measured:
    """The floor's time for reading the rows *read* and storing *commits*, dealt out to the agents."""
    store, workload = folder / "floor.db", folder / "workload"
    with closing(connected(store)) as connection:
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", read)
    dealt: Workload = [list(commits[agent::agents]) for agent in range(agents)]
    workload.write_bytes(msgspec.msgpack.encode(dealt))
    return _measured("floor", str(store), str(workload))


def _commits(rows: Sequence[Row]) -> list[list[NewRow]]:
    """The rows by commit, unpacked, in the order of their sessions and positions."""
    commits: dict[tuple[str, int], list[NewRow]] = {}
    for session, position, topic, state in rows:
        fields = msgspec.msgpack.decode(state, type=list[msgspec.Raw])
        end = msgspec.msgpack.decode(fields[_END], type=int)
        row = NewRow(session=session, position=position, topic=topic, fields=msgspec.msgpack.decode(state))
        commits.setdefault((session, end), []).append(row)
    return list(commits.values())


def _rows(store: Path) -> list[Row]:
    """All rows of a store that nobody has open, which it leaves as it is."""
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
        query = "SELECT originator_id, originator_version, topic, state FROM stored_events ORDER BY 1, 2"
        return connection.execute(query).fetchall()


def _measured(*arguments: str) -> Measured:
    said = subprocess.run([*_PROGRAM, *arguments], cwd=PROJECT, stdout=subprocess.PIPE, check=True).stdout
    return msgspec.json.decode(said, type=Measured)


def _profiled(folder: Path | None, sizes: Sizes) -> str:
    """The costs of the thread that agents run in; reading and writing happen in others."""
    costs: list[str] = []
    for layout, agents in sizes.agents.items():
        with TemporaryDirectory(dir=folder) as made:
            store = Path(made, "store.db")
            _start_and_kill(store, layout, agents)
            costs.append(_measured("profile", str(store), layout, str(agents)).profile)
    return "\n\n".join(costs)


_PROGRAM: Final = (sys.executable, "-m", "benchmarks.recovery_programs")
_END: Final = 2
"""The place of a commit's end in a packed row."""

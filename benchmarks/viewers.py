"""What a crowd of viewers, some of them stuck, costs the session that they watch: nearly nothing."""

import math
import statistics
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from benchmarks.machine import machine
from benchmarks.report import Case, Criterion, Options, Report, Series, at_least, at_most, ratios
from benchmarks.viewer_programs import Pace, Until, Watched, Written

METHOD: Final = """\
A process writes a session, submit_write("note", data=...) one after another; another one holds all viewers,
which read server-sent events over HTTP on 127.0.0.1, and some that are stuck: they ask and read nothing. The
server is in the writer's process, or in one of its own that follows the SQLite file. Written at a steady rate
or at full speed, unwatched and watched in turn (which is first alternates), in new processes each round.
late: a commit's acknowledgement after the instant that it was due. delay: from a commit's own instant to its
frame, or a snapshot, at a viewer. MB: what a process holds in memory. Each cell: median (least .. most)."""

RATE: Final = 20.0
LATE_MS_MAX: Final = 5.0
"""A tenth of the interval at the steady rate."""

DELAY_MS_MAX: Final = 20.0
GROWN_MB_MAX: Final = 32.0
RATIO_MIN: Final = 0.5

Host: TypeAlias = Literal["the writer's process", "its own process"]
HOSTS: Final[tuple[Host, ...]] = ("the writer's process", "its own process")
PACES: Final[dict[str, float | None]] = {"steady": RATE, "full speed": None}

PROJECT: Final = Path(__file__).parents[1]

T = TypeVar("T")


class Sizes(NamedTuple):
    """How much is measured. ``seconds``: of writing, by pace."""

    rounds: int
    seconds: dict[str, float]
    viewers: int
    stuck: int


FULL: Final = Sizes(3, {"steady": 5.0, "full speed": 3.0}, 200, 10)
QUICK: Final = Sizes(1, {"steady": 0.3, "full speed": 0.2}, 4, 1)


class Memory(NamedTuple):
    """What processes held, in MB, when the viewers had come and after all was written."""

    server: tuple[float, float]
    writer: tuple[float, float]


class Round(NamedTuple):
    """Both ways, in the same processes."""

    unwatched: Written
    watched: Written
    seen: Watched
    memory: Memory
    profile: str


class Key(NamedTuple):
    """What is measured: where the server is, and how fast is written."""

    pace: str
    host: Host


def measure(options: Options) -> Report:
    """Write watched and unwatched, for each place of the server and each pace."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    keys = [Key(pace, host) for pace in PACES for host in HOSTS]
    rounds: dict[Key, list[Round]] = {key: [] for key in keys}
    for number in range(sizes.rounds):
        for key in keys:
            rounds[key].append(_round(options.folder, key, sizes, watched_first=number % 2 == 1))
    profiles = [_profiled(options.folder, pace, sizes) for pace in PACES] if options.profile else []
    return Report(
        benchmark="viewers",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=tuple(case for key in keys for case in _cases(key, rounds[key], sizes)),
        criteria=tuple(criterion for key in keys for criterion in _criteria(key, rounds[key])),
        profile="\n\n".join(profiles),
    )


def _cases(key: Key, rounds: Sequence[Round], sizes: Sizes) -> tuple[Case, Case]:
    """Unwatched and watched."""
    name = f"{key.pace}, server in {key.host}"
    watched = _written([each.watched for each in rounds])
    ratio = ratios(watched["commits"].samples, [_rate(each.unwatched) for each in rounds], unit="")
    seen = [each.seen for each in rounds]
    return (
        Case(name=f"{name}, none watch", series=_written([each.unwatched for each in rounds])),
        Case(
            name=f"{name}, {sizes.viewers} viewers, {sizes.stuck} stuck",
            series={
                **watched,
                "over unwatched": ratio,
                "delay": _series("ms", [statistics.median(each.delays_ms) for each in seen]),
                "delay, p99": _series("ms", [_percentile(each.delays_ms, 99) for each in seen]),
                "frames": _series("", [each.frames for each in seen]),
                "snapshots": _series("", [each.snapshots for each in seen]),
                "received": _series("MB", [each.received_bytes / 1e6 for each in seen]),
                "viewers behind": _series("", [each.behind for each in seen]),
                "server at start": _series("MB", [each.memory.server[0] for each in rounds]),
                "server at end": _series("MB", [each.memory.server[1] for each in rounds]),
                "writer at start": _series("MB", [each.memory.writer[0] for each in rounds]),
                "writer at end": _series("MB", [each.memory.writer[1] for each in rounds]),
            },
        ),
    )


def _written(phases: Sequence[Written]) -> dict[str, Series]:
    found = {"commits": _series("/s", [_rate(phase) for phase in phases])}
    if all(phase.late_ms for phase in phases):
        found["late"] = _series("ms", [late for phase in phases for late in phase.late_ms])
        found["late, p99"] = _series("ms", [_percentile(phase.late_ms, 99) for phase in phases])
    return found


def _criteria(key: Key, rounds: Sequence[Round]) -> list[Criterion]:
    name = f"{key.pace}, server in {key.host}"
    ratio = statistics.median(_rate(each.watched) / _rate(each.unwatched) for each in rounds)
    if PACES[key.pace] is None:
        return [at_least(f"{name}: commits a second watched over unwatched", ratio, RATIO_MIN)]
    latest = max(max(each.watched.late_ms) for each in rounds)
    latest_unwatched = max(max(each.unwatched.late_ms) for each in rounds)
    later = statistics.median(
        _percentile(each.watched.late_ms, 99) - _percentile(each.unwatched.late_ms, 99) for each in rounds
    )
    delay = statistics.median(statistics.median(each.seen.delays_ms) for each in rounds)
    grown = max(_grown(each.memory.server) for each in rounds)
    writer_grown = max(_grown(each.memory.writer) for each in rounds)
    return [
        at_most(f"{name}: ms the latest is later than unwatched", latest - latest_unwatched, LATE_MS_MAX),
        at_most(f"{name}: ms the latest hundredth is later than unwatched", later, LATE_MS_MAX),
        at_most(f"{name}: ms from a commit to its frame", delay, DELAY_MS_MAX),
        at_most(f"{name}: MB that the server has grown by", grown, GROWN_MB_MAX),
        at_most(f"{name}: MB that the writer has grown by", writer_grown, GROWN_MB_MAX),
    ]


def _round(
    folder: Path | None, key: Key, sizes: Sizes, *, watched_first: bool, profile: bool = False
) -> Round:
    pace = Pace(seconds=sizes.seconds[key.pace], rate=PACES[key.pace])
    with TemporaryDirectory(dir=folder) as made, ExitStack() as stack:
        store = str(Path(made, "store.db"))
        shared = key.host == "the writer's process"
        writer = stack.enter_context(_started("write-and-serve" if shared else "write", store))
        server = writer
        if not shared:
            server = stack.enter_context(_started("profile" if profile else "serve", store))
        writer.ask(msgspec.structs.replace(pace, seconds=pace.seconds / 10), Written)
        unwatched = None if watched_first else writer.ask(pace, Written)
        watched, seen, memory = _watched(writer, server, pace, sizes)
        if unwatched is None:
            unwatched = writer.ask(pace, Written)
        return Round(unwatched, watched, seen, memory, server.last_words() if profile else "")


def _watched(
    writer: "Program", server: "Program", pace: Pace, sizes: Sizes
) -> tuple[Written, Watched, Memory]:
    """Have the viewers come, write, and let them see all of it."""
    with _started("watch", server.ready, str(sizes.viewers), str(sizes.stuck)) as crowd:
        before = server.memory_mb(), writer.memory_mb()
        watched = writer.ask(pace, Written)
        seen = crowd.ask(Until(position=watched.position), Watched)
        after = server.memory_mb(), writer.memory_mb()
    return watched, seen, Memory(server=(before[0], after[0]), writer=(before[1], after[1]))


class Program:
    """One of the processes. ``ready``: what it said when it was ready."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.ready = self._heard(str)

    def ask(self, what: object, kind: type[T]) -> T:
        """What it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(what) + b"\n")
        self._process.stdin.flush()
        return self._heard(kind)

    def last_words(self) -> str:
        """What it says when it ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._heard(str)

    def memory_mb(self) -> float:
        """What it holds in memory."""
        command = ["ps", "-o", "rss=", "-p", str(self._process.pid)]
        return int(subprocess.run(command, capture_output=True, check=True).stdout) / 1_024

    def _heard(self, kind: type[T]) -> T:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, "the process has ended; what it wrote above says why"
        return msgspec.json.decode(said, type=kind)


@contextmanager
def _started(*arguments: str) -> Generator[Program]:
    """A process that does not outlive the block."""
    program = [sys.executable, "-m", "benchmarks.viewer_programs", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, cwd=PROJECT, stdin=pipe, stdout=pipe) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def _profiled(folder: Path | None, pace: str, sizes: Sizes) -> str:
    """The costs of a server in a process of its own; what it reads and folds, other threads do."""
    taken = _round(folder, Key(pace, "its own process"), sizes, watched_first=False, profile=True)
    return f"{pace}: {taken.profile}"


def _rate(written: Written) -> float:
    return written.commits / written.seconds


def _grown(start_end: tuple[float, float]) -> float:
    return start_end[1] - start_end[0]


def _percentile(samples: Sequence[float], percent: int) -> float:
    return sorted(samples)[math.ceil(len(samples) * percent / 100) - 1]


def _series(unit: str, samples: Sequence[float]) -> Series:
    return Series(unit=unit, samples=tuple(samples))

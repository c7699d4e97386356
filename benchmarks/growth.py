"""How large stores become that stream: answers stored piece by piece, beside the same stored whole."""

import math
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import trio

from benchmarks.machine import machine
from benchmarks.report import Case, Criterion, Options, Report, Series, at_most
from pi_actors import Session, Settings, open_session
from pi_actors.core.messages import Text
from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState
from pi_actors.models import Emit, ModelRequest, ModelResponse
from pi_actors.models.protocol import TextDelta
from pi_actors.storage.opening import open_reader

METHOD: Final = """\
36,000 pieces of 40 bytes, each stored as a progress event of its own, in answers of 100 pieces and
in a single answer, and the same answers without progress. All the time another process follows the store.
File: after a clean close. Left: progress events that are stored even then. Commit: of another agent of the
session that commits a note every 20 ms beside 6,000 pieces in answers of 100, from the call to the
acknowledgement; while progress is scavenged, and while it is kept (keep_progress)."""

PIECE: Final = "forty bytes of an answer, piece by piece"
RATIO_MAX: Final = 1.5
NOTE_EVERY_S: Final = 0.02
PROJECT: Final = Path(__file__).parents[1]


class Shape(NamedTuple):
    """So many answers of so many pieces."""

    name: str
    answers: int
    pieces: int


class Sizes(NamedTuple):
    """What is measured: how large files become, and how long commits take beside."""

    shapes: tuple[Shape, ...]
    beside: Shape
    rounds: int


FULL: Final = Sizes(
    shapes=(Shape("answers of 100", 360, 100), Shape("a single answer", 1, 36_000)),
    beside=Shape("beside another agent", 60, 100),
    rounds=3,
)
QUICK: Final = Sizes(
    shapes=(Shape("answers of 100", 2, 100), Shape("a single answer", 1, 200)),
    beside=Shape("beside another agent", 2, 100),
    rounds=1,
)


class Grown(NamedTuple):
    """What became of one store. ``commits_ms``: how long each note of another agent took, if any."""

    file_bytes: int
    streamed: int
    left: int
    commits_ms: list[float]


def measure(options: Options) -> Report:
    """Stream each shape beside the same content without progress, then beside another agent."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    scavenged, kept = Settings(progress_ms=1), Settings(progress_ms=1, keep_progress=True)
    cases: list[Case] = []
    criteria: list[Criterion] = []
    for shape in sizes.shapes:
        plain = _grown(options.folder, shape, None)
        grown = _grown(options.folder, shape, scavenged)
        ratio = grown.file_bytes / plain.file_bytes
        cases.append(_case(f"{shape.name}, without progress", [_size(plain)]))
        over = {"over without progress": ("", ratio)}
        cases.append(_case(f"{shape.name}, scavenged", [_size(grown) | over]))
        criteria.append(at_most(f"{shape.name}: file over that without progress", ratio, RATIO_MAX))
    ways = {"scavenged": scavenged, "kept": kept}
    rounds = [
        {name: _grown(options.folder, sizes.beside, way, notes=True) for name, way in ways.items()}
        for _ in range(sizes.rounds)
    ]
    for name in ways:
        found = [_size(each[name]) | _latency(each[name]) for each in rounds]
        cases.append(_case(f"{sizes.beside.name}, {name}", found))
    return Report(
        benchmark="growth",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=tuple(cases),
        criteria=tuple(criteria),
    )


def _size(grown: Grown) -> dict[str, tuple[str, float]]:
    return {
        "file": ("KiB", grown.file_bytes / 1024),
        "streamed": ("", grown.streamed),
        "left": ("", grown.left),
    }


def _latency(grown: Grown) -> dict[str, tuple[str, float]]:
    return {
        "commits": ("", len(grown.commits_ms)),
        "commit, p50": ("ms", _percentile(grown.commits_ms, 50)),
        "commit, p99": ("ms", _percentile(grown.commits_ms, 99)),
        "commit, longest": ("ms", max(grown.commits_ms)),
    }


def _case(name: str, rounds: Sequence[dict[str, tuple[str, float]]]) -> Case:
    """What was found in each round, by name: a unit and a number."""
    series = {
        key: Series(unit=unit, samples=tuple(each[key][1] for each in rounds))
        for key, (unit, _) in rounds[0].items()
    }
    return Case(name=name, series=series)


def _grown(folder: Path | None, shape: Shape, settings: Settings | None, *, notes: bool = False) -> Grown:
    """Stream *shape* into a new store; without *settings* nothing but whole answers is stored."""
    with TemporaryDirectory(dir=folder) as made:
        store = Path(made, "store.db")
        streamed, commits_ms = trio.run(_stream, store, shape, settings, notes)
        expected = 0 if settings is None else shape.answers * shape.pieces
        assert streamed == expected, f"{streamed} pieces were stored as progress, not {expected}"
        return Grown(store.stat().st_size, streamed, _left(store), commits_ms)


async def _stream(
    path: Path, shape: Shape, settings: Settings | None, notes: bool
) -> tuple[int, list[float]]:
    """Stream all of it; how many pieces were stored, and how long the other agent's commits took."""
    model = Pieces(shape.pieces, waits=settings is not None)
    commits_ms: list[float] = []
    with ExitStack() as stack:
        async with open_session(path, model=model, settings=settings or Settings()) as session:
            session.live.line.listen(model.see)
            stack.enter_context(_followed(path))  # until after the closing
            async with _noting(session, commits_ms) if notes else nullcontext():
                for _ in range(shape.answers):
                    answer = await session.root.ask("Go on.")
                    assert len(answer.text) == shape.pieces * len(PIECE), answer
    return model.stored, commits_ms


class Pieces:
    """Emits an answer piece by piece; with *waits* each one once the one before it is stored."""

    name = "pieces"
    context_window = None

    def __init__(self, pieces: int, *, waits: bool) -> None:
        self.stored = 0
        self._pieces = pieces
        self._waits = waits
        self._seen = trio.Event()

    def see(self, commit: Commit, _: SessionState) -> None:
        """Count the stored pieces."""
        if commit[0].topic == "PartialStreamed":
            self.stored += 1
            self._seen.set()

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Say all pieces."""
        for _ in range(self._pieces):
            self._seen = trio.Event()
            emit(TextDelta(part=0, text=PIECE))
            if self._waits:
                await self._seen.wait()
        await trio.lowlevel.checkpoint()
        return ModelResponse(parts=(Text(text=PIECE * self._pieces),), stop="stop")


@asynccontextmanager
async def _noting(session: Session, took_ms: list[float]) -> AsyncGenerator[None]:
    """Have another agent commit notes beside the body."""
    other = await session.spawn()

    async def note() -> None:
        while True:
            await trio.sleep(NOTE_EVERY_S)
            start = time.perf_counter()
            await other.submit_write("note")
            took_ms.append(1_000 * (time.perf_counter() - start))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(note)
        yield
        nursery.cancel_scope.cancel()


@contextmanager
def _followed(store: Path) -> Generator[None]:
    """Follow the store from another process for the time of the block."""
    command = [sys.executable, "-m", "pi_actors", "attach", str(store), "--json"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "the follower has ended; what it wrote above says why"
        reading = threading.Thread(target=process.stdout.read)
        reading.start()
        try:
            yield
        finally:
            process.kill()
            reading.join()


def _left(store: Path) -> int:
    """How many progress events are stored."""
    with closing(open_reader(store)) as reader:
        before, left = sys.maxsize, 0
        while rows := reader.read_display("main", before=before):
            before, left = rows[-1].position, left + len(rows)
        return left


def _percentile(samples: Sequence[float], percent: int) -> float:
    return sorted(samples)[math.ceil(len(samples) * percent / 100) - 1]

"""Whether a commit costs more the more actors have ended below its agent: it must not."""

import cProfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

import msgspec
import trio

from benchmarks.machine import machine
from benchmarks.profiling import largest_costs
from benchmarks.report import Case, Criterion, Options, Report, Series, at_most, ratios
from pi_actors import ActorKind, Done, Next, Session, Store, Work, open_session, open_store

METHOD: Final = """\
Two agents, each with live actors of a user's kind below it that wait for a far deadline; below one of them
many more have ended before. Both do the same in turn: a write is agent.submit_write; a work actor is
agent.spawn and the wait for its end, two commits. A store in memory, so that no disk hides a difference.
Each cell: median (least .. most) of the rounds."""

RATIO_MAX: Final = 1.2
CROWD: Final = 100
FAR: Final = datetime(9000, 1, 1, tzinfo=UTC)


class Sizes(NamedTuple):
    """How much is measured; ``commits`` in each round, by each of the two."""

    finished: int
    live: int
    rounds: int
    commits: int


FULL: Final = Sizes(10_000, 100, 41, 100)
QUICK: Final = Sizes(20, 5, 2, 3)


class Nothing(msgspec.Struct, frozen=True):
    """A state without anything in it."""


async def _finish(_: Work[Nothing]) -> Done:
    await trio.lowlevel.checkpoint()
    return Done()


async def _wait(work: Work[Nothing]) -> Next[Nothing]:
    await trio.lowlevel.checkpoint()
    return Next(work.state, at=FAR)


FINISHING: Final = ActorKind("bench.finishing", Nothing, step=_finish)
WAITING: Final = ActorKind("bench.waiting", Nothing, step=_wait)

Commit: TypeAlias = Callable[[Session], Awaitable[object]]


async def write(session: Session) -> None:
    """One commit of two events."""
    await session.root.submit_write("note", data={"text": "x" * 100})


async def work(session: Session) -> None:
    """The whole life of a work actor: two commits."""
    await session.wait_actor(await session.root.spawn(FINISHING, Nothing()))


WORKLOADS: Final[dict[str, Commit]] = {"a write": write, "a work actor": work}


def measure(options: Options) -> Report:
    """Let both agents commit in turn."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    profile = cProfile.Profile() if options.profile else None
    cases = trio.run(_cases, sizes, profile)
    return Report(
        benchmark="tree",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=cases,
        criteria=tuple(_criterion(case, sizes) for case in cases),
        profile="" if profile is None else largest_costs(f"{sizes.finished:,} finished:", profile),
    )


def _criterion(case: Case, sizes: Sizes) -> Criterion:
    promise = f"{case.name}: time with {sizes.finished:,} finished below over the time with none"
    return at_most(promise, case.series["ratio"].median, RATIO_MAX)


async def _cases(sizes: Sizes, profile: cProfile.Profile | None) -> tuple[Case, ...]:
    async with (
        open_store("memory:") as store,
        _grown(store, 0, sizes) as none,
        _grown(store, sizes.finished, sizes) as many,
    ):
        return tuple([await _case(name, none, many, sizes, profile) for name in WORKLOADS])


@asynccontextmanager
async def _grown(store: Store, finished: int, sizes: Sizes) -> AsyncGenerator[Session]:
    """A session whose root has had *finished* actors, and has some that live."""
    async with open_session(store, f"{finished} finished", actors=[FINISHING, WAITING]) as session:
        for _ in range(0, finished, CROWD):
            async with trio.open_nursery() as nursery:
                for _ in range(min(CROWD, finished)):
                    nursery.start_soon(work, session)
        for _ in range(sizes.live):
            await session.root.spawn(WAITING, Nothing())
        yield session


async def _case(
    name: str, none: Session, many: Session, sizes: Sizes, profile: cProfile.Profile | None
) -> Case:
    commit = WORKLOADS[name]
    await _timed(commit, none, sizes)
    await _timed(commit, many, sizes)
    without: list[float] = []
    within: list[float] = []
    for number in range(sizes.rounds):
        order = ((none, without), (many, within))
        for session, taken in order if number % 2 else reversed(order):
            taken.append(await _timed(commit, session, sizes, profile if session is many else None))
    return Case(
        name=f"{name}, {sizes.live} live",
        series={
            "none finished": Series(unit="us", samples=tuple(without)),
            f"{sizes.finished:,} finished": Series(unit="us", samples=tuple(within)),
            "ratio": ratios(within, without),
        },
    )


async def _timed(
    commit: Commit, session: Session, sizes: Sizes, profile: cProfile.Profile | None = None
) -> float:
    """Microseconds of one, on average."""
    if profile is not None:
        profile.enable()
    start = time.perf_counter()
    for _ in range(sizes.commits):
        await commit(session)
    seconds = time.perf_counter() - start
    if profile is not None:
        profile.disable()
    return 1e6 * seconds / sizes.commits

"""How many commits a second agents get, and how many fsyncs that takes.

A commit is ``agent.submit_write``: two events. Agents wait for their own commit before the next
one. They live either each in a session of its own, or all in one session.
"""

import cProfile
import gc
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
import trio

from benchmarks.floor import open_floor
from benchmarks.machine import machine
from benchmarks.profiling import largest_costs
from benchmarks.report import Case, Criterion, Options, Report, Series, at_least, at_most, ratios
from pi_actors import open_store
from pi_actors.actors.agent.messages import EntryAppended, SubmissionPlaced

Layout: TypeAlias = Literal["sessions", "one session"]
LAYOUTS: Final[tuple[Layout, ...]] = ("sessions", "one session")
Workload: TypeAlias = tuple[Layout, int]
"""Where the agents live, and how many there are."""

METHOD: Final = """\
Agents commit submit_write("note", data=...), two events, one after another, on SQLite at synchronous=FULL.
The floor is written by hand on sqlite3 and msgspec: one writer thread, group commit, and the same rows as
ours made durable (two events of the same bytes under the same key, the session's head, the index of each
agent's entries).
The bare floor stores the events alone. All in turn in every round; each cell: median (least .. most)."""

NOTE: Final = {"text": "x" * 100}
AGENTS_MANY: Final = 100


class Sizes(NamedTuple):
    """How much is measured: rounds, and commits of each agent by number of agents."""

    rounds: int
    commits: dict[int, int]


FULL: Final = Sizes(7, {1: 400, 10: 150, 100: 60, 200: 40})
QUICK: Final = Sizes(1, {1: 3, 4: 2})


class Sample(NamedTuple):
    """One run of one side."""

    seconds: float
    commits: int
    transactions: int


class Round(NamedTuple):
    """One run of each side."""

    ours: Sample
    floor: Sample
    bare: Sample


class Side(NamedTuple):
    """Who commits: a function for each agent. ``transactions``: how many there have been."""

    agents: Sequence[Callable[[], Awaitable[object]]]
    transactions: Callable[[], int]


OpenSide: TypeAlias = Callable[[Path, Layout, int], AbstractAsyncContextManager[Side]]


def measure(options: Options) -> Report:
    """Run ours and the floor in turn, for each layout and number of agents."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    workloads: list[Workload] = [(layout, agents) for layout in LAYOUTS for agents in sizes.commits]
    rounds: dict[Workload, list[Round]] = {workload: [] for workload in workloads}
    for _ in range(sizes.rounds):
        for layout, agents in workloads:
            run = partial(_run, options.folder, layout, agents, sizes.commits[agents])
            rounds[layout, agents].append(Round(run(ours), run(floor), run(bare_floor)))
    cases = {workload: _case(*workload, rounds[workload]) for workload in workloads}
    return Report(
        benchmark="commits",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=tuple(cases.values()),
        criteria=tuple(_criteria(cases)),
        profile=_profiled(options, sizes) if options.profile else "",
    )


@asynccontextmanager
async def ours(path: Path, layout: Layout, agents: int) -> AsyncGenerator[Side]:
    """Agents of an open store."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(path))
        if layout == "sessions":
            names = [f"session-{number}" for number in range(agents)]
            sessions = [await stack.enter_async_context(store.open_session(name)) for name in names]
            committing = [session.root for session in sessions]
        else:
            session = await stack.enter_async_context(store.open_session("main"))
            committing = [await session.spawn() for _ in range(agents)]
        yield Side(
            agents=[partial(agent.submit_write, "note", data=NOTE) for agent in committing],
            transactions=lambda: store.log.transactions,
        )


@asynccontextmanager
async def floor(path: Path, layout: Layout, agents: int, *, bare: bool = False) -> AsyncGenerator[Side]:
    """Functions that store what ours stores, with nothing around them."""
    encode = msgspec.msgpack.Encoder().encode
    names = [f"session-{number}" for number in range(agents)] if layout == "sessions" else ["main"]
    async with open_floor(path, names, bare=bare) as log:

        async def commit(session: str, agent: int, positions: "count[int]") -> None:
            first, last = next(positions), next(positions)
            at_us = time.time_ns() // 1_000
            placed = SubmissionPlaced(mode="write", entry=last)
            appended = EntryAppended(kind="note", data=NOTE)
            await log.commit(
                (
                    (session, first, "SubmissionPlaced", encode((1, 0, last, at_us, agent, 0, placed, _CRC))),
                    (session, last, "EntryAppended", encode((1, 0, last, at_us, agent, 0, appended, _CRC))),
                ),
                agent=agent,
            )

        if layout == "sessions":
            streams = [(name, 1, count(1)) for name in names]
        else:
            positions = count(1)
            streams = [("main", agent, positions) for agent in range(1, agents + 1)]
        yield Side(
            agents=[partial(commit, *stream) for stream in streams],
            transactions=lambda: log.transactions,
        )


bare_floor: Final = partial(floor, bare=True)
_CRC: Final = 0xFFFFFFFF


def _case(layout: Layout, agents: int, rounds: Sequence[Round]) -> Case:
    our_rates = [each.ours.commits / each.ours.seconds for each in rounds]
    floor_rates = [each.floor.commits / each.floor.seconds for each in rounds]
    bare_rates = [each.bare.commits / each.bare.seconds for each in rounds]
    fsyncs = [each.ours.transactions / each.ours.commits for each in rounds]
    return Case(
        name=f"{agents} agent{'s' if agents > 1 else ''}, {layout}",
        series={
            "ours": Series(unit="/s", samples=tuple(our_rates)),
            "floor": Series(unit="/s", samples=tuple(floor_rates)),
            "ours / floor": ratios(our_rates, floor_rates),
            "ours / bare floor": ratios(our_rates, bare_rates),
            "fsyncs a commit": Series(unit="", samples=tuple(fsyncs)),
        },
    )


def _criteria(cases: dict[Workload, Case]) -> list[Criterion]:
    criteria: list[Criterion] = []
    for (_, agents), case in cases.items():
        ratio = case.series["ours / floor"].median
        if agents == 1:
            criteria.append(at_most(f"{case.name}: time of a commit over the floor's", 1 / ratio, 1.5))
        if agents == AGENTS_MANY:
            fsyncs = case.series["fsyncs a commit"].median
            criteria.append(at_most(f"{case.name}: fsyncs a commit", fsyncs, 0.1))
            criteria.append(at_least(f"{case.name}: commits a second over the floor's", ratio, 0.35))
    return criteria


def _run(
    folder: Path | None,
    layout: Layout,
    agents: int,
    commits: int,
    open_side: OpenSide,
    profile: cProfile.Profile | None = None,
) -> Sample:
    gc.collect()
    with TemporaryDirectory(dir=folder) as made:
        return trio.run(_sampled, Path(made, "store.db"), layout, agents, commits, open_side, profile)


async def _sampled(
    path: Path,
    layout: Layout,
    agents: int,
    commits: int,
    open_side: OpenSide,
    profile: cProfile.Profile | None,
) -> Sample:
    async with open_side(path, layout, agents) as side:
        await _commit_all(side, 1)
        before = side.transactions()
        if profile is not None:
            profile.enable()
        start = time.perf_counter()
        await _commit_all(side, commits)
        seconds = time.perf_counter() - start
        if profile is not None:
            profile.disable()
        return Sample(seconds, agents * commits, side.transactions() - before)


async def _commit_all(side: Side, commits: int) -> None:
    async def repeat(commit: Callable[[], Awaitable[object]]) -> None:
        for _ in range(commits):
            await commit()

    async with trio.open_nursery() as nursery:
        for commit in side.agents:
            nursery.start_soon(repeat, commit)


def _profiled(options: Options, sizes: Sizes) -> str:
    """The costs of the thread that agents run in; the writer's thread is not looked at."""
    agents = min(AGENTS_MANY, max(sizes.commits))
    costs: list[str] = []
    for layout in LAYOUTS:
        profile = cProfile.Profile()
        _run(options.folder, layout, agents, sizes.commits[agents], ours, profile)
        costs.append(largest_costs(f"{agents} agents, {layout}:", profile))
    return "\n\n".join(costs)

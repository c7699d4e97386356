"""What one steady turn costs the disk: a question, a tool call of policy never, an answer."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import trio

from benchmarks.machine import machine
from benchmarks.report import Case, Options, Report, Series, at_most
from pi_actors import open_session, open_store, tool
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.models.plays import Reply
from pi_actors.models.protocol import ModelRequest

METHOD: Final = """\
One agent, turn after turn: 200 characters from the user, a tool query of 90 and its result of 300 (policy
never), an answer of 300 in one chunk. Bytes: growth of the database file from one closing (which empties the
write-ahead log into it) to the next, so rows, indexes and pages half full are in it. Fsyncs: write
transactions at synchronous=FULL. Each cell: median (least .. most) of the rounds."""

QUESTION: Final = "q" * 200
QUERY: Final = "w" * 90
RESULT: Final = "r" * 300
ANSWER: Final = "a" * 300

FSYNCS_MAX: Final = 5
BYTES_MAX: Final = 3.5 * 1024


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int
    turns: int


FULL: Final = Sizes(3, 500)
QUICK: Final = Sizes(1, 2)


class Sample(NamedTuple):
    """What one turn took on average."""

    fsyncs: float
    bytes: float
    ms: float


@tool(replay="never")
async def search(query: str) -> str:
    """Search for the query."""
    await trio.lowlevel.checkpoint()
    return RESULT if query == QUERY else ""


def measure(options: Options) -> Report:
    """Measure turns of a session that has had some already."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    samples: list[Sample] = []
    for _ in range(sizes.rounds):
        with TemporaryDirectory(dir=options.folder) as made:
            samples.append(_sampled(Path(made, "store.db"), sizes.turns))
    case = Case(
        name=f"{sizes.turns} turns",
        series={
            "fsyncs a turn": Series(unit="", samples=tuple(sample.fsyncs for sample in samples)),
            "bytes a turn": Series(unit="B", samples=tuple(sample.bytes for sample in samples)),
            "time of a turn": Series(unit="ms", samples=tuple(sample.ms for sample in samples)),
        },
    )
    return Report(
        benchmark="turn",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=(case,),
        criteria=(
            at_most("fsyncs a turn", case.series["fsyncs a turn"].median, FSYNCS_MAX),
            at_most("bytes of rows and indexes a turn", case.series["bytes a turn"].median, BYTES_MAX),
        ),
    )


def _sampled(store: Path, turns: int) -> Sample:
    trio.run(_take_turns, store, max(1, turns // 10))
    bytes_before = store.stat().st_size
    transactions, seconds = trio.run(_take_turns, store, turns)
    grown = store.stat().st_size - bytes_before
    return Sample(fsyncs=transactions / turns, bytes=grown / turns, ms=1_000 * seconds / turns)


async def _take_turns(path: Path, turns: int) -> tuple[int, float]:
    """Have *turns* questions answered; return the transactions and seconds that took."""
    async with (
        open_store(path) as store,
        open_session(store, model=ScriptedModel(_next), tools=[search]) as session,
    ):
        before, start = store.log.transactions, time.perf_counter()
        for _ in range(turns):
            answer = await session.root.ask(QUESTION)
            assert answer.text == ANSWER, answer
        return store.log.transactions - before, time.perf_counter() - start


def _next(request: ModelRequest) -> Reply:
    asked = request.messages[-1].role == "user"
    return reply("", call("search", query=QUERY)) if asked else reply(ANSWER)

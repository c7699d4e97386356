"""A long conversation through a small window: its log grows with what is said, and no faster."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import trio

from benchmarks.machine import machine
from benchmarks.report import Case, Options, Report, Series, at_most
from pi_actors import open_session, open_store, tool
from pi_actors.core.messages import Result, Text
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.models.plays import Reply
from pi_actors.models.protocol import Emit, ModelRequest, ModelResponse

METHOD: Final = """\
One agent with a window of 4,000 tokens: a question of 200 characters at every turn, an answer of 300, and at
every third turn a tool call with a result of 900. Summaries are the scripted model's own, at most 250 tokens.
Bytes a turn: growth of the database file from one closing (which empties the write-ahead log into it) to the
next, over the turns up to the one named. Largest request: in tokens, at four characters each. Each cell:
median (least .. most) of the rounds."""

WINDOW: Final = 4_000
QUESTION: Final = "q" * 200
RESULT: Final = "r" * 900
ANSWER: Final = "a" * 300
GROWTH_MAX: Final = 1.2


class Sizes(NamedTuple):
    """How much is measured: ``span`` turns up to turn ``early``, and as many up to turn ``late``."""

    rounds: int
    span: int
    early: int
    late: int


FULL: Final = Sizes(3, 24, 30, 300)
QUICK: Final = Sizes(1, 6, 12, 36)


class Sample(NamedTuple):
    """What one conversation took."""

    early_bytes: float
    late_bytes: float
    largest_request: float
    summaries: float
    ms: float


@tool(replay="safe")
async def search(query: str) -> str:
    """Search for the query."""
    await trio.lowlevel.checkpoint()
    return RESULT


class Measured:
    """The scripted model, which notes how large the requests are."""

    name = "scripted"
    context_window = WINDOW

    def __init__(self) -> None:
        self.largest = 0
        self.summaries = 0
        self._scripted = ScriptedModel(_next, context_window=WINDOW)

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Answer as the script says."""
        self.largest = max(self.largest, _tokens(request))
        self.summaries += request.purpose == "summary"
        return await self._scripted.stream(request, emit)


def measure(options: Options) -> Report:
    """Measure conversations, each in a store of its own."""
    facts = machine(options.folder)
    sizes = QUICK if options.quick else FULL
    samples: list[Sample] = []
    for _ in range(sizes.rounds):
        with TemporaryDirectory(dir=options.folder) as made:
            samples.append(sampled(Path(made, "store.db"), sizes))
    growth = f"bytes a turn at turn {sizes.late} over those at turn {sizes.early}"
    early, late = f"bytes a turn up to turn {sizes.early}", f"bytes a turn up to turn {sizes.late}"
    case = Case(
        name=f"{sizes.late} turns",
        series={
            early: Series(unit="B", samples=tuple(each.early_bytes for each in samples)),
            late: Series(unit="B", samples=tuple(each.late_bytes for each in samples)),
            "growth": Series(unit="x", samples=tuple(each.late_bytes / each.early_bytes for each in samples)),
            "largest request": Series(unit="", samples=tuple(each.largest_request for each in samples)),
            "requests for summaries": Series(unit="", samples=tuple(each.summaries for each in samples)),
            "time of a turn": Series(unit="ms", samples=tuple(each.ms for each in samples)),
        },
    )
    return Report(
        benchmark="conversation",
        quick=options.quick,
        method=METHOD,
        machine=facts,
        cases=(case,),
        criteria=(
            at_most(growth, case.series["growth"].median, GROWTH_MAX),
            at_most("the largest request", case.series["largest request"].median, WINDOW),
        ),
    )


def sampled(store: Path, sizes: Sizes) -> Sample:
    """Hold one conversation in *store*, closing it where its size is looked at."""
    model, start = Measured(), time.perf_counter()
    talk = 0
    grown: dict[int, float] = {}
    for end in (sizes.early, sizes.late):
        talk += trio.run(_take_turns, store, model, talk, end - sizes.span)
        before = store.stat().st_size
        talk += trio.run(_take_turns, store, model, talk, end)
        grown[end] = (store.stat().st_size - before) / sizes.span
    return Sample(
        early_bytes=grown[sizes.early],
        late_bytes=grown[sizes.late],
        largest_request=model.largest,
        summaries=model.summaries,
        ms=1_000 * (time.perf_counter() - start) / sizes.late,
    )


async def _take_turns(path: Path, model: Measured, start: int, end: int) -> int:
    """Have the questions *start* to *end* answered, and return how many that were."""
    async with open_store(path) as store, open_session(store, model=model, tools=[search]) as session:
        for number in range(start, end):
            answer = await session.root.ask(f"{number:04}{QUESTION[4:]}")
            assert answer.text == ANSWER, answer
        await session.wait_idle()
    return end - start


def _next(request: ModelRequest) -> Reply:
    last = request.messages[-1]
    asked = "".join(part.text for part in last.parts if isinstance(part, Text))[:4]
    wants_tool = last.role == "user" and asked.isdigit() and int(asked) % 3 == 0
    return reply("", call("search", query="what?")) if wants_tool else reply(ANSWER)


def _tokens(request: ModelRequest) -> int:
    parts = [part for message in request.messages for part in message.parts]
    texts = [part.text for part in parts if isinstance(part, Text)]
    texts += [
        item.text
        for part in parts
        if isinstance(part, Result)
        for item in part.content
        if isinstance(item, Text)
    ]
    return sum(map(len, texts)) // 4

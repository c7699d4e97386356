"""Work in which an agent's context is compacted, for crash tests, and the process it runs in.

    python -m tests.crash.compacting KIND STORE REQUESTS [COMMIT SIDE]

works until done, or until the process kills itself before or after the given commit. Every request
for a summary leaves a line in the file REQUESTS: its attempt, and what it carried, as a digest.
"""

import sys
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Literal, cast

import trio

from pi_actors import CompactionSettings, RetrySettings, Settings, Settled, Store, open_session, open_store
from pi_actors.models import ModelRequest, ScriptedModel, call, fail, overflow, reply
from pi_actors.models.plays import Item
from pi_actors.storage.log import Log
from pi_actors.storage.opening import open_log
from pi_actors.testing import (
    CrashingLog,
    CrashPoint,
    Witness,
    check_session,
    kill_this_process,
    read_log,
)
from pi_actors.tools import Tool, tool
from tests.models.watched import Watched
from tests.session.recording import tokens_of, words

CompactionKind = Literal["manual", "background", "blocking", "overflow"]
KINDS: Final[tuple[CompactionKind, ...]] = ("manual", "background", "blocking", "overflow")
WINDOW: Final = 4_000
LAST: Final[dict[CompactionKind, int]] = {"manual": 10, "background": 900, "blocking": 1_400, "overflow": 500}
"""What the last of three questions says, in tokens, so that it brings about a compaction of the kind."""

REFUSED_ABOVE: Final = 2_150
"""Where the model's real window ends in the story of an overflow."""

SETTINGS: Final = Settings(
    retry=RetrySettings(first_ms=1, cap_ms=1),
    compaction=CompactionSettings(model="summariser"),
)


class Counting(Watched):
    """A scripted model that notes down each request for a summary before it answers."""

    def __init__(self, scripted: ScriptedModel, note: Callable[[str], None]) -> None:
        super().__init__(scripted)
        self._note = note

    async def meet(self, request: ModelRequest) -> None:
        if request.purpose == "summary":
            text = f"{request.messages}"
            self._note(f"{request.attempt} {zlib.crc32(text.encode()):08x}")


def answer(kind: CompactionKind, request: ModelRequest) -> Item:
    """A question is answered after a call; too large a request is refused where that is the story."""
    if kind == "overflow" and tokens_of(request) > REFUSED_ABOVE:
        return overflow()
    asked = request.messages[-1].role == "user" and request.turn < 2
    return reply("Let me see.", call("look")) if asked else reply("Seen. " + words(10))


def summarise(request: ModelRequest) -> Item:
    """The first attempt at each part fails."""
    text = f"{request.messages}"
    return [fail("overloaded"), reply(f"Summary {zlib.crc32(text.encode()):08x}.")]


@tool(replay="safe")
async def look() -> str:
    """Look."""
    return "There is " + words(300)


async def work(store: Store, kind: CompactionKind, note: Callable[[str], None]) -> Settled:
    """Have three questions answered and the context compacted, or whatever is left of that."""
    model = ScriptedModel(partial(answer, kind), context_window=WINDOW)
    summariser = ScriptedModel([], name="summariser", summaries=summarise, context_window=1_900)
    tools: list[Tool] = [look]
    async with open_session(
        store,
        model=model,
        models={"summariser": Counting(summariser, note)},
        tools=tools,
        instructions="Be brief.",
        settings=SETTINGS,
    ) as session:
        witness = Witness(session)
        root = session.root
        for number in range(2):
            await root.ask(f"{number}: {words(690)}", request_id=f"question {number}")
        if kind == "manual":
            await root.compact(request_id="compact")
        last = await root.submit("last: " + words(LAST[kind]), request_id="last")
        settled = await last.wait()
        await root.wait_idle()
        await root.ask("And after all that?", request_id="after")
        await root.wait_idle()
        await check_session(session)
    witness.check(read_log(store.log))
    return settled


def check_requests(requests: list[str], crashes: int) -> None:
    """No summary was asked for more often than once, and once more for each that was in flight."""
    counts = Counter(requests)
    again = sum(count - 1 for count in counts.values())
    assert again <= crashes, counts


async def in_a_process(folder: Path, kind: CompactionKind, *points: CrashPoint) -> int:
    """Work in a child process, killed at the point if there is one, and return its exit status."""
    told = [word for point in points for word in (str(point.commit), point.side)]
    program = [sys.executable, "-m", "tests.crash.compacting", kind]
    files = [str(folder / "work.db"), str(folder / "requests")]
    project = Path(__file__).parents[2]
    ended = await trio.run_process([*program, *files, *told], cwd=project, check=False)
    return ended.returncode


def noting(path: Path) -> Callable[[str], None]:
    """Notes lines down in a file; a line outlives the process."""

    def note(line: str) -> None:
        with path.open("a") as file:
            file.write(f"{line}\n")

    return note


async def main(kind: str, store: str, requests: str, *words: str) -> None:
    """Work in this process."""
    point = CrashPoint(int(words[0]), "after" if words[1] == "after" else "before") if words else None
    below: Log = open_log(store)
    log = CrashingLog(below, point, crash=kill_this_process)
    async with open_store(log) as opened:
        settled = await work(opened, cast(CompactionKind, kind), noting(Path(requests)))
        assert settled.status == "done", settled
    below.close()


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))

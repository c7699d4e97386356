"""The processes of the recoveries benchmark: one that is killed, one that goes on, and its floor.

``python -m benchmarks.recovery_programs start|recover|profile STORE LAYOUT AGENTS`` and
``… floor STORE WORKLOAD``. Each tells its parent one line of JSON: ``start`` that every tool is
running, the others what they measured.
"""

import cProfile
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import trio

from benchmarks.floor import FloorLog, open_floor
from benchmarks.profiling import largest_costs
from pi_actors import Agent, Session, Settings, Store, Tool, open_store, tool
from pi_actors.core.text import Json
from pi_actors.models import ScriptedModel, call, reply

Layout: TypeAlias = Literal["sessions", "one session"]
LAYOUTS: Final[tuple[Layout, ...]] = ("sessions", "one session")

ANSWER: Final = "I cannot tell whether it was deployed."
MODEL: Final = ScriptedModel([reply("", call("deploy", target="production")), reply(ANSWER)])


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """From opening the store until every agent was answered. ``profile``: where the time went."""

    seconds: float
    transactions: int
    profile: str = ""


class NewRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that the floor packs and stores."""

    session: str
    position: int
    topic: str
    fields: Json


Workload: TypeAlias = list[list[list[NewRow]]]
"""What the floor writes: for each agent its commits, in order."""


def main(arguments: Sequence[str]) -> None:
    """Be the process that *arguments* ask for."""
    match arguments:
        case ["start", path, ("sessions" | "one session") as layout, agents]:
            trio.run(start, Path(path), layout, int(agents))
        case ["recover" | "profile" as how, path, ("sessions" | "one session") as layout, agents]:
            profile = cProfile.Profile() if how == "profile" else None
            _say(trio.run(recover, Path(path), layout, int(agents), profile))
        case ["floor", path, workload]:
            agents_commits = msgspec.msgpack.decode(Path(workload).read_bytes(), type=Workload)
            _say(trio.run(floor, Path(path), agents_commits))
        case _:
            raise SystemExit(f"unknown arguments {arguments}; {__doc__}")


async def start(path: Path, layout: Layout, agents: int) -> None:
    """Bring every agent to where its tool runs, say so, and wait to be killed."""
    running = trio.Semaphore(0)

    @tool(replay="never")
    async def deploy(target: str) -> str:
        """Deploy to the target."""
        running.release()
        await trio.sleep_forever()

    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(path))
        sessions = [
            await stack.enter_async_context(_session(store, name, deploy, agents))
            for name in _names(layout, agents)
        ]
        async with trio.open_nursery() as nursery:
            for agent in await _agents(sessions, agents):
                nursery.start_soon(agent.submit, "Deploy it.")
        for _ in range(agents):
            await running.acquire()
        _say("started")
        await trio.sleep_forever()


async def recover(path: Path, layout: Layout, agents: int, profile: cProfile.Profile | None) -> Measured:
    """Open every session and return once all agents are answered; make sure that they are."""

    @tool(replay="never")
    async def deploy(target: str) -> str:
        """Deploy to the target."""
        raise AssertionError(f"an effect of unknown outcome was repeated on {target}")

    seconds: list[float] = []
    answered = trio.Event()
    names = _names(layout, agents)
    begin = time.perf_counter()
    if profile is not None:
        profile.enable()
    async with open_store(path) as store, trio.open_nursery() as nursery:

        async def go_on(name: str) -> None:
            async with _session(store, name, deploy, agents) as session:
                await session.wait_idle()
                seconds.append(time.perf_counter() - begin)
                if len(seconds) == len(names):
                    if profile is not None:
                        profile.disable()
                    answered.set()
                await answered.wait()
                await _check_answers(session)

        for name in names:
            nursery.start_soon(go_on, name)
        await answered.wait()
        transactions = store.log.transactions
    costs = "" if profile is None else largest_costs(f"{agents} agents, {layout}:", profile)
    return Measured(seconds=max(seconds), transactions=transactions, profile=costs)


async def floor(path: Path, workload: Workload) -> Measured:
    """Read and decode every row of the store, then store the rows of each agent's commits."""
    begin = time.perf_counter()
    async with open_floor(path) as log:
        for _, _, _, state in await trio.to_thread.run_sync(log.read):
            msgspec.msgpack.decode(state)
        async with trio.open_nursery() as nursery:
            for commits in workload:
                nursery.start_soon(_commit_all, log, commits)
        return Measured(seconds=time.perf_counter() - begin, transactions=log.transactions)


async def _commit_all(log: FloorLog, commits: Iterable[Sequence[NewRow]]) -> None:
    encode = msgspec.msgpack.Encoder().encode
    for rows in commits:
        await log.commit([(row.session, row.position, row.topic, encode(row.fields)) for row in rows])


def _session(store: Store, name: str, deploy: Tool, agents: int) -> AbstractAsyncContextManager[Session]:
    return store.open_session(name, model=MODEL, tools=[deploy], settings=Settings(tools_max=agents))


def _names(layout: Layout, agents: int) -> list[str]:
    return [f"session-{number}" for number in range(agents)] if layout == "sessions" else ["main"]


async def _agents(sessions: Sequence[Session], agents: int) -> list[Agent]:
    """The root of each session, and in a single one as many further agents as are missing."""
    roots = [session.root for session in sessions]
    return roots + [await sessions[0].spawn() for _ in range(agents - len(roots))]


async def _check_answers(session: Session) -> None:
    for agent in await session.agents():
        (last,) = await agent.history(limit=1)
        assert last.text == ANSWER, last


def _say(what: object) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

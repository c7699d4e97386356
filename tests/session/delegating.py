"""Delegation in processes that are killed: one child that answers, and a tree that is aborted.

    python -m tests.session.delegating ask STORE [COMMIT]
    python -m tests.session.delegating grow STORE COMMIT
    python -m tests.session.delegating finish STORE COMMIT

``ask`` and ``finish`` die after that commit, ``grow`` after that many commits beyond the abort's.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from pi_actors import AgentLimits, Answer, Session, Store, Tool, open_session, open_store, tool
from pi_actors.core.errors import Fenced
from pi_actors.core.ids import ActorId
from pi_actors.core.messages import Message, Text
from pi_actors.core.state import SessionState
from pi_actors.models import ModelRequest, ScriptedModel, call, reply, stall
from pi_actors.models.plays import Item
from pi_actors.storage.log import Batch
from pi_actors.storage.opening import open_log
from pi_actors.testing import CrashingLog, CrashPoint, check_session, kill_this_process
from pi_actors.tools import subagent_tool

PROJECT: Final = Path(__file__).parents[2]
WIDTH: Final = 5
LEVELS: Final = 3
LEAVES_BEFORE_ABORT: Final = 40
"""Of 125: the abort meets a tree that is still growing."""


def words_of(request: ModelRequest) -> list[str]:
    """The texts of a request's messages."""
    return [part.text for each in request.messages for part in _texts(each)]


def _texts(message: Message) -> list[Text]:
    texts = [part for part in message.parts if isinstance(part, Text)]
    for part in message.parts:
        texts += [each for each in getattr(part, "content", ()) if isinstance(each, Text)]
    return texts


# One child.


def asking(request: ModelRequest) -> Item:
    """The parent delegates and passes on what it is told; the child answers."""
    first, *_, last = words_of(request) * 2
    if first == "dig":
        return reply("a bone")
    return reply(f"It found {last}.") if request.turn else reply("", call("task", prompt="dig"))


async def ask(store: Store) -> Answer:
    """Ask, or go on asking."""
    async with open_session(store, model=ScriptedModel(asking), tools=[subagent_tool()]) as session:
        answer = await session.root.ask("go", request_id="go")
        await check_session(session)
        return answer


# A tree.


@tool
async def hold() -> str:
    """Hold on."""
    await trio.sleep_forever()


def growing(request: ModelRequest) -> Item:
    """Every agent delegates to five; the leaves hold on, in a tool or in the middle of an answer."""
    first = words_of(request)[0]
    if request.turn or not first.startswith("level"):
        return reply("again")
    level, branch = (int(word) for word in first.split()[1:])
    if level < LEVELS:
        return reply("", *(call("task", prompt=f"level {level + 1} {branch}") for branch in range(WIDTH)))
    return reply("", call("hold")) if branch % 2 else stall("I think")


def tree_tools() -> Sequence[Tool]:
    """What every agent of the tree has."""
    return [subagent_tool(limits=AgentLimits(depth_max=LEVELS, concurrent_max=WIDTH)), hold]


def level_of(state: SessionState, agent: ActorId) -> int:
    """How many agents are above."""
    owner = state.actors[agent].owner
    return level_of(state, state.actors[owner].agent) + 1 if owner else 0


def leaves(state: SessionState) -> int:
    """How many agents of the last level have something to do."""
    busy = [actor.id for actor in state.actors.values() if actor.is_agent and actor.busy]
    return sum(level_of(state, agent) == LEVELS for agent in busy)


async def grow(session: Session) -> None:
    """Grow the tree and abort it in the middle."""
    await session.root.submit("level 0 0", request_id="go")
    await session.live.waits.until(lambda state: leaves(state) >= LEAVES_BEFORE_ABORT)
    await session.root.abort()


class KilledAfterAbort(CrashingLog):
    """Dies after the *later*-th commit that follows the one which marks for abort."""

    def __init__(self, path: str, later: int) -> None:
        super().__init__(open_log(path), None, crash=kill_this_process)
        self._later = later
        self._is_aborting = False

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        marking = [any(row.topic == "AbortMarked" for row in batch.rows) for batch in batches]
        if not self._is_aborting and any(marking):
            self._is_aborting = True
            self.point = CrashPoint(self.commits + 1 + marking.index(True) + self._later, "after")
        return super().append(batches)


# Processes.


async def in_a_process(what: str, store: Path, commit: int) -> int:
    """Do it in a child process that dies at that commit; its exit status."""
    program = [sys.executable, "-m", "tests.session.delegating", what, str(store), str(commit)]
    return (await trio.run_process(program, cwd=PROJECT, check=False)).returncode


async def main(what: str, path: str, commit: str) -> None:
    """Do it in this process."""
    dying = CrashingLog(open_log(path), CrashPoint(int(commit), "after"), crash=kill_this_process)
    log = KilledAfterAbort(path, int(commit)) if what == "grow" else dying
    async with open_store(log) as store:
        if what == "ask":
            await ask(store)
        else:
            async with open_session(store, model=ScriptedModel(growing), tools=tree_tools()) as session:
                await (grow(session) if what == "grow" else session.wait_idle())


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))

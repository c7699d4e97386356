"""Sessions that live through crashes at random commits, among random work, under many seeds.

Time is virtual and the scheduler seeded, so a seed that fails does so again:
``pytest tests/crash/test_seeds.py -k seed-17``. ``CRASH_SEEDS`` says how many are tried.
"""

import os
import random
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import trio
from trio.testing import MockClock

from pi_actors import RetrySettings, Session, Settings, Store, ToolContext, open_session
from pi_actors.models import ScriptedModel, call, cut, fail, reply
from pi_actors.models.plays import Item
from pi_actors.models.protocol import ModelRequest
from pi_actors.runtime import snapshots
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import (
    CrashPoint,
    EffectsFile,
    TrioClock,
    Witness,
    accepted,
    check_effects,
    check_log,
    check_session,
    effect_tools,
    read_log,
    run_until_crash,
)
from pi_actors.testing.crashing import SIDES
from pi_actors.testing.world import EFFECT_TOOLS
from pi_actors.tools import subagent_tool
from projections import replay

SEEDS = int(os.environ.get("CRASH_SEEDS", "100"))
INPUTS = 3
CRASHES_MAX = 4
SMALL_WINDOW = 400
"""In every other seed agents compact their contexts again and again."""

HANG_S = 3_600
"""Virtual seconds that no session takes: it would wait for something that never comes."""

SETTINGS = tuple(
    Settings(retry=RetrySettings(first_ms=500, cap_ms=5_000), close_ms=2_000, passivate_ms=passivate_ms)
    for passivate_ms in (0, 1, 500)
)
"""By seed: whether, and how soon, idle agents give up their memory."""


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
def test_a_session_keeps_its_promises_through_random_crashes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V352, X25: after the last crash everything accepted is settled, whatever happened on the way."""
    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr(snapshots, "SNAPSHOT_EVERY", 5 + seed % 20)
    trio._core._run._r.seed(seed)
    random.seed(seed)
    trio.run(partial(_live_through, seed, tmp_path), clock=MockClock(autojump_threshold=0))


async def _live_through(seed: int, folder: Path) -> None:
    with trio.fail_after(HANG_S):
        await _crash_and_finish(seed, folder)


async def _crash_and_finish(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    clock, log, file = TrioClock(), MemoryLog(), EffectsFile(folder / "effects")
    scenario = partial(work, seed=seed, chance=chance, clock=clock, file=file)
    for _ in range(chance.randint(1, CRASHES_MAX)):
        point = CrashPoint(chance.randint(1, 30), chance.choice(SIDES))
        await run_until_crash(scenario, log, point)
        check_log(log)
    await run_until_crash(scenario, log, None)
    check_effects(check_log(log, finished=True), file)


async def work(
    store: Store, *, seed: int, chance: random.Random, clock: TrioClock, file: EffectsFile
) -> None:
    """Hand over inputs, disturb the session, wait for all of them."""
    window = SMALL_WINDOW if seed % 2 else 200_000
    model = ScriptedModel(partial(_script, seed), chunk_ms=chance.choice((0, 30, 300)), context_window=window)

    async def pause(ctx: ToolContext) -> None:
        ctx.output("working\n" * chance.randint(0, 2))
        await trio.sleep(chance.uniform(0, 3))

    tools = [*effect_tools(file, pause=pause), subagent_tool()]
    settings = SETTINGS[seed % len(SETTINGS)]
    async with open_session(store, model=model, tools=tools, clock=clock, settings=settings) as session:
        witness = Witness(session)
        async with trio.open_nursery() as nursery:
            for number in range(INPUTS):
                nursery.start_soon(_hand_over, session, number, chance)
            if chance.random() < 0.3:
                nursery.start_soon(_disturb, session, chance)
        for id in accepted(read_log(store.log)):
            await session.submission(id).wait()
        await session.wait_idle()
        await check_session(session)
        replayed = await replay(store)
        for agent in await session.agents():
            assert replayed.documents(agent.id) == await agent.documents()
    witness.check(read_log(store.log))


async def _hand_over(session: Session, number: int, chance: random.Random) -> None:
    """An input now and then steers, is withdrawn, or comes with a write."""
    await trio.sleep(chance.uniform(0, 8))
    mode: Literal["follow_up", "steer"] = "steer" if chance.random() < 0.5 else "follow_up"
    submission = await session.root.submit(f"input {number}", request_id=f"input-{number}", when_busy=mode)
    if chance.random() < 0.2:
        await session.root.submit_write("note", data=number, request_id=f"note-{number}")
    if chance.random() < 0.2:
        await submission.withdraw()
    settled = await submission.wait()
    assert (settled.status == "done") == (settled.answer is not None)
    assert (settled.status == "done") == (settled.reason is None), settled
    assert settled.reason in (None, "aborted"), settled


async def _disturb(session: Session, chance: random.Random) -> None:
    await trio.sleep(chance.uniform(0, 12))
    await session.root.abort()


def _script(seed: int, request: ModelRequest) -> Item:
    """What the model says at this turn and attempt, the same in every process."""
    agent = request.session_id.partition(":")[2]
    chance = random.Random(f"{seed}:{agent}:{request.turn}:{request.attempt}")
    if request.attempt < 3 and chance.random() < 0.2:
        return chance.choice((fail("overloaded", after="I was about"), cut("half an ans"), fail("too much")))
    if chance.random() < 0.4:
        return reply(f"Answer {request.turn}. " * chance.randint(1, 20))
    names = chance.choices(EFFECT_TOOLS, k=chance.randint(1, 4))
    calls = [call(name, what=f"{request.turn}") for name in names]
    if chance.random() < 0.2:
        calls.append(call("task", prompt=f"Do {request.turn}."))
    return reply("Let me see.", *calls)

"""Idle agents give up their memory and come back at a touch, and nobody sees a difference."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from eventsourcing.persistence import StoredEvent
from trio.testing import MockClock, wait_all_tasks_blocked

from pi_actors import ActorKind, Agent, Done, Session, Settings, Work, open_session, subagent_tools
from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Passive
from pi_actors.core.errors import CommandRefused, Fenced, SessionFailed
from pi_actors.core.ids import ROOT, ActorId, SessionId
from pi_actors.core.state import SessionState
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.models.plays import Item
from pi_actors.models.protocol import ModelRequest
from pi_actors.storage.log import Batch, Log, Snapshot
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import TrioClock, check_log, check_session
from tests.crash.killed import killed, reopened
from tests.session.gate import Gate

SOON = Settings(passivate_ms=60_000)


def echo(request: ModelRequest) -> Item:
    return reply(f"Answer {request.turn}.")


def is_passive(session: Session, agent: ActorId = ROOT) -> bool:
    line = session.live.line
    passive = isinstance(line.shown.actors[agent].state, Passive)
    assert passive == isinstance(line.ahead.actors[agent].state, Passive)
    return passive


async def pass_time(session: Session) -> None:
    """Let every idle agent give up its memory, as two looks do."""
    await session.live.passivation.look()
    await session.live.passivation.look()


@asynccontextmanager
async def at_rest(log: Log | None = None) -> AsyncGenerator[Session]:
    """A session whose root agent has answered once and is passive."""
    async with reopened(log or MemoryLog(), echo, settings=SOON) as session:
        await session.root.ask("Hello.")
        await pass_time(session)
        assert is_passive(session)
        yield session


# When.


async def test_an_agent_that_is_idle_for_long_gives_up_its_memory_and_comes_back_at_a_touch(
    autojump_clock: MockClock,
) -> None:
    async with open_session(
        "memory:", model=ScriptedModel(echo), settings=SOON, clock=TrioClock()
    ) as session:
        await session.root.ask("Hello.")
        await trio.sleep(59)
        assert not is_passive(session)
        await trio.sleep(62)
        assert is_passive(session)
        await check_session(session)
        assert (await session.root.ask("And now?")).text == "Answer 1."
        assert not is_passive(session)
        await trio.sleep(121)
        assert is_passive(session)


async def test_an_agent_that_is_touched_now_and_then_stays(autojump_clock: MockClock) -> None:
    async with open_session("memory:", settings=SOON, clock=TrioClock()) as session:
        await session.root.submit_write("note")
        for _ in range(9):
            await trio.sleep(55)
            assert len(await session.root.entries()) == 1
            assert not is_passive(session)


async def test_nobody_gives_up_memory_where_that_is_turned_off(autojump_clock: MockClock) -> None:
    settings = Settings(passivate_ms=0)
    async with open_session("memory:", settings=settings, clock=TrioClock()) as session:
        await trio.sleep(86_000)
        assert not is_passive(session)


def test_the_time_is_not_negative() -> None:
    with pytest.raises(ValueError, match="setting passivate_ms is -1; it must be at least 0"):
        Settings(passivate_ms=-1)


async def test_an_agent_with_a_run_or_something_queued_stays() -> None:
    gate = Gate()
    script = [reply("", call("gate")), reply("One."), reply("Two.")]
    async with reopened(MemoryLog(), script, gate.tool, settings=SOON) as session:
        first = await session.root.submit("first")
        await gate.entered.wait()
        await pass_time(session)
        assert not is_passive(session)
        await session.root.submit("second")
        await pass_time(session)
        assert not is_passive(session)
        gate.opened.set()
        assert (await first.wait()).text == "One."
        await session.root.wait_idle()
        await pass_time(session)
        assert is_passive(session)


async def test_an_agent_with_anything_live_below_it_stays_also_across_a_boundary() -> None:
    leave = trio.Event()

    async def step(work: Work[int]) -> Done:
        await leave.wait()
        return Done()

    kind = ActorKind("test.waiting", int, step)
    async with open_session("memory:", actors=[kind], settings=SOON) as session:
        for background in (False, True):
            id = await session.root.spawn(kind, 1, background=background)
            await pass_time(session)
            assert not is_passive(session)
            leave.set()
            await session.wait_actor(id)
            leave = trio.Event()
        await pass_time(session)
        assert is_passive(session)


# Touches.


async def ask(agent: Agent) -> object:
    return (await agent.ask("Again.")).text


async def write(agent: Agent) -> object:
    return await (await agent.submit_write("note", request_id="a")).status()


async def configure(agent: Agent) -> None:
    await agent.configure(thinking="high")


async def read(agent: Agent) -> object:
    return [entry.text for entry in await agent.entries()]


async def reset(agent: Agent) -> object:
    return await (await agent.reset("From here on.")).status()


async def compact(agent: Agent) -> object:
    return (await agent._session.wait_actor(await agent.compact())).reason


async def fork(agent: Agent) -> object:
    return [entry.text for entry in await (await agent.fork((await agent.history())[-1].id)).entries()]


async def abort(agent: Agent) -> None:
    await agent.abort(background=True)


async def release(agent: Agent) -> None:
    await agent.release()


async def withdraw(agent: Agent) -> object:
    return await agent._session.submission((await agent.history())[0].id - 1).withdraw()


TOUCHES = (ask, write, configure, read, reset, compact, fork, abort, release, withdraw)


@pytest.mark.parametrize("touch", TOUCHES, ids=lambda touch: touch.__name__)
async def test_whatever_touches_a_passive_agent_finds_it_as_it_was(
    touch: Callable[[Agent], Awaitable[object]],
) -> None:
    said: list[object] = []
    for passive in (False, True):
        async with reopened(MemoryLog(), echo, settings=SOON) as session:
            await session.root.ask("Hello.")
            await session.root.configure(thinking="low")
            if passive:
                await pass_time(session)
            documents = await session.root.documents()
            said += [await touch(session.root), session.position]
            assert (await session.root.documents())["pi.provider"] == documents["pi.provider"]
            assert not is_passive(session)
            await check_session(session)
            check_log(session.live.store.log)
    assert said[:2] == said[2:]


LOOKS: dict[str, Callable[[Session], Awaitable[object]]] = {
    "documents": lambda session: session.root.documents(),
    "usage": lambda session: session.root.usage(),
    "wait_idle": lambda session: session.root.wait_idle(),
    "agents": lambda session: session.agents(),
    "history": lambda session: session.root.history(),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
async def test_what_needs_no_memory_of_an_agent_does_not_wake_it(
    look: Callable[[Session], Awaitable[object]],
) -> None:
    async with at_rest() as session:
        await look(session)
        assert is_passive(session)
        (node,) = session.tree()
        assert (node.id, node.kind, node.state, node.blocked) == (ROOT, "pi.agent", "idle", None)


async def test_a_passive_fork_is_told_in_the_tree_with_what_it_was_forked_from() -> None:
    async with at_rest() as session:
        fork = await session.root.fork((await session.root.entries())[-1].id)
        told = session.tree()
        assert told[1].forked_from is not None
        await pass_time(session)
        assert is_passive(session, fork.id)
        assert session.tree() == told


async def test_what_is_refused_to_an_agent_is_refused_to_a_passive_one() -> None:
    async with at_rest() as session:
        position = session.position
        with pytest.raises(CommandRefused, match="entry 77 is not in the history of agent 1"):
            await session.root.fork(77)
        assert session.position == position


# An actor may own agents, and agents that own them may be passive while these are not.


async def test_a_parent_and_its_passive_child_go_on_as_if_neither_had_given_up_its_memory() -> None:
    """The message to the child wakes it, its end wakes nobody who needs not know; names are remembered."""
    script = [
        reply("", call("spawn_subagent", name="kid", task="Do it.")),
        reply("It is at work."),
        reply("It has said something."),
        reply("", call("message_subagent", name="kid", message="Once more.")),
        reply("It is at work again."),
        reply("It has said something again."),
    ]

    def say(request: ModelRequest) -> Item:
        is_child = "Do it." in str(request.messages[0])
        return reply(f"Done {request.turn}.") if is_child else script[request.turn]

    async with reopened(MemoryLog(), say, *subagent_tools(), settings=SOON) as session:
        await session.root.ask("Begin.")
        await until_quiet(session, 3)
        (child,) = (agent.id for agent in await session.agents() if agent.id != ROOT)
        await pass_time(session)
        assert is_passive(session, child)
        assert not is_passive(session), "its anchor lives, in the background"
        await session.root.ask("Go on.")
        await until_quiet(session, 6)
        texts = [entry.text for entry in await session.agent(child).entries() if entry.kind == "pi.assistant"]
        assert texts == ["Done 0.", "Done 1."]
        await pass_time(session)
        assert is_passive(session, child)
        await session.root.abort(background=True)
        assert is_passive(session, child), "nothing was queued there, so the abort says nothing to it"
        await session.live.waits.until(lambda state: not any(actor.live for actor in state.actors.values()))
        await pass_time(session)
        assert is_passive(session)
        await check_session(session)
    check_log(session.live.store.log)


async def until_quiet(session: Session, turns: int) -> None:
    """Return once the root has had so many turns and is idle."""

    def is_quiet(state: SessionState) -> bool:
        root = state.actors[ROOT].state
        return isinstance(root, AgentState) and root.turn >= turns and root.run is None

    await session.live.waits.until(is_quiet)


# Where it is kept.


async def test_a_passive_agent_is_still_passive_after_a_restart_and_comes_back() -> None:
    log = Counting()
    async with at_rest(log):
        pass
    log.asked.clear()
    async with reopened(log, echo, settings=SOON) as session:
        assert is_passive(session)
        assert by_the_writer(log.asked) == ["state"]
        assert (await session.root.ask("And now?")).text == "Answer 1."
        assert by_the_writer(log.asked) == ["state", "agent:1"]
        await check_session(session)


def by_the_writer(asked: list[str]) -> list[str]:
    """Which snapshots were asked for, those of the documents left out."""
    return [name for name in asked if name != "documents"]


async def test_an_agent_that_gave_up_its_memory_after_the_newest_snapshot_is_passive_after_a_close() -> None:
    log = MemoryLog()
    async with reopened(log, echo, settings=SOON) as session:
        await session.root.ask("Hello.")
        await session.live.snapshots.take()
        await pass_time(session)
    async with reopened(log, echo, settings=SOON) as session:
        assert is_passive(session)
        await check_session(session)


async def test_an_agent_that_came_back_and_changed_after_a_snapshot_is_folded_from_there() -> None:
    log = MemoryLog()
    async with at_rest(log):
        pass
    async with killed(log, echo, settings=SOON) as session:
        assert (await session.root.ask("And now?")).text == "Answer 1."
        await pass_time(session)
        assert (await session.root.ask("And then?")).text == "Answer 2."
    async with reopened(log, echo, settings=SOON) as session:
        assert not is_passive(session)
        await check_session(session)


def lost(log: MemoryLog) -> None:
    log._sessions["main"].snapshots["agent:1"] = []


def damaged(log: MemoryLog) -> None:
    kept = log._sessions["main"].snapshots["agent:1"]
    kept[:] = [(position, body[:-1]) for position, body in kept]


def of_another_time(log: MemoryLog) -> None:
    actor = log.snapshots("main", "agent:1")[0]
    lost(log)
    assert log.save_snapshot("main", log._sessions["main"].head.epoch, actor._replace(position=2))


@pytest.mark.parametrize("lose", [lost, damaged, of_another_time], ids=lambda lose: lose.__name__)
async def test_a_passive_agent_whose_snapshot_cannot_be_used_is_made_from_the_log(
    lose: Callable[[MemoryLog], None],
) -> None:
    log = MemoryLog()
    async with at_rest(log) as session:
        lose(log)
        await check_session(session)
        assert (await session.root.ask("And now?")).text == "Answer 1."
        await pass_time(session)
    lose(log)
    async with reopened(log, echo, settings=SOON) as session:
        assert is_passive(session)
        assert [entry.text for entry in await session.root.entries()][-1] == "Answer 1."
        await check_session(session)


async def test_a_session_whose_passive_agent_is_damaged_in_the_log_too_fails_when_it_is_touched() -> None:
    log = MemoryLog()
    with pytest.raises(SessionFailed, match="is damaged at position 3"):
        await _touch_damaged(log)


async def _touch_damaged(log: MemoryLog) -> None:
    async with at_rest(log) as session:
        lost(log)
        events = log.recorder._stored_events
        event = events[2]
        events[2] = StoredEvent("main", 3, event.topic, event.state[:-1] + b"?")
        await session.root.entries()


class Counting(MemoryLog):
    """A log that tells which snapshots were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def snapshots(self, session: SessionId, name: str) -> list[Snapshot]:
        self.asked.append(name)
        return super().snapshots(session, name)


# Commits on their way.


class Held(MemoryLog):
    """A log that writes in a thread, and not before it may."""

    blocks = True

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.may.set()
        self.begun = threading.Event()

    def append(self, batches: Sequence[Batch]) -> list[Fenced | None]:
        self.begun.set()
        assert self.may.wait(60)
        return super().append(batches)


async def test_an_agent_that_is_about_to_change_keeps_its_memory() -> None:
    log = Held()
    async with reopened(log, [], settings=SOON) as session:
        await session.root.submit_write("note")
        await session.live.passivation.look()
        log.may.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.root.submit_write, "note")
            while session.live.line.ahead is session.live.line.shown:
                await trio.lowlevel.checkpoint()
            nursery.start_soon(session.live.passivation.look)
            await wait_all_tasks_blocked()
            log.may.set()
        assert not is_passive(session)
        assert len(await session.root.entries()) == 2
        await check_session(session)


async def test_an_agent_gives_up_its_memory_and_comes_back_beside_commits_of_others_on_their_way() -> None:
    log = Held()
    async with reopened(log, [], settings=SOON) as session:
        other = await session.spawn()
        await session.root.submit_write("note")
        await session.live.passivation.look()
        log.may.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.submit_write, "note")
            while session.live.line.ahead is session.live.line.shown:
                await trio.lowlevel.checkpoint()
            root = session.live.line.shown.actors[ROOT]
            session.live.passivation.let_go([root], session.live.line.shown.position)
            assert is_passive(session)
            nursery.start_soon(other.submit_write, "note")
            await wait_all_tasks_blocked()
            log.may.set()
        assert is_passive(session)
        log.may.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.submit_write, "note")
            while session.live.line.ahead is session.live.line.shown:
                await trio.lowlevel.checkpoint()
            assert len(await session.root.entries()) == 1
            assert not is_passive(session)
            log.may.set()
        assert not is_passive(session)
        await check_session(session)


async def test_many_touches_at_once_find_one_agent() -> None:
    async with at_rest() as session:
        async with trio.open_nursery() as nursery:
            for number in range(9):
                nursery.start_soon(session.root.submit_write, f"note {number}")
                nursery.start_soon(session.root.entries)
        assert sorted(entry.kind for entry in await session.root.entries())[:9] == [
            f"note {number}" for number in range(9)
        ]
        await check_session(session)

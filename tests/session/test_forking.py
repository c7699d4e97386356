"""Forks: what an agent that goes on from another's history sees, has and costs."""

import msgspec
import pytest

from pi_actors import Agent, CommandRefused, Session, open_store
from pi_actors.actors.agent.state import AgentState, as_of
from pi_actors.models import ModelRequest, ScriptedModel, call, reply
from pi_actors.models.plays import Item
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import check_log
from pi_actors.tools import tool
from tests.crash.killed import Observed, reopened
from tests.session.gate import Gate
from tests.session.opened import opened


def echo(request: ModelRequest) -> Item:
    """Says how many messages it was sent, and the last one."""
    said = request.messages[-1].parts[-1]
    return reply(f"{len(request.messages)}: {getattr(said, 'text', 'a result')}")


async def ids(agent: Agent) -> list[int]:
    return [entry.id for entry in await agent.entries()]


async def talked(session: Session, turns: int = 3) -> list[int]:
    """The root's entries after some turns."""
    for turn in range(turns):
        await session.root.ask(f"question {turn}")
    return await ids(session.root)


async def test_a_fork_sees_its_parents_entries_up_to_there_and_goes_on_by_itself() -> None:
    async with opened(ScriptedModel(echo)) as session:
        before = await talked(session)
        fork = await session.root.fork(before[3])
        assert await ids(fork) == before[:4]
        assert (await fork.ask("and now?")).text == "5: and now?"
        assert (await ids(fork))[:4] == before[:4]
        assert await ids(session.root) == before


async def test_a_fork_has_its_parents_choices_of_that_time() -> None:
    async with opened(ScriptedModel(echo)) as session:
        await session.root.configure(thinking="low", instructions="Be brief.")
        before = await talked(session)
        await session.root.configure(thinking="high", instructions="Be loud.")
        after = await talked(session, 1)
        old, new = await session.root.fork(before[-1]), await session.root.fork(after[-1])
        assert [(await each.documents())["pi.agent"]["chosen"]["thinking"] for each in (old, new)] == [
            "low",
            "high",
        ]
        await old.ask("who are you?")
        assert [entry.text for entry in await old.entries() if entry.kind == "pi.system"] == ["Be brief."]


async def test_a_fork_has_an_empty_inbox_no_usage_no_turn_and_a_provider_session_of_its_own() -> None:
    """C76, H153: what is counted is counted for the agent that asked; the session's sum has it once."""
    gate = Gate()
    model = Observed([reply("", call("gate")), reply("one")])
    async with opened(model, gate.tool) as session:
        await session.root.submit("wait")
        await gate.entered.wait()
        await session.root.submit("queued")
        fork = await session.root.fork((await ids(session.root))[0])
        documents = await fork.documents()
        assert documents["pi.inbox"] == {"items": [], "held": None}
        assert documents["pi.usage"]["total"]["responses"] == 0
        assert documents["pi.provider"] != (await session.root.documents())["pi.provider"]
        spent = await session.usage()
        assert spent.responses == (await session.root.usage()).responses == 1
        gate.opened.set()
        await fork.submit("on your own")
        await session.wait_idle()
        asked = [request for request in model.requests if request.session_id.endswith(f":{fork.id}")]
        assert asked[0].turn == 0


async def test_a_fork_of_what_a_reset_or_a_summary_has_left_behind_sees_it_again() -> None:
    """B44: the context of a fork made at an entry is the context at that entry."""
    model = Observed(echo)
    async with opened(model) as session:
        root = session.root
        seen: dict[int, list[int]] = {}
        for turn in range(8):
            await root.ask("x" * 20_000)
            now = await ids(root)
            seen[max(now)] = now
            if turn == 3:
                await root.reset("Start anew.")
            if turn == 6:
                await session.wait_actor(await root.compact())
        assert len(seen[max(seen)]) < 8
        for at, then in seen.items():
            assert await ids(await root.fork(at)) == then
        for at in seen:
            await (await root.fork(at)).ask("go on")
        forked = model.requests[-len(seen) :]
        counts = [len(then) + 1 for then in seen.values()]
        assert [len(request.messages) for request in forked] == counts


async def test_a_fork_within_a_round_is_told_that_the_call_has_no_result() -> None:
    """B40: a call with no result anywhere in range is answered with missing_result."""
    model = Observed([reply("", call("look")), reply("done")])

    @tool
    async def look() -> str:
        """Look."""
        return "a view"

    async with opened(model, look) as session:
        await session.root.ask("look")
        calling = (await ids(session.root))[1]
        fork = await session.root.fork(calling)
        await fork.submit("well?")
        await session.wait_idle()
        remarks = msgspec.json.encode(model.requests[2].messages[2]).decode()
        assert "missing_result" in remarks
        assert "a view" not in remarks


async def test_a_fork_of_a_fork_has_the_history_of_both() -> None:
    async with opened(ScriptedModel(echo)) as session:
        before = await talked(session)
        first = await session.root.fork(before[3])
        await first.ask("first")
        own = await ids(first)
        second = await first.fork(own[4])
        third = await second.fork(before[1])
        assert await ids(second) == own[:5]
        assert await ids(third) == before[:2]
        await second.ask("second")
        history = [(entry.id, entry.agent) for entry in await second.history(limit=5)]
        assert history[:3] == [(before[2], 1), (before[3], 1), (own[4], first.id)]
        page = [entry.id for entry in await second.history(before=before[3], limit=2)]
        assert page == before[1:3]


async def test_what_is_not_in_an_agents_history_cannot_be_forked() -> None:
    """B45: a cutoff that the agent does not see is refused, and nothing is stored."""
    async with opened(ScriptedModel(echo)) as session:
        before = await talked(session)
        fork = await session.root.fork(before[3])
        position = session.position
        for at in (before[4], fork.id, position + 10, 0, -1):
            with pytest.raises(CommandRefused, match=f"entry {at} is not in the history of agent {fork.id}"):
                await fork.fork(at)
        assert session.position == position


async def test_the_same_request_id_gives_the_same_fork_also_after_a_restart() -> None:
    log = MemoryLog()
    async with reopened(log, echo) as session:
        before = await talked(session)
        fork = await session.root.fork(before[1], request_id="branch")
        assert (await session.root.fork(before[1], request_id="branch")).id == fork.id
        await fork.ask("go on")
        there = await ids(fork)
    async with reopened(log, echo) as session:
        again = await session.root.fork(before[1], request_id="branch")
        assert again.id == fork.id
        assert await ids(again) == there
        assert (await again.ask("and on")).text == "5: and on"
    check_log(log)


async def test_a_fork_copies_nothing_of_what_was_said() -> None:
    async with open_store("memory:") as store, opened(ScriptedModel(echo), store=store) as session:
        await session.root.ask("a long story " * 10_000)
        before = store.log.size_bytes("main")
        await session.root.fork((await ids(session.root))[-1])
        assert store.log.size_bytes("main") - before < 300


async def test_what_the_state_can_tell_of_an_earlier_entry_is_what_the_log_says() -> None:
    """The short way, from memory, and the long one, from the log, lead to the same context."""
    told = 0
    async with opened(ScriptedModel(echo), instructions="Be brief.") as session:
        root, live = session.root, session.live
        for turn in range(9):
            await root.ask("x" * 15_000)
            if turn == 2:
                await root.configure(instructions="Be briefer.")
            if turn == 5:
                await session.wait_actor(await root.compact())
            state = live.shell.agent_state(root.id)
            for entry in await root.history():
                short = as_of(state, entry.id)
                long = (await live.state_at(entry.id)).actors[root.id].state
                assert isinstance(long, AgentState)
                if short is not None:
                    told += 1
                    assert (short.entries, short.choices, short.system) == (
                        long.entries,
                        long.choices,
                        long.system,
                    )
    assert told > 20

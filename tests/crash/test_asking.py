"""Crashes around a model request: the same request again, and nothing else of it."""

import pytest
from trio.testing import MockClock

from pi_actors import SessionFailed, open_session, open_store
from pi_actors.actors.agent.messages import ResponseSettled
from pi_actors.actors.generation.messages import RequestStarted
from pi_actors.models import ModelRequest, call, reply, stall
from pi_actors.models.plays import Item
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import CrashingLog, TrioClock, check_log
from tests.crash.killed import Observed, killed, reopened, stored, topics
from tests.session.gate import Gate


async def test_the_pinned_request_goes_to_the_same_model_again_whatever_is_the_default_now() -> None:
    """N221: with the same messages, tools, turn and attempt."""
    log, gate = MemoryLog(), Gate()
    old, new = Observed([stall()], name="old"), Observed([reply("New.")], name="new")
    async with killed(log, old, gate.tool) as session:
        await session.root.submit("go", request_id="go")
        await old.asked.wait()
    again = Observed([reply("Old.")], name="old")
    async with (
        open_store(log) as store,
        open_session(
            store, model=new, models={"old": again}, tools=[gate.tool], instructions="New!"
        ) as session,
    ):
        assert (await (await session.root.submit("go", request_id="go")).wait()).text == "Old."
    assert again.requests == old.requests
    assert new.requests == []
    requests = [each for each in check_log(log, finished=True) if isinstance(each.event, RequestStarted)]
    assert len(requests) == 1


async def test_what_had_streamed_becomes_an_aborted_entry_that_no_model_sees(
    autojump_clock: MockClock,
) -> None:
    """N223: then the same request is sent again."""
    log, clock = MemoryLog(), TrioClock()
    script: list[Item] = [stall("I was about to say")]
    async with killed(log, script, clock=clock) as session:
        await session.root.submit("go", request_id="go")
        await stored(session, "PartialStreamed")
    model = Observed([reply("Something else."), reply("And more.")])
    async with reopened(log, model, clock=clock) as session:
        assert (await (await session.root.submit("go", request_id="go")).wait()).text == "Something else."
        await session.root.ask("go on")
    settled = [
        each.event for each in check_log(log, finished=True) if isinstance(each.event, ResponseSettled)
    ]
    assert [event.info.stop for event in settled] == ["aborted", "answer", "answer"]
    assert [len(request.messages) for request in model.requests] == [1, 3]


async def test_a_second_recovery_sends_the_same_bytes_as_the_first() -> None:
    """X06: a call was left without a result, and a message was handed over behind it."""
    log, gate = MemoryLog(), Gate()

    def script(request: ModelRequest) -> Item:
        return reply("", call("gate")) if request.turn == 0 else stall()

    async with killed(log, script, gate.tool) as session:
        await session.root.submit("go")
        await gate.entered.wait()
        await session.root.submit("and then", when_busy="steer")
    sent: list[ModelRequest] = []
    before = 0
    for _ in range(2):
        before, model = len(topics(log)), Observed(script)
        async with killed(log, model, gate.tool) as session:
            await model.asked.wait()
        sent += model.requests
    assert sent[0] == sent[1]
    assert [message.role for message in sent[0].messages] == ["user", "assistant", "tool", "user"]
    assert topics(log, after=before) == ["RunRecovered"]
    check_log(log)


async def test_a_store_that_cannot_be_read_ends_the_session_and_decides_nothing() -> None:
    """R270: the run is not failed for it; another process may read well."""
    log = MemoryLog()
    async with reopened(log, [reply("One.")]) as session:
        await session.root.ask("one")
    before = len(topics(log))
    unreadable = CrashingLog(log, None)

    async def ask_of_an_unreadable_store() -> None:
        async with reopened(unreadable, [reply("One."), reply("Two.")], resume=False) as session:
            submission = await session.root.submit("two", request_id="two")
            unreadable.crash_now()
            session.resume()
            await submission.wait()

    with pytest.raises(SessionFailed, match="crashed"):
        await ask_of_an_unreadable_store()
    assert topics(log, after=before)[-1] == "RequestStarted"
    async with reopened(log, [reply("One."), reply("Two.")]) as session:
        assert (await (await session.root.submit("two", request_id="two")).wait()).text == "Two."
    check_log(log, finished=True)


async def test_a_store_that_fails_while_a_request_is_made_ready_raises_session_failed_alone() -> None:
    """No group of errors comes out of the session, though several of its tasks have met the failure."""
    log = MemoryLog()
    async with reopened(log, [reply("One.")]) as session:
        await session.root.ask("one")
    crashing = CrashingLog(log, None)

    async def ask_and_crash() -> None:
        async with reopened(crashing, [reply("One."), stall()]) as session:
            await session.root.submit("two")
            crashing.crash_now()

    with pytest.raises(SessionFailed, match="crashed"):
        await ask_and_crash()

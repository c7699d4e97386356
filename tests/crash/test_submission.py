"""Crashes around what is handed over: accepted means kept, withdrawn means gone, placed means once."""

from pi_actors import Store, open_session, user_message
from pi_actors.actors.agent.messages import EntryAppended, RunEnded, SubmissionPlaced
from pi_actors.models import ModelRequest, call, reply, stall
from pi_actors.models.plays import Item
from pi_actors.storage.log import Log
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import CrashPoint, accepted, check_log, crash_sweep
from tests.crash.killed import Observed, killed, reopened
from tests.session.gate import Gate


async def test_a_withdrawn_steer_stays_away_and_an_untouched_one_comes_back_under_its_old_id() -> None:
    """V344."""
    log, gate = MemoryLog(), Gate()
    script = [reply("", call("gate")), reply("Done."), reply("More.")]
    async with killed(log, script, gate.tool) as session:
        await session.root.submit("go", request_id="go")
        await gate.entered.wait()
        ids = [(await session.root.submit(text, when_busy="steer")).id for text in ("a", "b", "c")]
        assert await session.submission(ids[0]).withdraw() == "withdrawn"
    model = Observed(script)
    async with reopened(log, model, gate.tool, resume=False) as session:
        assert [await session.submission(id).status() for id in ids] == ["unanswered", "queued", "queued"]
        assert await session.submission(ids[1]).withdraw() == "withdrawn"
        assert await session.submission(ids[0]).withdraw() == "settled"
        session.resume()
        assert (await session.submission(ids[2]).wait()).text == "Done."
    said = [message for message in model.requests[0].messages if message.role == "user"]
    assert said == [user_message("go"), user_message("c")]
    check_log(log, finished=True)


async def test_an_input_is_kept_from_the_moment_that_its_submission_is_returned() -> None:
    """N245, X71: placed and answered once, whether it was placed at once or queued."""
    log = MemoryLog()

    def script(request: ModelRequest) -> Item:
        return reply(f"Answer {request.turn}.")

    async with killed(log, lambda _: stall()) as session:
        ids = [(await session.root.submit(text)).id for text in ("a", "b")]
    async with reopened(log, script) as session:
        answers = [(await session.submission(id).wait()).text for id in ids]
    assert answers == ["Answer 0.", "Answer 1."]
    check_log(log, finished=True)


async def test_a_boundary_is_passed_wholly_or_not_at_all() -> None:
    """N234: a run's end, with a write, a steer and a follow-up in the inbox, at every crash point."""

    def script(request: ModelRequest) -> Item:
        return reply(f"Answer {request.turn}.")

    async def scenario(store: Store) -> None:
        async with open_session(store, model=Observed(script), resume=False) as session:
            ids = [
                (await session.root.submit("first", request_id="1")).id,
                (await session.root.submit("second", request_id="2")).id,
                (await session.root.submit("third", request_id="3", when_busy="steer")).id,
                (await session.root.submit_write("note", request_id="4")).id,
            ]
            session.resume()
            for id in ids:
                assert (await session.submission(id).wait()).status == "done"

    def check(log: Log, _: CrashPoint | None) -> None:
        events = check_log(log, finished=True)
        assert len(accepted(events)) == 4
        placed = [each.event for each in events if isinstance(each.event, SubmissionPlaced)]
        entries = {each.position for each in events if isinstance(each.event, EntryAppended)}
        assert len(placed) == 4
        assert {event.entry for event in placed} == entries
        ended = [each.event.inputs for each in events if isinstance(each.event, RunEnded)]
        assert [len(inputs) for inputs in ended] == [1, 2]

    assert await crash_sweep(scenario, check) >= 7

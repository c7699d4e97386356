"""What an agent accepts, in which order it places it, and how each submission ends."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from pi_actors import (
    AgentBusy,
    CommandRefused,
    InvalidValue,
    NotFound,
    Session,
    SessionClosed,
    Settings,
    Unanswered,
    open_store,
    user_message,
)
from pi_actors.models import ScriptedModel, call, fail, reply
from pi_actors.models.plays import Item
from pi_actors.runtime.registry import Instructions
from tests.session.gate import Gate
from tests.session.opened import WAYS, opened
from tests.session.watching import events_of, kinds_of

ways = pytest.mark.parametrize("instructions", WAYS.values(), ids=WAYS)


async def test_an_input_of_an_idle_agent_is_placed_with_run_and_first_generation_in_one_commit() -> None:
    """A1."""
    async with opened([reply("hi")], resume=False) as session:
        before = session.position
        await session.root.submit("hello")
        (commit,) = await events_of(session, after=before)
        assert [each.topic for each in commit][:4] == [
            "SubmissionPlaced",
            "EntryAppended",
            "RunStarted",
            "WorkSpawned",
        ]


async def test_a_write_of_an_idle_agent_is_done_in_its_commit_and_asks_no_model() -> None:
    """A3."""
    async with opened([]) as session:
        written = await session.root.submit_write("note", data={"a": [1, None, "x"]})
        assert await written.status() == "done"
        assert (await written.wait()).answer is None
        (entry,) = await session.root.entries()
        assert (entry.kind, entry.data) == ("note", {"a": [1, None, "x"]})
        assert [node.state for node in session.tree()] == ["idle"]


@ways
async def test_an_input_of_a_busy_agent_waits_for_the_answer(instructions: Instructions) -> None:
    """A4."""
    gate = Gate()
    script = [reply("", call("gate")), reply("first"), reply("second")]
    async with opened(script, gate.tool, instructions=instructions) as session:
        first = await session.root.submit("one")
        await gate.entered.wait()
        second = await session.root.submit("two")
        assert (await first.status(), await second.status()) == ("placed", "queued")
        gate.opened.set()
        assert ((await first.wait()).text, (await second.wait()).text) == ("first", "second")


async def test_a_rejected_input_leaves_no_event_and_no_request_id() -> None:
    """A5."""
    gate = Gate()
    async with opened([reply("", call("gate")), reply("a"), reply("b")], gate.tool) as session:
        await session.root.submit("one")
        await gate.entered.wait()
        before = session.position
        with pytest.raises(AgentBusy, match="busy with a run"):
            await session.root.submit("two", when_busy="reject", request_id="r")
        assert session.position == before
        assert await session.find_submission(1, "r") is None
        gate.opened.set()
        await session.wait_idle()
        assert (await session.root.ask("two", request_id="r")).text == "b"


@ways
async def test_after_a_tool_round_a_steer_is_placed_and_a_follow_up_waits(
    instructions: Instructions,
) -> None:
    """A7, A19."""
    gate = Gate()
    script = [reply("", call("gate")), reply("both"), reply("later")]
    async with opened(script, gate.tool, instructions=instructions) as session:
        first = await session.root.submit("one")
        await gate.entered.wait()
        follow_up = await session.root.submit("follow")
        steer = await session.root.submit("steer", when_busy="steer")
        gate.opened.set()
        settled = [await each.wait() for each in (first, steer, follow_up)]
        assert [each.text for each in settled] == ["both", "both", "later"]
        assert settled[0].answer == settled[1].answer


@pytest.mark.parametrize(("mode", "at_once"), [("one", 1), ("all", 3)])
async def test_a_boundary_places_one_steer_or_all_of_them(mode: str, at_once: int) -> None:
    """A8."""
    gate = Gate()
    settings = Settings(steer_mode="one" if mode == "one" else "all")
    script = [reply("", call("gate")), *[reply("answer")] * 4]
    async with opened(script, gate.tool, settings=settings) as session:
        await session.root.submit("one")
        await gate.entered.wait()
        steers = [await session.root.submit(f"steer {n}", when_busy="steer") for n in range(3)]
        gate.opened.set()
        first = await steers[0].wait()
        together = [each for each in steers if (await each.wait()).answer == first.answer]
        assert len(together) == at_once


async def test_writes_are_placed_first_then_steers_then_follow_ups() -> None:
    """A9, A10, A28."""
    gate = Gate()
    async with opened([reply("", call("gate")), reply("a"), reply("b")], gate.tool) as session:
        await session.root.submit("one")
        await gate.entered.wait()
        for text, mode in (("f1", "follow_up"), ("s1", "steer")):
            await session.root.submit(text, when_busy=mode)  # type: ignore[arg-type]
        await session.root.submit_write("note", messages=[user_message("w1")])
        await session.root.submit_write("note", messages=[user_message("w2")])
        gate.opened.set()
        await session.wait_idle()
        texts = [entry.text for entry in await session.root.entries()]
        assert texts == ["one", "", "open", "w1", "w2", "s1", "a", "f1", "b"]


async def test_a_write_alone_in_the_inbox_starts_no_generation() -> None:
    """A10."""
    gate = Gate()
    async with opened([reply("", call("gate")), reply("a")], gate.tool) as session:
        await session.root.submit("one")
        await gate.entered.wait()
        written = await session.root.submit_write("note")
        gate.opened.set()
        await session.wait_idle()
        assert (await written.status(), (await session.usage()).responses) == ("done", 2)


async def test_a_request_id_returns_the_same_submission_for_ever(tmp_path: object) -> None:
    """A11, A14: within a process, after its end, and from two callers at once."""
    path = f"{tmp_path}/work.db"
    async with opened([reply("first"), reply("second")], store=path) as session:
        one = await session.root.submit("hello", request_id="r")
        assert (await one.wait()).text == "first"
        assert (await session.root.submit("ignored", request_id="r")).id == one.id
    async with opened([reply("first"), reply("second")], store=path) as session:
        assert (await session.root.ask("ignored", request_id="r")).text == "first"
        found: list[int] = []

        async def submit() -> None:
            found.append((await session.root.submit("new", request_id="s")).id)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(submit)
        assert len(set(found)) == 1
        assert kinds_of(await session.root.entries()).count("pi.user") == 2


async def test_a_request_id_in_another_agent_is_another_submission() -> None:
    """A12."""
    async with opened([reply("one")]) as session:
        other = await session.spawn()
        first = await session.root.submit("hello", request_id="r")
        second = await other.submit("hello", request_id="r")
        assert first.id != second.id


async def test_a_request_id_cannot_change_from_input_to_write() -> None:
    """A13."""
    async with opened([reply("one")]) as session:
        await session.root.ask("hello", request_id="r")
        before = session.position
        with pytest.raises(CommandRefused, match="'r' was used for input"):
            await session.root.submit_write("note", request_id="r")
        assert session.position == before


async def test_a_withdrawn_input_leaves_the_inbox_unanswered() -> None:
    """A15, A16."""
    gate = Gate()
    async with opened([reply("", call("gate")), reply("a")], gate.tool) as session:
        first = await session.root.submit("one")
        await gate.entered.wait()
        second = await session.root.submit("two")
        assert await second.withdraw() == "withdrawn"
        assert await first.withdraw() == "already_placed"
        settled = await second.wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted")
        gate.opened.set()
        await first.wait()
        assert (await first.withdraw(), await second.withdraw()) == ("settled", "settled")


async def test_cancelling_a_wait_ends_only_the_wait() -> None:
    """A18."""
    gate = Gate()
    async with opened([reply("", call("gate")), reply("a")], gate.tool) as session:
        first = await session.root.submit("one")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(first.wait)
                await gate.entered.wait()
                scope.cancel()
        gate.opened.set()
        assert (await first.wait()).text == "a"


@ways
async def test_a_failed_run_settles_its_inputs_and_holds_the_inbox(instructions: Instructions) -> None:
    """A20: what waits stays queued, and the document says why."""
    gate = Gate()
    failure = fail("no such model", retryable=False)
    script: list[Item] = [reply("", call("gate")), failure, reply("again"), reply("last")]
    async with opened(script, gate.tool, instructions=instructions) as session:
        first = await session.root.submit("one")
        await gate.entered.wait()
        second = await session.root.submit("two")
        gate.opened.set()
        settled = await first.wait()
        assert (settled.status, settled.reason, settled.detail) == (
            "unanswered",
            "model_error",
            "no such model",
        )
        assert await second.status() == "queued"
        inbox = (await session.root.documents())["pi.inbox"]
        assert inbox["held"]["reason"] == "model_error"
        assert [item["id"] for item in inbox["items"]] == [second.id]


@pytest.mark.parametrize("how", ["release", "submit", "configure"])
async def test_a_held_inbox_goes_on_after_a_release_a_submit_or_a_configure(how: str) -> None:
    gate = Gate()
    calls = 0

    def script(_: object) -> object:
        nonlocal calls
        calls += 1
        plays = [reply("", call("gate")), fail("broken", retryable=False), reply("a"), reply("b")]
        return plays[calls - 1]

    async with opened(ScriptedModel(script), gate.tool) as session:  # type: ignore[arg-type]
        first = await session.root.submit("one")
        await gate.entered.wait()
        second = await session.root.submit("two")
        gate.opened.set()
        await first.wait()
        match how:
            case "release":
                await session.root.release()
            case "submit":
                await session.root.submit("three")
            case _:
                await session.root.configure(thinking="low")
        assert (await second.wait()).text == "a"


async def test_without_a_model_the_input_is_unanswered_and_only_the_users_entry_exists() -> None:
    """C46."""
    async with opened([]) as session:
        pass
    async with open_store("memory:") as store, store.open_session() as session:
        with pytest.raises(Unanswered, match="no model is chosen") as caught:
            await session.root.ask("hello")
        assert caught.value.reason == "no_model"
        assert kinds_of(await session.root.entries()) == ["pi.user"]


async def test_a_reset_starts_a_fresh_context_and_keeps_everything_else() -> None:
    """I155, I157."""
    seen: list[list[str]] = []

    def script(request: object) -> object:
        seen.append([message.parts[0].text for message in request.messages])  # type: ignore[attr-defined]
        return reply(f"answer {len(seen)}")

    model = ScriptedModel(script)  # type: ignore[arg-type]
    async with opened(model, instructions="Be brief.") as session:
        await session.root.ask("one")
        before = await session.root.documents()
        reset = await session.root.reset("We were counting.")
        assert (await reset.wait()).status == "done"
        await session.root.ask("two")
        after = await session.root.documents()
        assert seen == [["Be brief.", "one"], ["Be brief.", "We were counting.", "two"]]
        assert before["pi.provider"] == after["pi.provider"]
        assert after["pi.usage"]["total"]["responses"] == 2
        assert [entry.text for entry in await session.root.history()][:2] == ["one", "Be brief."]


async def test_a_reset_during_a_run_ends_it_at_the_next_boundary() -> None:
    """I156, A22: what waits goes on after the reset."""
    gate = Gate()
    async with opened([reply("", call("gate")), reply("fresh")], gate.tool) as session:
        first = await session.root.submit("one")
        await gate.entered.wait()
        second = await session.root.submit("two")
        await session.root.reset()
        gate.opened.set()
        settled = await first.wait()
        assert (settled.status, settled.reason) == ("unanswered", "reset")
        assert (await second.wait()).text == "fresh"
        assert kinds_of(await session.root.entries()) == ["pi.reset", "pi.user", "pi.assistant"]


async def test_a_reset_selected_at_the_answer_is_placed_after_it() -> None:
    """A27."""
    async with opened([reply("done")], resume=False) as session:
        first = await session.root.submit("one")
        await session.root.reset()
        session.resume()
        assert (await first.wait()).text == "done"
        await session.wait_idle()
        assert kinds_of(await session.root.entries()) == ["pi.reset"]
        assert kinds_of(await session.root.history()) == ["pi.user", "pi.assistant", "pi.reset"]


async def test_bad_input_is_refused_with_nothing_stored() -> None:
    async with opened([]) as session:
        before = session.position
        with pytest.raises(InvalidValue, match="name of your own"):
            await session.root.submit_write("pi.user")
        with pytest.raises(InvalidValue, match="the data has the number nan"):
            await session.root.submit_write("note", data=float("nan"))
        with pytest.raises(InvalidValue, match="type object, which is not JSON"):
            await session.root.submit_write("note", data={"a": object()})
        with pytest.raises(InvalidValue, match="larger than 8388608 bytes"):
            await session.root.submit("x" * (8 * 1024 * 1024 + 1))
        with pytest.raises(CommandRefused, match="when_busy is 'later'"):
            await session.root.submit("x", when_busy="later")  # type: ignore[arg-type]
        with pytest.raises(NotFound, match="no agent 77"):
            await session.agent(77).submit("x")
        with pytest.raises(NotFound, match="no submission 99"):
            await session.submission(99).wait()
        assert session.position == before


async def test_text_is_normalised_where_it_enters_and_a_value_is_copied() -> None:
    """R274, X44."""
    async with opened([]) as session:
        data = {"list": [1]}
        await session.root.submit_write("note", data=data)
        data["list"].append(2)
        await session.root.submit_write("note", messages=[user_message("a\x00b\ud800c\U0001f600\x01")])
        first, second = await session.root.entries()
        assert first.data == {"list": [1]}
        assert second.text == "ab\ufffdc\U0001f600\x01"


async def test_a_closed_session_refuses_everything() -> None:
    """A31."""
    async with opened([reply("x")]) as session:
        held: Session = session
    uses: list[Callable[[], Awaitable[object]]] = [
        lambda: held.root.ask("x"),
        held.root.entries,
        held.root.history,
        held.root.documents,
        held.root.release,
        held.wait_idle,
        held.agents,
        held.spawn,
    ]
    for use in uses:
        with pytest.raises(SessionClosed, match="is closed; open it again"):
            await use()
    with pytest.raises(SessionClosed, match="is closed; open it again"):
        held.resume()

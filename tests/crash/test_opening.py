"""Opening what is at rest changes nothing; what a store holds besides is judged at opening."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal
from zlib import crc32

import msgspec
import pytest

from pi_actors import CommandRefused, LogCorrupt, LogTooNew, open_session, open_store
from pi_actors.actors.generation.messages import RetryScheduled
from pi_actors.actors.tool.messages import ToolStarted
from pi_actors.actors.topics import ALL
from pi_actors.core.decider import Event
from pi_actors.core.ids import ActorId
from pi_actors.core.record import IndexRows, Recorded
from pi_actors.models import ModelRequest, call, reply
from pi_actors.models.plays import Item
from pi_actors.storage.codec import Topics, encode_row
from pi_actors.storage.log import FORMAT, Batch, Row
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import check_log, check_session, read_log
from projections import replay
from tests.crash.killed import Observed, codes, killed, reopened, results
from tests.session.gate import Gate


def script(request: ModelRequest) -> Item:
    return reply("", call("gate")) if request.turn == 0 else reply(f"Answer {request.turn}.")


async def interrupted() -> tuple[MemoryLog, Gate]:
    """A session at rest, with a call in its history whose effect is unknown."""
    log, gate = MemoryLog(), Gate()
    async with killed(log, script, gate.tool) as session:
        await session.root.submit("go", request_id="go")
        await gate.entered.wait()
    async with reopened(log, script, gate.tool) as session:
        await (await session.root.submit("go", request_id="go")).wait()
    return log, gate


async def test_opening_a_session_with_nothing_to_do_appends_nothing_and_changes_no_document() -> None:
    """V358, X55, X06."""
    log, gate = await interrupted()
    before = read_log(log)
    documents: list[object] = []
    for _ in range(2):
        async with reopened(log, script, gate.tool) as session:
            await session.wait_idle()
            documents.append((await session.root.documents(), await session.root.entries(), session.tree()))
    assert documents[0] == documents[1]
    assert read_log(log) == before
    check_log(log, finished=True)


async def test_a_request_begins_as_the_one_before_however_often_the_session_was_opened() -> None:
    """V358, X48: the prefix that a provider has cached is sent unchanged."""
    log, gate = await interrupted()
    sent: list[ModelRequest] = []
    for openings in (0, 3):
        for _ in range(openings):
            async with reopened(log, script, gate.tool):
                pass
        model = Observed(script)
        async with reopened(log, model, gate.tool) as session:
            await session.root.ask("and now?")
        sent += model.requests
    assert sent[1].messages[: len(sent[0].messages)] == sent[0].messages
    assert sent[1].origins[: len(sent[0].origins)] == sent[0].origins
    assert sent[1].tools == sent[0].tools


class FutureFelt(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An event of a version to come."""

    how: str


def row(log: MemoryLog, event: Event, *, actor: ActorId = 1, display: bool = False) -> Row:
    """A row of *event* for the place after the log's last one; a made-up type has a made-up topic."""
    events: Mapping[str, type[Event]] = {**ALL, "FutureFelt": FutureFelt}
    topics = Topics(events, display=frozenset({"FutureFelt"} if display else ()))
    last = read_log(log)[-1]
    position = last.position + 1
    recorded = Recorded(
        position=position,
        end=position,
        at_us=last.at_us,
        actor=actor,
        cause=0,
        topic=topics.topic_of(event),
        event=event,
    )
    return encode_row("main", recorded, topics)


def put(log: MemoryLog, row: Row) -> None:
    """Store *row* as a commit of its own, past everything that would refuse it."""
    epoch = log.claim("main", now_us=0).epoch
    batch = Batch(
        session="main",
        epoch=epoch,
        after=row.position - 1,
        rows=[row],
        index=IndexRows(),
        live=False,
        at_us=0,
    )
    assert log.append([batch]) == [None]


def of_a_newer_format(row: Row) -> Row:
    """*row* as a whole row of the next major format."""
    covered = bytes((row.state[0], FORMAT + 1)) + row.state[2:-4]
    checksum = crc32(covered, crc32(f"main\0{row.position}\0{row.topic}\0".encode()))
    return msgspec.structs.replace(row, state=covered + checksum.to_bytes(4, "big"))


async def at_rest() -> MemoryLog:
    """A session with one answered input: ten rows."""
    log = MemoryLog()
    async with reopened(log, lambda _: reply("Hello.")) as session:
        await session.root.ask("hi")
    return log


@pytest.mark.parametrize("news", ["a topic", "a format"])
async def test_a_log_with_news_that_must_be_understood_is_not_extended(
    news: Literal["a topic", "a format"],
) -> None:
    """The message names the place and what to do; nothing was changed."""
    log = await at_rest()
    last = row(log, FutureFelt(how="well"))
    put(log, last if news == "a topic" else of_a_newer_format(last))
    before = log.read("main", after=0, through=100)
    problem = "an event of an unknown kind" if news == "a topic" else f"a row of format {FORMAT + 1}"
    with pytest.raises(LogTooNew, match=rf"{problem} at position {last.position} \(topic 'FutureFelt'\)"):
        async with reopened(log, []):
            pass
    assert log.read("main", after=0, through=100) == before


async def test_an_unknown_topic_that_is_only_for_display_is_skipped_by_writers_and_readers() -> None:
    log = await at_rest()
    put(log, row(log, FutureFelt(how="well"), display=True))
    async with reopened(log, lambda _: reply("Hello again.")) as session:
        assert (await session.root.ask("and now?")).text == "Hello again."
        await check_session(session)
        async with open_store(log) as store:
            assert (await replay(store)).documents(1) == await session.root.documents()


async def test_a_flipped_byte_is_reported_with_its_position_and_nothing_is_opened() -> None:
    log = await at_rest()
    last = row(log, FutureFelt(how="well"))
    flipped = bytearray(last.state)
    flipped[7] ^= 1
    put(log, msgspec.structs.replace(last, state=bytes(flipped)))
    with pytest.raises(LogCorrupt, match=f"is damaged at position {last.position}") as raised:
        async with reopened(log, []):
            pass
    assert raised.value.position == last.position


async def test_a_row_that_has_gone_is_reported_with_its_position(tmp_path: Path) -> None:
    store = tmp_path / "work.db"
    async with open_session(store) as session:
        for _ in range(3):
            await session.root.submit_write("note")
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM stored_events WHERE originator_version=4")
        connection.execute("DELETE FROM snapshots")
        connection.commit()
    with pytest.raises(LogCorrupt, match="position 4: the rows from here to 4 are missing"):
        async with open_session(store):
            pass


async def test_a_row_that_has_gone_below_a_snapshot_is_reported_to_whoever_reads_there(
    tmp_path: Path,
) -> None:
    store = tmp_path / "work.db"
    async with open_session(store) as session:
        for _ in range(3):
            await session.root.submit_write("note")
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM stored_events WHERE originator_version=4")
        connection.commit()
    async with open_session(store) as session:
        await session.root.submit_write("note")
        assert [entry.id for entry in await session.root.entries()] == [3, 5, 7, 9]
        with pytest.raises(LogCorrupt, match="position 4: the rows from here to 4 are missing"):
            await replay(store)


async def test_an_impossible_event_of_an_agent_quarantines_it_and_nobody_else() -> None:
    """X34."""
    log = await at_rest()
    last = row(log, ToolStarted(replay="never"))
    put(log, last)
    async with reopened(log, lambda _: reply("Hello.")) as session:
        with pytest.raises(CommandRefused, match=f"event ToolStarted at position {last.position}"):
            await session.root.submit("still there?")
        other = await session.spawn()
        assert (await other.ask("and you?")).text == "Hello."


async def test_an_impossible_event_of_a_call_quarantines_it_until_its_run_is_aborted() -> None:
    """X34: it is shown as blocked, owes nothing, and ends faulted."""
    log, gate = MemoryLog(), Gate()
    async with killed(log, script, gate.tool) as session:
        await session.root.submit("go", request_id="go")
        await gate.entered.wait()
    (tool,) = (each.actor for each in read_log(log) if isinstance(each.event, ToolStarted))
    put(log, row(log, RetryScheduled(attempt=2, due_us=0, error=""), actor=tool))
    async with reopened(log, script, gate.tool) as session:
        (why,) = (node.blocked for node in session.tree() if node.id == tool)
        assert why is not None
        assert "RetryScheduled at position 11" in why
        await session.root.abort()
        assert (await session.wait_actor(tool)).status == "faulted"
        assert (await session.root.ask("and now?")).text == "Answer 1."
    assert gate.runs == 1
    assert [codes(result) for result in results(log)] == [["aborted"]]

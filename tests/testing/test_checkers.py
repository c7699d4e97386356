"""The oracle notices what differs between the log, the index tables and an open session."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pi_actors import Session, open_session, open_store
from pi_actors.actors.topics import index_of
from pi_actors.core.record import IndexRows
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import (
    EffectsFile,
    PromiseBroken,
    Witness,
    check_log,
    check_session,
    effect_tools,
    read_log,
)
from pi_actors.testing.checkers import unfinished


@pytest.fixture
async def log(tmp_path: Path) -> MemoryLog:
    """A finished session: an input with a request id, a tool, an answer."""
    log = MemoryLog()
    model = ScriptedModel([reply("", call("push", what="it")), reply("Pushed.")])
    tools = effect_tools(EffectsFile(tmp_path / "effects"))
    async with open_store(log) as store, open_session(store, model=model, tools=tools) as session:
        await (await session.root.submit("push it", request_id="one")).wait()
    return log


async def test_a_finished_session_passes(log: MemoryLog) -> None:
    assert check_log(log, finished=True) == read_log(log)
    assert check_log(log, "no such session") == []


WRONG: list[tuple[str, Callable[[IndexRows], IndexRows]]] = [
    ("is indexed as settled at None", lambda rows: msgspec.structs.replace(rows, settled=rows.settled[1:])),
    ("the log says None", lambda rows: msgspec.structs.replace(rows, settled=(*rows.settled, (1, 2)))),
    ("request id 'one' of agent 1", lambda rows: msgspec.structs.replace(rows, requests=())),
    ("the entries of agent 1", lambda rows: msgspec.structs.replace(rows, entries=rows.entries[1:])),
]


@pytest.mark.parametrize(("complaint", "spoil"), WRONG)
async def test_a_wrong_index_table_is_noticed(
    log: MemoryLog, complaint: str, spoil: Callable[[IndexRows], IndexRows]
) -> None:
    log.rebuild_index("main", spoil(log_index(log)))
    with pytest.raises(PromiseBroken, match=complaint):
        check_log(log)


def log_index(log: MemoryLog) -> IndexRows:
    """The index rows that the log's events make."""
    return index_of(read_log(log))


async def test_what_still_runs_or_waits_is_not_finished() -> None:
    model = ScriptedModel([reply("Hello.")])
    async with open_session("memory:", model=model, resume=False) as session:
        await session.root.submit("hi")
        await session.root.submit("and you?")
        log = read_log(session.live.store.log)
        assert list(unfinished(log)) == [
            "pi.generation 5 is still live",
            "submission 2 is not settled",
            "submission 7 is not settled",
        ]
        with pytest.raises(PromiseBroken, match="still live"):
            check_log(session.live.store.log, finished=True)


async def test_an_open_session_equals_its_log_until_its_state_is_touched() -> None:
    async with open_session("memory:", model=ScriptedModel([reply("Hello.")])) as session:
        await session.root.ask("hi")
        await check_session(session)
        line = session.live.line
        line.shown = msgspec.structs.replace(line.shown, busy_agents=1)
        with pytest.raises(PromiseBroken, match="busy_agents=1"):
            await check_session(session)


async def test_a_witness_compares_what_was_shown_with_what_is_stored(log: MemoryLog) -> None:
    async with (
        open_store(log) as store,
        open_session(store, model=ScriptedModel([reply("Again.")])) as session,
    ):
        witness = Witness(session)
        await session.root.submit_write("note")
        witness.stop()
    assert [each.topic for each in witness.shown] == ["SubmissionPlaced", "EntryAppended"]
    witness.check(read_log(log))
    with pytest.raises(PromiseBroken, match="is not what is stored"):
        witness.check(read_log(log)[:-1])


async def test_a_witness_notices_what_is_shown_before_it_is_stored(log: MemoryLog) -> None:
    async with open_store(log) as store, open_session(store, model=ScriptedModel([])) as session:
        witness = Witness(session)
        listener_sees_too_early(session)
        with pytest.raises(PromiseBroken, match="was shown when"):
            witness.check(read_log(log))
        witness.stop()


def listener_sees_too_early(session: Session) -> None:
    """Show a commit that nobody has stored."""
    line = session.live.line
    commit = tuple(
        msgspec.structs.replace(each, position=line.shown.position + 1, end=line.shown.position + 1)
        for each in read_log(session.live.store.log)[-1:]
    )
    for listener in tuple(line._listeners):
        listener(commit, line.shown)

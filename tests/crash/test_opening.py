"""Opening what is at rest changes nothing; what a store holds besides is judged at opening."""

from pi_actors.models import ModelRequest, call, reply
from pi_actors.models.plays import Item
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import check_log, read_log
from tests.crash.killed import Observed, killed, reopened
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

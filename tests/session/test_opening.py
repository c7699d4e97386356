"""Opening, closing and failing: who owns a session, and how the body ends."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pi_actors import (
    CommandRefused,
    NotSupported,
    Session,
    SessionClosed,
    SessionFailed,
    SessionInUse,
    StoreError,
    StoreUnreadable,
    UnknownName,
    open_session,
    open_store,
    tool,
)
from pi_actors.core.errors import Fenced
from pi_actors.models import ScriptedModel, reply, stall
from tests.session.gate import Gate
from tests.session.opened import opened
from tests.session.watching import topics_of


async def test_the_first_event_spawns_the_root_and_carries_a_uuid_that_stays(tmp_path: Path) -> None:
    path = tmp_path / "work.db"
    async with open_session(path) as session:
        assert (await topics_of(session), session.root.id, len(session.uuid)) == (["AgentSpawned"], 1, 32)
        uuid = session.uuid
    async with open_session(path) as session:
        assert (session.uuid, session.position) == (uuid, 1)


async def test_a_second_opener_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """X53, R292: also in the same process."""
    path = tmp_path / "work.db"
    async with open_session(path) as session:
        with pytest.raises(SessionInUse, match="process"):
            async with open_session(path):
                pass
        assert session.position == 1
        await session.root.submit_write("note")
    async with open_session(path) as session:
        assert session.position == 3


async def test_many_sessions_share_a_store(tmp_path: Path) -> None:
    async with open_store(tmp_path / "work.db") as store:
        async with store.open_session("a"), store.open_session("b") as b:
            await b.root.submit_write("note")
            infos = await store.sessions()
            assert [(info.id, info.position, info.live) for info in infos] == [
                ("a", 1, False),
                ("b", 3, False),
            ]
            assert all(info.held_by is not None for info in infos)
        assert [info.held_by for info in await store.sessions()] == [None, None]


async def test_what_the_body_raises_leaves_as_it_is(tmp_path: Path) -> None:
    for raised in (ValueError("mine"), ExceptionGroup("mine too", [ValueError()]), KeyboardInterrupt()):
        with pytest.raises(type(raised)) as caught:
            async with open_session(tmp_path / "work.db"):
                raise raised
        assert caught.value is raised


async def test_no_task_of_a_session_survives_it() -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery:
        async with opened([stall()], gate.tool) as session:
            await session.root.submit("hello")
        assert len(nursery.child_tasks) == 0
        assert [task.name for task in nursery.child_tasks] == []


async def test_cancelling_the_body_closes_the_session_in_order(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with opened([stall()], store=str(tmp_path / "work.db")) as session:
            await session.root.submit("hello")
            scope.cancel()
            await trio.sleep_forever()
    async with open_session(tmp_path / "work.db", resume=False) as session:
        assert (await topics_of(session))[-1] == "RunReleased"


async def test_an_orderly_close_decides_no_outcome_and_the_run_goes_on_later(tmp_path: Path) -> None:
    """L210."""
    path = str(tmp_path / "work.db")
    async with opened([stall()], store=path) as session:
        first = await session.root.submit("hello")
    async with opened([reply("back")], store=path) as session:
        assert (await session.submission(first.id).wait()).text == "back"


async def test_without_resume_nothing_runs_until_it_is_asked_for(autojump_clock: MockClock) -> None:
    async with opened([reply("hi")], resume=False) as session:
        first = await session.root.submit("hello")
        with trio.move_on_after(3_600) as scope:
            await first.wait()
        assert scope.cancelled_caught
        session.resume()
        assert (await first.wait()).text == "hi"


async def test_a_fenced_session_fails_and_its_neighbours_go_on(tmp_path: Path) -> None:
    """X24, X33: the head's epoch is the fence."""
    async with open_store(tmp_path / "work.db") as store, store.open_session("b") as neighbour:

        async def be_fenced() -> None:
            async with store.open_session("a") as session:
                store.log.claim("a", now_us=0)
                await session.root.submit_write("note")

        with pytest.raises(SessionFailed, match="another writer") as caught:
            await be_fenced()
        assert isinstance(caught.value.__cause__, Fenced)
        await neighbour.root.submit_write("note")
        assert neighbour.position == 3


async def test_a_failed_store_fails_its_sessions_and_cancels_their_bodies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R270, L212, X45: the caller gets an error, nothing is shown."""
    reasons: list[BaseException] = []
    sessions: list[Session] = []
    async with open_store(tmp_path / "work.db") as store:

        def broken(_: object) -> None:
            raise StoreError("the disk is gone")

        async def use() -> None:
            async with store.open_session("a") as session:
                monkeypatch.setattr(store.log, "append", broken)
                try:
                    await session.root.submit_write("note")
                except SessionFailed as error:
                    reasons.append(error)
                assert session.position == 1
                sessions.append(session)
                await trio.sleep_forever()

        with pytest.raises(SessionFailed, match="the disk is gone"):
            await use()
    assert isinstance(reasons[0].__cause__, StoreError)
    with pytest.raises(SessionFailed):
        await sessions[0].root.documents()


async def test_what_cannot_be_opened_says_what_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to look at " * 100)
    cases: list[tuple[str | Path, type[Exception], str]] = [
        (tmp_path, StoreUnreadable, "is a folder, not a store"),
        (tmp_path / "text.db", StoreUnreadable, "SQLite"),
        ("postgresql://localhost/x", NotSupported, "postgresql"),
        ("jsonl:folder", NotSupported, "jsonl"),
    ]
    for store, error, words in cases:
        with pytest.raises(error, match=words):
            async with open_session(store):
                pass


async def test_unknown_names_are_refused_with_nothing_stored() -> None:
    async with opened([]) as session:
        before = session.position
        with pytest.raises(UnknownName, match="no model 'gpt'"):
            await session.root.configure(model="gpt")
        with pytest.raises(UnknownName, match="no tool 'hammer'"):
            await session.root.configure(tools=["hammer"])
        with pytest.raises(UnknownName, match="no tool 'hammer'"):
            await session.spawn(tools=["hammer"])
        with pytest.raises(CommandRefused, match="no choice 'colour'"):
            await session.root.configure(colour="red")
        with pytest.raises(UnknownName, match="nowhere"):
            async with open_session("memory:", model="nowhere:model"):
                pass
        assert session.position == before


async def test_registering_a_tool_lets_agents_choose_it() -> None:
    @tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    async with opened([reply("hi")]) as session:
        session.register(tools=[echo], models={"other": ScriptedModel([reply("other")], name="other")})
        await session.root.configure(tools=["echo"], model="other")
        assert (await session.root.ask("hello")).text == "other"
        documents = await session.root.documents()
        assert documents["pi.agent"]["resolved"]["tools"] == ["echo"]


async def test_an_agent_is_spawned_once_per_request_id(tmp_path: Path) -> None:
    path = str(tmp_path / "work.db")
    async with opened([reply("hi")], store=path) as session:
        first = await session.spawn(request_id="helper")
        assert (await session.spawn(request_id="helper")).id == first.id
        assert [agent.id for agent in await session.agents()] == [1, first.id]
    async with opened([reply("hi")], store=path) as session:
        again = await session.spawn(request_id="helper")
        assert again.id == first.id
        assert (await again.ask("hello")).text == "hi"
        documents = await again.documents()
        assert documents["pi.provider"]["session_id"] == f"{session.uuid}:{first.id}"


async def test_after_the_store_is_closed_its_sessions_cannot_be_opened(tmp_path: Path) -> None:
    async with open_store(tmp_path / "work.db") as store:
        pass
    with pytest.raises((StoreError, SessionClosed)):
        async with store.open_session():
            pass

"""One open session: its agents, its tree, its usage."""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Final, Literal

import trio

from pi_actors.core.commit import require
from pi_actors.core.decider import Mark, Send
from pi_actors.core.errors import CommandRefused, NotFound
from pi_actors.core.ids import NOBODY, ROOT, ActorId, EntryId, Position, SessionId, SubmissionId
from pi_actors.core.instants import instant
from pi_actors.core.lifecycle import AgentSpawned, Choices, Outcome
from pi_actors.core.messages import Usage
from pi_actors.core.tree import would_wait_in_a_circle
from pi_actors.models.protocol import Model
from pi_actors.runtime.choices import choices_from
from pi_actors.runtime.live import LiveSession
from pi_actors.runtime.shell import RUNNING
from pi_actors.runtime.work import AnyKind
from pi_actors.session.agent import Agent
from pi_actors.session.folded import FoldedSession
from pi_actors.session.forking import fork_event
from pi_actors.session.submission import Submission
from pi_actors.session.tree import nodes_of
from pi_actors.session.values import checked_request_id
from pi_actors.session.views import Views
from pi_actors.storage.log import RequestKind
from pi_actors.tools.tool import Tool
from projections.pacing import View
from projections.session import FoldedState
from projections.tree import ActorNode


class Session:
    """What is sync reads memory, always acknowledged state; what is async may touch the store.

    After the context manager has ended, what asks or changes something raises SessionClosed; if the
    store fails, SessionFailed. ``uuid`` and ``position`` keep their last values.
    """

    def __init__(self, id: SessionId) -> None:
        self.id = id
        self._live: LiveSession | None = None
        self._folded: FoldedSession | None = None
        self._views: Views | None = None
        self._requests: dict[tuple[ActorId, str], _RequestLock] = {}

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    def bind(self, live: LiveSession) -> None:
        """Called once by whoever opens the session."""
        self._live = live
        self._folded = FoldedSession(live)
        self._views = Views(live, self._folded)

    @property
    def live(self) -> LiveSession:
        """The session's runtime; not for users."""
        assert self._live is not None, "a session is bound before anyone holds it"
        return self._live

    @property
    def uuid(self) -> str:
        """The session's random uuid, the same for its whole life."""
        return self.live.line.shown.uuid

    @property
    def root(self) -> Agent:
        """The first agent; every session has it."""
        return Agent(self, ROOT)

    @property
    def position(self) -> Position:
        """The position of the last acknowledged event."""
        return self.live.line.shown.position

    def register(
        self,
        *,
        tools: Sequence[Tool] = (),
        models: Mapping[str, Model] = {},
        actors: Sequence[AnyKind] = (),
    ) -> None:
        """Add to what this process can execute; actors that waited for it go on.

        Raises:
            CommandRefused: the name of a tool or kind is taken by another. Nothing was added.
        """
        self.live.line.check_open()
        self.live.registry.register(tools=tools, models=models, actors=actors)
        self.live.refresh()

    async def spawn(
        self,
        *,
        model: Model | str | None = None,
        tools: Sequence[Tool | str] | None = None,
        instructions: str | None = None,
        cwd: str | None = None,
        request_id: str | None = None,
    ) -> Agent:
        """Spawn an agent that nobody owns; with a request id, at most once for ever.

        Raises:
            UnknownName: this process has no such tool or model. Nothing was stored.
        """
        self.live.line.check_open()
        wanted = {"model": model, "tools": tools, "instructions": instructions, "cwd": cwd}
        request_id = checked_request_id(request_id)
        choices = await choices_from(self.live.registry, Choices(), wanted)
        return await self._spawned(AgentSpawned(choices=choices, request_id=request_id))

    async def fork(self, agent_id: ActorId, at: EntryId, request_id: str | None) -> Agent:
        """An agent that goes on from an entry of another; see ``Agent.fork``."""
        self.live.line.check_open()
        require(self.live.line.shown, agent_id)
        return await self._spawned(await fork_event(self.live, agent_id, at, request_id))

    async def _spawned(self, event: AgentSpawned) -> Agent:
        """The agent whose birth *event* is, or the one that its request id stands for."""
        if event.request_id is None:
            return Agent(self, (await self.live.line.spawn(event)).position)
        async with self.request(NOBODY, event.request_id, "agent") as known:
            return Agent(self, known or (await self.live.line.spawn(event)).position)

    def agent(self, agent_id: ActorId) -> Agent:
        """A handle to an agent; NotFound comes with its first use."""
        return Agent(self, agent_id)

    def submission(self, submission_id: SubmissionId) -> Submission:
        """A handle to a submission; NotFound comes with its first use."""
        return Submission(self, submission_id)

    async def agents(self) -> list[Agent]:
        """All agents, oldest first."""
        self.live.line.check_open()
        await trio.lowlevel.checkpoint()
        actors = self.live.line.shown.actors.values()
        return [Agent(self, id) for id in sorted(actor.id for actor in actors if actor.is_agent)]

    async def find_submission(self, agent_id: ActorId, request_id: str) -> Submission | None:
        """The submission that used the request id within the agent, or None."""
        self.live.line.check_open()
        require(self.live.line.shown, agent_id)
        log = self.live.store.log
        found = await self.live.read(log.find_request, self.id, agent_id, request_id)
        if found is None or found[1] not in ("input", "write"):
            return None
        return Submission(self, found[0], agent_id)

    async def abort_actor(self, actor_id: ActorId) -> Literal["marked", "terminal"]:
        """Ask a work actor, and everything ordinary below it, to stop.

        Raises:
            NotFound: there is no such work actor.
        """
        actor = self.live.line.ahead.actors.get(actor_id)
        if actor is None or actor.ended:
            await self.live.outcome_of(actor_id)
            return "terminal"
        if actor.is_agent:
            raise NotFound(f"{actor_id} is an agent, not a work actor; use agent.abort()")
        await self.live.line.commit(Send(actor_id, Mark()))
        return "marked"

    async def wait_actor(self, actor_id: ActorId) -> Outcome:
        """Return the outcome of a work actor, as soon as it is stored.

        Raises:
            NotFound: there is no such work actor.
        """
        self.live.line.check_open()
        with self.waiting_for(actor_id):
            return await self.live.outcome_of(actor_id)

    async def wait_idle(self) -> None:
        """Return when every ownerless agent is idle."""
        with self.waiting_for(None):
            await self.live.waits.until(lambda state: state.busy_agents == 0)

    def tree(self) -> list[ActorNode]:
        """Every agent and every live work actor, oldest first."""
        self.live.line.check_open()
        return nodes_of(self.live)

    async def usage(self) -> Usage:
        """What all agents have used, each response counted once."""
        return (await self.folded()).usage()

    def resume(self) -> None:
        """Start what a session opened with ``resume=False`` owes.

        Raises:
            SessionClosed: the session is closed.
        """
        self.live.line.check_open()
        self.live.resumed.set()

    def next_wake(self) -> datetime | None:
        """When the session next has something to do by itself: its earliest stored deadline."""
        due_us = self.live.next_wake_us()
        return None if due_us is None else instant(due_us)

    async def folded(self) -> FoldedState:
        """The read side's state at ``position``; the first call reads the log, later ones follow it."""
        assert self._folded is not None, "a session is bound before anyone holds it"
        return await self._folded.current()

    def newest_folded(self) -> FoldedState | None:
        """The same where it is at hand, else None."""
        return None if self._folded is None else self._folded.newest

    def view(self, agent_id: ActorId) -> AbstractAsyncContextManager[View]:
        """A view of the agent; see :meth:`Agent.view`."""
        assert self._views is not None, "a session is bound before anyone holds it"
        return self._views.view(agent_id)

    @contextmanager
    def waiting_for(self, on: ActorId | None) -> Generator[None]:
        """Wait in the body for *on*; None stands for the whole session.

        Raises:
            CommandRefused: code of a tool or a step asks for it, and what it would wait for waits for
                it: because it owns it, or because its own code waits just now.
        """
        running = RUNNING.get()
        if running is None or running.session_uuid != self.uuid:
            yield
            return
        waits = self.live.shell.waits
        if on is None or would_wait_in_a_circle(self.live.line.shown, running.actor, on, waits):
            what = "its own session" if on is None else f"{on}, which waits for it"
            raise CommandRefused(f"code of actor {running.actor} cannot wait for {what}: it would never end")
        waits.setdefault(running.actor, []).append(on)
        try:
            yield
        finally:
            waits[running.actor].remove(on)
            if not waits[running.actor]:
                del waits[running.actor]

    @asynccontextmanager
    async def request(
        self, agent: ActorId, request_id: str, kind: RequestKind
    ) -> AsyncGenerator[Position | None]:
        """Hold the request id for the time of the body and tell what has used it before.

        Raises:
            CommandRefused: it was used for something of another kind. Nothing was stored.
        """
        lock = self._requests.setdefault((agent, request_id), _RequestLock())
        lock.users += 1
        try:
            async with lock.lock:
                yield await self._known(agent, request_id, kind)
        finally:
            lock.users -= 1
            if lock.users == 0:
                self._requests.pop((agent, request_id), None)

    async def _known(self, agent: ActorId, request_id: str, kind: RequestKind) -> Position | None:
        # A caller that was cancelled has let go of the id while its commit is still on its way.
        await self.live.line.settle_down()
        self.live.line.check_open()
        log = self.live.store.log
        found = await self.live.read(log.find_request, self.id, agent, request_id)
        if found is None:
            return None
        if found[1] != kind:
            raise CommandRefused(
                f"request id {request_id!r} was used for {found[1]} {found[0]}, not for {_AN[kind]}"
            )
        return found[0]


_AN: Final[dict[RequestKind, str]] = {
    "input": "an input",
    "write": "a write",
    "agent": "an agent",
    "compaction": "a compaction",
}


class _RequestLock:
    """Serialises the callers that use one request id, as long as there are any."""

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.users = 0

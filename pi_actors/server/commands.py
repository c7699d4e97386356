"""Commands over the network: ``submit``, ``steer``, ``withdraw``, ``abort`` and ``compact``.

They need a session that this process owns. With a request id a repeated POST does nothing twice:
what was submitted or begun is found again in the store, also after a restart; an abort is remembered
by this process, and one that names its ``run`` never reaches a later one.
"""

from collections import OrderedDict
from typing import Final, Literal

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response

from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Passive
from pi_actors.core.errors import CommandRefused, NotFound
from pi_actors.core.ids import ActorId, Position, SubmissionId
from pi_actors.core.messages import Blob, Text
from pi_actors.server.answers import body_of, json_answer
from pi_actors.server.refusals import Refused
from pi_actors.server.served import Served
from pi_actors.session import Agent, Session, Submission

ABORT_SECONDS_MAX: Final = 10
"""How long an abort waits for what it stops; what takes longer goes on stopping by itself."""

REMEMBERED_MAX: Final = 1_000


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``steer`` takes. A blob's data is base64."""

    content: str | tuple[Text | Blob, ...]
    request_id: str | None = None


class Submitted(Input, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``submit`` takes."""

    when_busy: Literal["follow_up", "steer", "reject"] = "follow_up"


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``withdraw`` takes."""

    submission: SubmissionId


class Aborted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``abort`` takes; all of it may be left out. With ``run``, only that run is stopped."""

    run: Position | None = None
    background: bool = False
    request_id: str | None = None


class Compacted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``compact`` takes; all of it may be left out. ``instructions``: what the summary should mind."""

    instructions: str | None = None
    request_id: str | None = None


class Commands:
    """The five commands. Answers are ``{"submission", "status"}`` and ``{"status"}``.

    ``compact`` answers ``{"actor", "status", "reason", "detail"}``: the status is live or how the actor
    has ended, by ``reason``. With a request id it may be asked again for the same actor's.
    """

    def __init__(self) -> None:
        self._aborts = Remembered()

    async def submit(self, request: Request, served: Served, agent: ActorId) -> Response:
        """Hand over an input."""
        wish = await body_of(request, Submitted)
        return await _submitted(_owned(served).agent(agent), wish, wish.when_busy)

    async def steer(self, request: Request, served: Served, agent: ActorId) -> Response:
        """Hand over an input that a busy agent sees after its current tool calls."""
        wish = await body_of(request, Input)
        return await _submitted(_owned(served).agent(agent), wish, "steer")

    async def withdraw(self, request: Request, served: Served, agent: ActorId) -> Response:
        """Take back what was not placed yet; doing so again changes nothing."""
        wish = await body_of(request, Withdrawn)
        session = _owned(served)
        return json_answer({"status": await (await _submission(session, agent, wish.submission)).withdraw()})

    async def abort(self, request: Request, served: Served, agent: ActorId) -> Response:
        """Stop what the agent does, and say whether it has stopped."""
        wish = await body_of(request, Aborted)
        session = _owned(served)
        if wish.request_id is None:
            return json_answer({"status": await _aborted(session.agent(agent), session, wish)})
        answered = self._aborts.of((session.uuid, agent, wish.request_id))
        async with answered.lock:
            if answered.status is None:
                answered.status = await _aborted(session.agent(agent), session, wish)
        return json_answer({"status": answered.status})

    async def compact(self, request: Request, served: Served, agent: ActorId) -> Response:
        """Begin to summarise the older part of the agent's context, and say how that stands."""
        wish = await body_of(request, Compacted)
        session = _owned(served)
        actor = await session.agent(agent).compact(wish.instructions, request_id=wish.request_id)
        return json_answer({"actor": actor, **await _standing(session, actor)})


class Answered:
    """What came of the first request with an id; ``lock`` is held while that is found out."""

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.status: str | None = None


class Remembered:
    """The newest requests by their ids."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, ActorId, str], Answered] = OrderedDict()

    def of(self, key: tuple[str, ActorId, str]) -> Answered:
        """What is known of the request."""
        answered = self._known.setdefault(key, Answered())
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)
        return answered


def _owned(served: Served) -> Session:
    if served.session is None:
        raise Refused(
            409,
            "read_only",
            f"this server only reads session {served.session_id!r}; commands go to the process that owns it",
        )
    return served.session


async def _submitted(
    agent: Agent, wish: Input, when_busy: Literal["follow_up", "steer", "reject"]
) -> Response:
    submission = await agent.submit(wish.content, request_id=wish.request_id, when_busy=when_busy)
    return json_answer({"submission": submission.id, "status": await submission.status()})


async def _submission(session: Session, agent: ActorId, id: SubmissionId) -> Submission:
    """A handle to the agent's submission. Raises NotFound where it is another agent's, or nobody's."""
    recorded = await session.live.recorded(id)
    if recorded is None or recorded.actor != agent:
        raise NotFound(f"agent {agent} has no submission {id}")
    return session.submission(id)


async def _standing(session: Session, actor: ActorId) -> dict[str, str | None]:
    shown = session.live.line.shown.actors.get(actor)
    if shown is not None and shown.live:
        return {"status": "live", "reason": None, "detail": None}
    outcome = await session.wait_actor(actor)
    return {"status": outcome.status, "reason": outcome.reason, "detail": outcome.detail}


async def _aborted(agent: Agent, session: Session, wish: Aborted) -> str:
    """Nothing happens between looking at the run and deciding to stop it."""
    if wish.run is not None and wish.run != _run_of(session, agent.id):
        return "not_running"
    with trio.move_on_after(ABORT_SECONDS_MAX):
        await agent.abort(background=wish.background)
        return "idle"
    return "stopping"


def _run_of(session: Session, agent: ActorId) -> Position | None:
    session.live.line.check_open()
    actor = session.live.line.ahead.actors.get(agent)
    if actor is None or not actor.is_agent:
        raise NotFound(f"session {session.id!r} has no agent {agent}")
    if isinstance(actor.state, Passive):
        return None
    if not isinstance(actor.state, AgentState):
        raise CommandRefused(f"agent {agent} is quarantined: {actor.state}")
    return None if actor.state.run is None else actor.state.run.id

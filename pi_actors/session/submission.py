"""A handle to something that was handed to an agent."""

from typing import TYPE_CHECKING, Literal

import trio

from pi_actors.actors.agent.messages import (
    RunEnded,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
    Withdraw,
    Withdrawal,
    is_done_at_once,
)
from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Send
from pi_actors.core.errors import NotFound
from pi_actors.core.ids import ActorId, SubmissionId
from pi_actors.core.record import Recorded
from pi_actors.session.values import Settled

if TYPE_CHECKING:
    from pi_actors.session.session import Session

Status = Literal["queued", "placed", "done", "unanswered"]


class Submission:
    """An input or a write, by its id. All it says is stored; it works after a restart too."""

    def __init__(self, session: "Session", id: SubmissionId, agent: ActorId | None = None) -> None:
        self.id = id
        self._session = session
        self._agent = agent

    def __repr__(self) -> str:
        return f"Submission({self.id})"

    async def wait(self) -> Settled:
        """Return how it ended, as soon as that is stored.

        Cancellation ends only the wait.

        Raises:
            NotFound: the session has no such submission.
            CommandRefused: asked inside a tool of the agent that would have to answer.
        """
        return await self._outcome(await self.settlement())

    async def settlement(self) -> Recorded:
        """Return the event that settled it, as soon as that is stored. Raises as ``wait``."""
        live = self._session.live
        with self._session.waiting_for(await self._find_agent()):
            while True:
                with live.waits.settling(self.id) as event:
                    live.line.check_open()
                    settled = await self._settled()
                    if settled is not None:
                        return settled
                    await event.wait()

    async def status(self) -> Status:
        """Where it stands now. Raises NotFound where the session has no such submission."""
        live = self._session.live
        agent = await self._find_agent()
        settled = await self._settled()
        if settled is not None:
            return (await self._outcome(settled)).status
        actor = live.line.shown.actors[agent]
        state = actor.state
        queued = isinstance(state, AgentState) and any(each.submission == self.id for each in state.inbox)
        return "queued" if queued else "placed"

    async def withdraw(self) -> Literal["withdrawn", "already_placed", "settled"]:
        """Take it back, unless it was placed. Raises NotFound where there is no such submission."""
        agent = await self._find_agent()
        committed = await self._session.live.line.commit(Send(agent, Withdraw(submission=self.id)))
        assert isinstance(committed.reply, Withdrawal), committed
        return committed.reply.status or "settled"

    async def _find_agent(self) -> ActorId:
        if self._agent is None:
            recorded = await self._session.live.recorded(self.id)
            if recorded is None or not isinstance(recorded.event, SubmissionQueued | SubmissionPlaced):
                raise NotFound(f"there is no submission {self.id} in session {self._session.id!r}")
            self._agent = recorded.actor
        else:
            await trio.lowlevel.checkpoint()
        return self._agent

    async def _settled(self) -> Recorded | None:
        live = self._session.live
        position = await live.read(live.store.log.find_settled, self._session.id, self.id)
        recorded = await live.recorded(self.id if position is None else position)
        if position is None and not (recorded is not None and is_done_at_once(recorded.event)):
            return None
        return recorded

    async def _outcome(self, settled: Recorded) -> Settled:
        match settled.event:
            case SubmissionSettled() as event:
                return Settled(status="unanswered", reason=event.reason, detail=event.detail)
            case RunEnded(answer=None) as event:
                return Settled(status="unanswered", reason=event.reason, detail=event.detail)
            case RunEnded(answer=int(answer)):
                return Settled(status="done", answer=await self._session.live.bodies.entry(answer))
            case _:
                return Settled(status="done")

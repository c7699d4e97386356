"""Taking up the runs that a process finds active when it opens a session.

Until such a run is taken up none of its effects starts. It is taken up in one commit that counts
the recovery and lets every unfinished actor of the run decide what its own past means. A run that
only waits (for a deadline) is left alone until what it waits for has come.
"""

from collections.abc import Iterator

from pi_actors.actors.agent.messages import RecoverRun, ReleaseRun
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.generation.messages import WakeAt
from pi_actors.core.decider import AbortWork, Effect, Recover, Send
from pi_actors.core.ids import ActorId
from pi_actors.core.state import Actor, Kinds, SessionState, below, owed


class FoundRuns:
    """The agents whose run was active at opening and has not been taken up yet."""

    def __init__(self, state: SessionState, kinds: Kinds) -> None:
        self._kinds = kinds
        self._agents = {actor.id for actor in state.actors.values() if _has_run(actor)}

    def may_start(self, actor: Actor, effect: Effect) -> bool:
        """Whether *effect* may run now: waiting and aborting always, the rest once taken up."""
        return actor.agent not in self._agents or isinstance(effect, WakeAt | AbortWork)

    def ready(self, state: SessionState) -> list[ActorId]:
        """The found agents that owe something else than waiting and aborting."""
        return [agent for agent in sorted(self._agents) if self._owes_work(state, agent)]

    def take_up(self, state: SessionState, agent: ActorId) -> tuple[Send, ...]:
        """The commands that take up the run of *agent*; none where that has happened."""
        if agent not in self._agents:
            return ()
        self._agents.discard(agent)
        work = (Send(actor.id, Recover()) for actor in self._work(state, agent) if not actor.marked)
        return (Send(agent, RecoverRun()), *work)

    def release(self, state: SessionState) -> list[Send]:
        """The commands that note an orderly close for every run that this process worked on."""
        return [
            Send(actor.id, ReleaseRun())
            for actor in state.actors.values()
            if _has_run(actor) and actor.id not in self._agents
        ]

    def _owes_work(self, state: SessionState, agent: ActorId) -> bool:
        return any(
            not isinstance(effect, WakeAt | AbortWork)
            for actor in self._work(state, agent)
            for effect in owed(actor, self._kinds)
        )

    def _work(self, state: SessionState, agent: ActorId) -> Iterator[Actor]:
        return (actor for actor in below(state, agent) if actor.live and actor.agent == agent)


def _has_run(actor: Actor) -> bool:
    return isinstance(actor.state, AgentState) and actor.state.run is not None

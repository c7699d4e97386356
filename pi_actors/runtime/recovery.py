"""Taking up the runs that a process finds active when it opens a session.

Until such a run is taken up none of its effects starts. It is taken up in one commit that counts
the recovery and lets every unfinished actor of the run decide what its own past means. A run that
only waits (for a deadline, for another agent, for missing code) is left alone until what it waits
for has come. Background work goes on by itself.
"""

from collections.abc import Callable, Iterable, Iterator

from pi_actors.actors.agent.messages import RecoverRun, ReleaseRun, RunEnded, RunGivenUp, RunRecovered
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.compaction.decider import Asking, Failed
from pi_actors.actors.compaction.messages import RepeatAt
from pi_actors.actors.custom.decider import CustomState
from pi_actors.actors.custom.messages import RunStep
from pi_actors.actors.generation.messages import WakeAt
from pi_actors.core.decider import AbortWork, Effect, Passive, Recover, Send
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.record import Commit
from pi_actors.core.state import Actor, Kinds, SessionState, owed
from pi_actors.core.tree import below


class FoundRuns:
    """The agents whose run was active at opening and has not been taken up yet."""

    def __init__(self, state: SessionState, kinds: Kinds) -> None:
        self._kinds = kinds
        self._agents = {actor.id for actor in state.actors.values() if _has_run(actor)}
        self._taking_up: set[ActorId] = set()

    def __bool__(self) -> bool:
        """Whether a found run still waits to be taken up."""
        return bool(self._agents)

    def follow(self, commit: Commit, _: SessionState) -> list[ActorId]:
        """A found run is past once it is taken up, or has ended without that, such as an aborted one.

        Returns the agents of which that is true since *commit*: all their work may start now.
        """
        past = [
            each.actor
            for each in commit
            if isinstance(each.event, RunEnded | RunRecovered | RunGivenUp) and each.actor in self._agents
        ]
        for agent in past:
            self.taken_up(agent)
        return past

    def taken_up(self, agent: ActorId) -> None:
        """What taking up the run of *agent* led to is stored: its work may start."""
        self._agents.discard(agent)
        self._taking_up.discard(agent)

    def may_start(self, state: SessionState, actor: Actor, effect: Effect) -> bool:
        """Whether *effect* may run now: that of a found run's work once the run is taken up."""
        if actor.agent not in self._agents or _waits(effect) or isinstance(effect, AbortWork):
            return True
        return is_in_background(state, actor)

    def ready(
        self, state: SessionState, can_run: Callable[[Actor], bool], changed: Iterable[ActorId] | None = None
    ) -> list[ActorId]:
        """The found agents that owe something else than waiting and aborting.

        *can_run*: whether this process has an actor's code. *changed*: look only at these actors' agents.
        """
        agents = self._agents - self._taking_up
        if changed is not None and agents:
            actors = (state.actors.get(id) for id in changed)
            agents = agents & {actor.agent for actor in actors if actor is not None}
        return [agent for agent in sorted(agents) if self._owes_work(state, agent, can_run)]

    def take_up(self, state: SessionState, agent: ActorId) -> tuple[Send, ...]:
        """The commands that take up the run of *agent*; none where that is done or under way.

        Until they are stored the run's work still may not start.
        """
        if agent not in self._agents or agent in self._taking_up:
            return ()
        self._taking_up.add(agent)
        work = (Send(actor.id, Recover()) for actor in self._work(state, agent))
        last_step_below = max((_last_step(actor) for actor in below(state, agent)), default=0)
        return (Send(agent, RecoverRun(last_step_below=last_step_below)), *work)

    def release(self, state: SessionState) -> list[Send]:
        """The commands that note an orderly close for every run that this process worked on."""
        return [
            Send(actor.id, ReleaseRun())
            for actor in state.actors.values()
            if _has_run(actor) and actor.id not in self._agents
        ]

    def _owes_work(self, state: SessionState, agent: ActorId, can_run: Callable[[Actor], bool]) -> bool:
        return any(
            not (_waits(effect) or isinstance(effect, AbortWork)) and can_run(actor)
            for actor in self._work(state, agent)
            for effect in owed(actor, self._kinds)
        )

    def _work(self, state: SessionState, agent: ActorId) -> Iterator[Actor]:
        return (actor for actor in below(state, agent) if actor.live and actor.agent == agent)


def is_in_background(state: SessionState, actor: Actor) -> bool:
    """Whether the work actor belongs to background work of its own agent."""
    node: Actor | None = actor
    while node is not None and not node.is_agent:
        if node.background:
            return True
        node = state.actors.get(node.parent)
    return False


def _waits(effect: Effect) -> bool:
    """Whether the effect begins with waiting for a stored deadline."""
    return isinstance(effect, WakeAt | RepeatAt) or (
        isinstance(effect, RunStep) and effect.due_us is not None
    )


def _last_step(actor: Actor) -> Position:
    """Where the actor's last real progress was stored; 0 for kinds whose progress is their agent's."""
    match actor.state:
        case AgentState(last_step=last_step) | Passive(last_step=last_step):
            return last_step
        case CustomState(step=step) if step > actor.id:
            return step
        case Asking(step=step) | Failed(asked=Asking(step=step)):
            return step
        case _:
            return 0


def _has_run(actor: Actor) -> bool:
    return isinstance(actor.state, AgentState) and actor.state.run is not None

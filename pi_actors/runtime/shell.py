"""What the errands of one open session share."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Send
from pi_actors.core.errors import NotFound
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.lifecycle import Outcome
from pi_actors.core.settings import Settings
from pi_actors.core.state import SessionState
from pi_actors.core.text import normalise
from pi_actors.runtime.bodies import Bodies
from pi_actors.runtime.clock import Clock
from pi_actors.runtime.commit_line import CommitLine
from pi_actors.runtime.recovery import FoundRuns
from pi_actors.runtime.registry import Registry
from pi_actors.tools.environment import Env, EnvFactory

if TYPE_CHECKING:
    from pi_actors.session import Agent, Session


class Handles(NamedTuple):
    """Makes what a tool is given to reach its own session and agent."""

    session: "Callable[[], Session]"
    agent: "Callable[[ActorId], Agent]"


class Running(NamedTuple):
    """Whose code is running in this task, so that it can be kept from waiting for itself."""

    session_uuid: str
    actor: ActorId


RUNNING: ContextVar[Running | None] = ContextVar("RUNNING", default=None)


def depth_of(state: SessionState, agent: ActorId) -> int:
    """How many agents are above *agent*."""
    depth, node = 0, state.actors.get(state.actors[agent].parent)
    while node is not None:
        depth += node.is_agent
        node = state.actors.get(node.parent)
    return depth


class Shell:
    """The commit line and the doors, for the handlers of one open session."""

    def __init__(
        self,
        *,
        line: CommitLine,
        registry: Registry,
        bodies: Bodies,
        found: FoundRuns,
        settings: Settings,
        clock: Clock,
        env: EnvFactory,
        handles: Handles,
        outcome_of: Callable[[ActorId], Awaitable[Outcome]],
        spill_dir: Path | None,
        opened_at: Position,
    ) -> None:
        self.line = line
        self.registry = registry
        self.bodies = bodies
        self.found = found
        self.settings = settings
        self.clock = clock
        self.handles = handles
        self.outcome_of = outcome_of
        self.spill_dir = spill_dir
        self.opened_at = opened_at
        self._tool_slots: dict[int, trio.CapacityLimiter] = {}
        self.waits: dict[ActorId, list[ActorId]] = {}
        self.spawning = trio.Lock()
        self.configuring = trio.Lock()
        self.tool_threads = trio.CapacityLimiter(settings.tool_threads_max)
        self._env = env

    @contextmanager
    def running(self, actor: ActorId) -> Generator[None]:
        """Mark the code that runs in this task as the actor's, for the time of the body."""
        token = RUNNING.set(Running(self.line.shown.uuid, actor))
        try:
            yield
        finally:
            RUNNING.reset(token)

    def tool_slots(self, agent: ActorId) -> trio.CapacityLimiter:
        """The slots for tools of agents as deep as *agent*.

        Each depth has its own: calls that wait for subagents must not keep the subagents' calls out.
        """
        depth = depth_of(self.line.shown, agent)
        return self._tool_slots.setdefault(depth, trio.CapacityLimiter(self.settings.tools_max))

    async def take_up(self, agent: ActorId, *commands: Send) -> None:
        """Commit *commands*, and before them what takes up the run of *agent* if it was found active.

        Raises as ``CommitLine.commit``.
        """
        await self.line.commit(*self.found.take_up(self.line.ahead, agent), *commands)
        self.found.taken_up(agent)

    def agent_state(self, agent: ActorId) -> AgentState:
        """The shown state of *agent*.

        Raises:
            NotFound: there is no such agent, or it is quarantined.
        """
        actor = self.line.shown.actors.get(agent)
        if actor is None or not isinstance(actor.state, AgentState):
            raise NotFound(f"agent {agent} is not to be used in this session")
        return actor.state

    async def environment(self, cwd: str | None) -> Env:
        """Build the environment of a tool call. Raises what the factory raises."""
        built = self._env(cwd)
        return await built if isawaitable(built) else built

    async def environment_or_problem(self, cwd: str | None) -> Env | str:
        """The environment instructions may look at, or why there is none."""
        try:
            return await self.environment(cwd)
        except Exception as error:  # the door to factories that users bring: instructions are told
            return normalise(f"{type(error).__name__}: {error}")

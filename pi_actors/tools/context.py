"""What a tool function is given besides its arguments."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from pi_actors.core.decider import SpawnWork
from pi_actors.core.errors import CommandRefused, InvalidValue
from pi_actors.core.ids import ActorId, EntryId
from pi_actors.core.lifecycle import Outcome
from pi_actors.core.messages import Diagnostic
from pi_actors.core.text import Json, clean_json, clean_text
from pi_actors.core.window import clean_output
from pi_actors.tools.environment import Env

if TYPE_CHECKING:
    from pi_actors.session import Agent, Session

Level: TypeAlias = Literal["info", "warn", "error"]
State_contra = TypeVar("State_contra", contravariant=True)
State = TypeVar("State")


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """Which call is running: the tool's name, the assistant entry and the place among its calls."""

    name: str
    entry: EntryId
    index: int


class ToolPort(Protocol):
    """Where the reports of a running tool go. The runtime implements it.

    ``output`` and ``diagnose`` are called from the event loop and from worker threads, also at the
    same time, so they must be safe for that; ``details`` is awaited on the event loop only. A
    report may arrive while its call is being settled: the port refuses it then (CommandRefused).
    """

    def output(self, text: str) -> None:
        """Take output, clean already. It is stored within the progress interval."""
        ...

    def diagnose(self, diagnostic: Diagnostic) -> None:
        """Take a remark on the result."""
        ...

    async def details(self, value: Json) -> None:
        """Replace the details; returns when that is stored."""
        ...


class AgentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many agents one may have below it; None is no limit.

    ``depth_max``: levels of agents below a root. ``children_max``: agents that one agent's tools have
    spawned, ever. ``concurrent_max``: those of them that are busy.
    """

    depth_max: int | None = None
    children_max: int | None = None
    concurrent_max: int | None = None


UNLIMITED: Final = AgentLimits()


class Startable(Protocol[State_contra]):
    """An actor kind, as far as spawning goes."""

    def start(self, state: State_contra, *, name: str = "") -> SpawnWork: ...


class Ownership(Protocol):
    """What a running call may remember and own. The runtime implements it."""

    async def memo(self, name: str, candidate: Json) -> Json: ...

    async def spawn(self, born: SpawnWork) -> ActorId: ...

    async def spawn_agent(self, name: str, choices: Mapping[str, object], limits: AgentLimits) -> "Agent": ...

    async def wait(self, on: Sequence[ActorId], *, fail_fast: bool) -> tuple[Outcome, ...]: ...


class ToolContext:
    """A running call, as its tool sees it. It is closed when the call has its result.

    ``idempotency_key`` is the same on every rerun of the call. ``env`` is the world to act on.
    ``spill_dir``: a folder for output that is too long to be shown, None where there is none.
    """

    def __init__(
        self,
        *,
        port: ToolPort,
        call: ToolCall,
        idempotency_key: str,
        env: Env,
        agent: "Agent",
        session: "Session",
        owning: Ownership,
        spill_dir: Path | None = None,
    ) -> None:
        self.call = call
        self.idempotency_key = idempotency_key
        self.env = env
        self.agent = agent
        self.session = session
        self.spill_dir = spill_dir
        self._port = port
        self._owning = owning
        self._closed = False

    def output(self, text: str) -> None:
        """Show *text* as output of the running call, without control characters. Any thread.

        Raises:
            CommandRefused: the call has its result.
            InvalidValue: *text* is not text.
        """
        self._check_open("output")
        _check_text(text, "output")
        self._port.output(clean_output(text))

    def diagnose(self, level: Level, text: str) -> None:
        """Add a remark to the result, for people and for the model. Any thread.

        Raises:
            CommandRefused: the call has its result.
            InvalidValue: *text* is not text, or *level* is not "info", "warn" or "error".
        """
        self._check_open("a remark")
        _check_text(text, "a remark")
        if level not in ("info", "warn", "error"):
            raise InvalidValue(f"the level of a remark is {level!r}; it must be info, warn or error")
        self._port.diagnose(Diagnostic(level=level, code="note", text=clean_text(text, "a remark")))

    async def details(self, value: Json) -> None:
        """Replace the details that people see of the running call; returns when they are stored.

        Raises:
            CommandRefused: the call has its result.
            InvalidValue: *value* is not JSON.
        """
        self._check_open("details")
        await self._port.details(clean_json(value, "the details of a tool"))

    async def memo(self, name: str, candidate: Json) -> Json:
        """Return the value first stored under *name* for this call: *candidate*, unless there is one.

        Raises:
            InvalidValue: *candidate* is not JSON.
        """
        self._check_open("a memo")
        return await self._owning.memo(name, clean_json(candidate, "a memo"))

    async def spawn(self, kind: Startable[State], state: State, *, name: str | None = None) -> ActorId:
        """Spawn a durable actor that this call owns. A rerun finds the one of the same *name* again.

        Without a name the kind's serves, so a call that spawns several of a kind names them.
        """
        self._check_open("a spawn")
        born = kind.start(state)
        return await self._owning.spawn(msgspec.structs.replace(born, name=name or born.kind))

    async def spawn_agent(
        self, *, name: str = "agent", limits: AgentLimits = UNLIMITED, choices: Mapping[str, object] = {}
    ) -> "Agent":
        """Spawn an agent that this call owns, with its owner's choices changed as asked.

        A rerun finds the agent of the same *name* again. *choices* are those of ``Agent.configure``.

        Raises:
            CommandRefused: a limit is reached; the message says which.
            UnknownName: this process has no such tool or model.
        """
        self._check_open("a spawn")
        return await self._owning.spawn_agent(name, choices, limits)

    async def wait(self, *actors: ActorId, fail_fast: bool = False) -> tuple[Outcome, ...]:
        """Return the outcomes of *actors*, in that order, once all are terminal.

        *fail_fast*: the first that does not complete has the others aborted.
        """
        self._check_open("a wait")
        return await self._owning.wait(actors, fail_fast=fail_fast)

    def close(self) -> None:
        """The call has its result: nothing is taken any more."""
        self._closed = True

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise CommandRefused(
                f"{what} of call {self.call.index} of entry {self.call.entry} ({self.call.name}) came after "
                "its result; report before the tool returns"
            )


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidValue(f"{what} is a {type(text).__name__}; it must be text")

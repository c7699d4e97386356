"""Durable actors of one's own: a kind is a state, a step and, if it has effects, an abort step.

A step is given the stored state, does one thing in the world, and returns what comes next; that is
stored before anything else happens. A process that dies in a step runs it again from the same
state, so what it does outside should carry the idempotency key.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from pi_actors.core.decider import SpawnWork
from pi_actors.core.errors import CommandRefused, InvalidValue
from pi_actors.core.ids import ActorId
from pi_actors.core.lifecycle import Outcome
from pi_actors.core.text import Json, clean_json
from pi_actors.runtime.scopes import contained
from pi_actors.tools.context import UNLIMITED, AgentLimits, Ownership

if TYPE_CHECKING:
    from pi_actors.session import Agent, Session

S = TypeVar("S")


class Next(msgspec.Struct, Generic[S], frozen=True):
    """The step is done and ``state`` is what it has come to.

    ``spawn``: children to be born with it; the next step comes when they, and the actors ``on``, are
    terminal, with their outcomes in that order. ``fail_fast``: the first child that does not complete
    has the others aborted. ``at``: the next step does not come before this time (UTC).
    """

    state: S
    spawn: Sequence[SpawnWork] = ()
    on: Sequence[ActorId] = ()
    fail_fast: bool = False
    at: datetime | None = None


class Done(msgspec.Struct, frozen=True):
    """The actor has completed, with a JSON ``value`` for whoever waits for it."""

    value: Json = None


class Failed(msgspec.Struct, frozen=True):
    """The actor has failed; what it owns is aborted before it ends."""

    detail: str


class Work(Generic[S]):
    """What a step is given.

    ``outcomes``: of what the last step waited for. ``idempotency_key``: the same for all steps and
    reruns of this actor; add a word for each effect.
    """

    def __init__(
        self,
        *,
        id: ActorId,
        state: S,
        outcomes: tuple[Outcome, ...],
        idempotency_key: str,
        agent: "Agent",
        session: "Session",
        owning: Ownership,
        is_stopping: bool,
    ) -> None:
        self.id = id
        self.state = state
        self.outcomes = outcomes
        self.idempotency_key = idempotency_key
        self.agent = agent
        self.session = session
        self._owning = owning
        self._is_stopping = is_stopping

    async def memo(self, name: str, candidate: Json) -> Json:
        """Return the value first stored under *name*: *candidate*, unless there is one."""
        return await self._owning.memo(name, candidate)

    async def spawn_agent(
        self, *, name: str = "agent", limits: AgentLimits = UNLIMITED, choices: Mapping[str, object] = {}
    ) -> "Agent":
        """Spawn an agent that this actor owns; a rerun finds the one of the same *name* again.

        Raises:
            CommandRefused: a limit is reached, or this is an abort step, which owns nothing new.
        """
        if self._is_stopping:
            raise CommandRefused("an abort step undoes what was done; it cannot spawn or wait")
        return await self._owning.spawn_agent(name, choices, limits)


Step: TypeAlias = Callable[[Work[S]], Awaitable[Next[S] | Done | Failed]]
AbortStep: TypeAlias = Callable[[Work[S]], Awaitable[None]]
Migrate: TypeAlias = Callable[[Json, int], S]


class ActorKind(msgspec.Struct, Generic[S], frozen=True):
    """A kind of durable actor.

    ``name``: stable for ever, with a dot, such as "shop.payment". ``state``: the type of its states,
    a Struct or a union of tagged ones. ``step``: what it does next. ``abort``: undoes what the
    actor has done so far; it runs when everything below has ended, and may run again after a crash.
    ``version`` rises when the state's meaning changes; ``migrate`` then makes a state of today from
    the JSON and version of an old one.
    """

    name: str
    state: type[S]
    step: Step[S]
    abort: AbortStep[S] | None = None
    version: int = 1
    migrate: Migrate[S] | None = None

    def start(self, state: S, *, name: str = "") -> SpawnWork:
        """A child to be spawned with *state*.

        Raises:
            InvalidValue: *state* is no state of this kind.
        """
        return SpawnWork(name=name, kind=self.name, version=self.version, input=self.encode(state))

    def encode(self, state: S) -> bytes:
        """*state* as stored. Raises InvalidValue where it is no state of this kind."""
        try:
            stored = msgspec.json.encode(clean_json(msgspec.to_builtins(state), f"the state of {self.name}"))
            msgspec.json.decode(stored, type=self.state)
        except (TypeError, ValueError) as error:
            raise InvalidValue(f"{state!r} is no state of {self.name}: {error}") from error
        return stored

    def decode(self, stored: bytes, version: int) -> S:
        """The state that *version* of the kind has stored.

        Raises:
            Undecodable: this version of the kind cannot take it up; the message says why.
        """
        if version > self.version:
            raise Undecodable(f"its state is of version {version}, this process has {self.version}")
        try:
            if version == self.version:
                return msgspec.json.decode(stored, type=self.state)
            if self.migrate is None:
                raise Undecodable(f"its state is of version {version} and {self.name} has no migrate=")
            with contained():
                migrated = self.migrate(msgspec.json.decode(stored), version)
            return msgspec.convert(msgspec.to_builtins(migrated), type=self.state)
        except Undecodable:
            raise
        except Exception as error:  # the door to migrations that users bring
            raise Undecodable(f"its state of version {version} cannot be taken up: {error}") from error


AnyKind: TypeAlias = ActorKind[Any]
AnyWork: TypeAlias = Work[Any]
AnyNext: TypeAlias = Next[Any]
"""Of a kind whose states are its own business."""


class Undecodable(Exception):
    """A stored state that this process's code cannot take up; the actor is blocked."""

"""The kernel's own events: who is born, who must stop, who has ended.

They change the tree as well as the actor they name. Events are stored as arrays, so fields keep
their order for ever: an event grows only by optional fields at the end.
"""

from typing import Literal, TypeAlias

import msgspec

from pi_actors.core.ids import NOBODY, ActorId
from pi_actors.core.text import Json


class Choices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent was told to use, by name; None follows the session's default."""

    model: str | None = None
    thinking: str | None = None
    tools: tuple[str, ...] | None = None
    instructions: str | None = None
    cwd: str | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a work actor ended. ``reason`` is a short code, ``detail`` is for people.

    interrupted: its effect is unknown. faulted: its code broke. orphaned: aborted with its code missing.
    ``value`` is the JSON of what a custom actor completed with.
    """

    status: Literal["completed", "failed", "aborted", "interrupted", "faulted", "orphaned"]
    reason: str | None = None
    detail: str | None = None
    value: bytes | None = None

    @property
    def result(self) -> Json:
        """What a custom actor completed with, as JSON; None where it gave nothing."""
        return None if self.value is None else msgspec.json.decode(self.value)


COMPLETED = Outcome(status="completed")


class AgentSpawned(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An agent exists. The root's carries the session's random uuid.

    ``input``: what else it is born with, packed; empty for one that begins with nothing.
    """

    owner: ActorId = NOBODY
    choices: Choices = Choices()
    session_uuid: str | None = None
    request_id: str | None = None
    input: bytes = b""


class WorkSpawned(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A work actor exists, of *kind*, for *agent*. ``owner`` is a work actor of that agent or 0."""

    kind: str
    agent: ActorId
    owner: ActorId = NOBODY
    background: bool = False
    version: int = 1
    input: bytes = b""


class AbortMarked(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The actor must stop. Its handlers are cancelled; it ends once all below it has."""


class OutcomeHeld(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The actor's outcome is decided and waits for the work below it to end."""

    outcome: Outcome


class WaitStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The actor waits until all of ``on`` are terminal.

    ``known``: the outcomes of those that had ended before, in the order of ``on``. ``fail_fast``:
    the first that holds or ends other than completed has the rest marked for abort.
    """

    on: tuple[ActorId, ...]
    known: tuple[tuple[ActorId, Outcome], ...] = ()
    fail_fast: bool = False


class MemoWritten(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The actor remembers ``value`` (JSON) under ``name``, for good: the first writer wins."""

    name: str
    value: bytes


class WorkEnded(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The actor is terminal. Nothing about it ever changes again."""

    outcome: Outcome


KernelEvent: TypeAlias = (
    AgentSpawned | WorkSpawned | AbortMarked | OutcomeHeld | WaitStarted | MemoWritten | WorkEnded
)

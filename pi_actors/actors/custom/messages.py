"""The words every custom actor understands. Its own state travels inside them as bytes.

A process that lacks an actor's code can therefore fold it, show it, wait for it and abort it; only
its steps cannot run there.
"""

from typing import Final, TypeAlias

import msgspec

from pi_actors.core.decider import Abort, Drained, Ended, Event, Recover, SpawnWork, WaitOver
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.lifecycle import Outcome

# Stored events.


class WorkAdvanced(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A step is done and ``state`` is what it has come to, written by ``version`` of the kind.

    ``waits``: for the actors of the WaitStarted that follows. ``due_us``: until this instant (UTC).
    """

    state: bytes
    version: int
    waits: bool = False
    due_us: int | None = None


class WorkResumed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the actor waited for is terminal, with these outcomes in the order of its list."""

    outcomes: tuple[Outcome, ...]


CustomEvent: TypeAlias = WorkAdvanced | WorkResumed

# Reports of the shell.


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """A step is done: spawn ``children``; the next step comes when they and ``on`` have ended.

    ``due_us``: and not before this instant.

    ``known``: outcomes of actors in ``on`` that had ended. ``after``: the step this answers.
    """

    after: Position
    state: bytes
    version: int
    children: tuple[SpawnWork, ...] = ()
    on: tuple[ActorId, ...] = ()
    known: tuple[tuple[ActorId, Outcome], ...] = ()
    fail_fast: bool = False
    due_us: int | None = None


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The last step is done. ``after``: the step this answers."""

    after: Position
    outcome: Outcome


CustomCommand: TypeAlias = Advance | Finish | WaitOver | Ended | Drained | Abort | Recover

# Effects.


class RunStep(msgspec.Struct, frozen=True, kw_only=True):
    """Run the kind's code on the state stored at ``step``, at the first look after ``due_us``."""

    step: Position
    due_us: int | None


CustomEffect: TypeAlias = RunStep

TOPICS: Final[dict[str, type[Event]]] = {
    "WorkAdvanced": WorkAdvanced,
    "WorkResumed": WorkResumed,
}

"""An actor of a user's kind: a stored state, advanced by steps, until one of them ends it.

    ready ──Advance──▶ ready | waits | until due_us ──WaitOver──▶ ready ──Finish──▶ (ended)

The code runs in the shell. Here only bytes move, so the rules hold also where the code is missing.
"""

from typing import TypeAlias, assert_never

import msgspec

from pi_actors.actors.custom.messages import (
    Advance,
    CustomCommand,
    CustomEffect,
    Finish,
    RunStep,
    WorkAdvanced,
    WorkResumed,
)
from pi_actors.core.decider import (
    NOTHING,
    Abort,
    At,
    Birth,
    Decision,
    Drained,
    Ended,
    Event,
    Kind,
    Quarantined,
    Recover,
    WaitOver,
)
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.lifecycle import Outcome, WaitStarted, WorkSpawned
from pi_actors.core.state import ANY_KIND


class CustomState(msgspec.Struct, frozen=True, kw_only=True):
    """``state`` as stored at ``step`` by ``version`` of the kind, and what the last wait gave."""

    id: ActorId
    agent: ActorId
    step: Position
    state: bytes
    version: int
    outcomes: tuple[Outcome, ...] = ()
    waits: bool = False
    due_us: int | None = None


Evolved: TypeAlias = CustomState | Quarantined


def decide(state: CustomState, command: CustomCommand, at: At) -> Decision:
    """What follows from *command*. An answer to a step that is not the newest one is a no-op."""
    match command:
        case Advance():
            return _advance(state, command, at)
        case Finish():
            return Decision(finish=command.outcome) if command.after == state.step else NOTHING
        case WaitOver():
            return Decision(events=(WorkResumed(outcomes=command.outcomes),))
        case Abort():
            detail = "its code may still be running" if command.still_running else None
            return Decision(finish=Outcome(status="aborted", detail=detail))
        case Ended() | Drained() | Recover():
            return NOTHING
        case _:
            assert_never(command)


def evolve(state: CustomState, position: Position, event: Event) -> Evolved:
    """The state after *event*."""
    match event:
        case WorkAdvanced():
            return CustomState(
                id=state.id,
                agent=state.agent,
                step=position,
                state=event.state,
                version=event.version,
                waits=event.waits,
                due_us=event.due_us,
            )
        case WorkResumed():
            return msgspec.structs.replace(state, step=position, waits=False, outcomes=event.outcomes)
        case _:
            return Quarantined(position=position, event=type(event).__name__)


def owed(state: CustomState) -> tuple[CustomEffect, ...]:
    """The next step, unless the actor waits."""
    return () if state.waits else (RunStep(step=state.step, due_us=state.due_us),)


def initial(birth: Birth) -> CustomState:
    """The state an actor is spawned with is that of its first step."""
    assert isinstance(birth.event, WorkSpawned), birth
    return CustomState(
        id=birth.id,
        agent=birth.agent,
        step=birth.id,
        state=birth.event.input,
        version=birth.event.version,
    )


KIND: Kind[CustomState] = Kind(
    name=ANY_KIND, states=(CustomState,), initial=initial, decide=decide, evolve=evolve, owed=owed
)


def _advance(state: CustomState, command: Advance, at: At) -> Decision:
    """Store the new state; children are born, and waited for, in the same commit.

    A marked actor's state is stored too, as its abort step must know what was done; it starts nothing.
    """
    if command.after != state.step:
        return NOTHING
    if at.marked:
        return Decision(events=(WorkAdvanced(state=command.state, version=command.version),))
    births = tuple(
        WorkSpawned(
            kind=child.kind,
            agent=state.agent,
            owner=state.id,
            background=child.background,
            version=child.version,
            input=child.input,
        )
        for child in command.children
    )
    born = tuple(at.position + 1 + place for place in range(len(births)))
    on = (*born, *command.on)
    advanced = WorkAdvanced(
        state=command.state, version=command.version, waits=bool(on), due_us=command.due_us
    )
    wait = WaitStarted(on=on, known=command.known, fail_fast=command.fail_fast)
    events: tuple[Event, ...] = (advanced, *births, wait) if on else (advanced,)
    return Decision(events=events)

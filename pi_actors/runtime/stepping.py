"""The errands of custom actors: run a step, run the abort step; and why one cannot run here."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from pi_actors.actors.custom.decider import CustomState
from pi_actors.actors.custom.messages import Advance, Finish, RunStep
from pi_actors.core.decider import Abort, Orphan
from pi_actors.core.errors import NotLive
from pi_actors.core.ids import ActorId
from pi_actors.core.instants import instant, microseconds
from pi_actors.core.lifecycle import Outcome
from pi_actors.core.state import Actor
from pi_actors.core.text import clean_json, normalise
from pi_actors.runtime.errands import Errand
from pi_actors.runtime.owning import Owning
from pi_actors.runtime.recovery import is_in_background
from pi_actors.runtime.scopes import contained
from pi_actors.runtime.shell import Shell
from pi_actors.runtime.work import AnyKind, AnyNext, AnyWork, Done, Failed, Next, Undecodable, Work


async def run_step(shell: Shell, errand: Errand) -> None:
    """Run one step and report what comes next."""
    assert isinstance(errand.effect, RunStep), errand.effect
    if errand.effect.due_us is not None:
        await shell.clock.sleep_until(instant(errand.effect.due_us))
        if not is_in_background(shell.line.shown, shell.line.shown.actors[errand.actor]):
            await shell.take_up(errand.agent)
    state = errand.state
    assert isinstance(state, CustomState), state
    kind = _kind_of(shell, errand.actor)
    with shell.running(errand.actor), contained():
        result: object = await kind.step(_work(shell, errand, kind, state))
    match result:
        case Next():
            await _advance(shell, errand, kind, state, result)
        case Done():
            value = msgspec.json.encode(clean_json(result.value, f"the result of {kind.name}"))
            completed = Outcome(status="completed", value=value)
            await errand.report(Finish(after=state.step, outcome=completed), cause=state.step)
        case Failed():
            failed = Outcome(status="failed", detail=normalise(result.detail))
            await errand.report(Finish(after=state.step, outcome=failed), cause=state.step)
        case _:
            raise TypeError(f"a step of {kind.name} returned {result!r}; it must return Next, Done or Failed")


async def abort_step(shell: Shell, errand: Errand, *, still_running: bool) -> None:
    """Undo what a marked actor has done, then report its end; give it up where its code is missing."""
    actor = shell.line.shown.actors[errand.actor]
    reason = why_blocked(shell, actor)
    if reason is not None:
        await errand.report(Orphan(detail=reason))
        return
    if isinstance(actor.state, CustomState):
        kind = _kind_of(shell, actor.id)
        if kind.abort is not None:
            work = _work(shell, errand, kind, actor.state, is_stopping=True)
            abort: Callable[[AnyWork], Awaitable[object]] = kind.abort
            with shell.running(errand.actor), contained():
                result = await abort(work)
            if result is not None:
                raise TypeError(
                    f"an abort step of {kind.name} returned {result!r}; it only undoes what was done"
                )
    await errand.report(Abort(still_running=still_running))


def why_blocked(shell: Shell, actor: Actor) -> str | None:
    """Why this process cannot run the actor's code; None where it can."""
    if not isinstance(actor.state, CustomState):
        return None
    kind = shell.registry.kinds.get(actor.kind)
    if kind is None:
        return f"this process has no kind {actor.kind!r}"
    try:
        kind.decode(actor.state.state, actor.state.version)
    except Undecodable as error:
        return str(error)
    return None


async def _advance(shell: Shell, errand: Errand, kind: AnyKind, state: CustomState, result: AnyNext) -> None:
    """Report the next state; outcomes of actors that have ended are looked up until none is missing."""
    stored, due_us = kind.encode(result.state), None if result.at is None else microseconds(result.at)
    while True:
        known = await _ended(shell, result.on)
        advance = Advance(
            after=state.step,
            state=stored,
            version=kind.version,
            children=tuple(result.spawn),
            on=tuple(result.on),
            known=known,
            fail_fast=result.fail_fast,
            due_us=due_us,
        )
        try:
            await errand.report(advance, cause=state.step)
        except NotLive:  # one has ended in between, and its outcome can be looked up now
            continue
        return


async def _ended(shell: Shell, on: Sequence[ActorId]) -> tuple[tuple[ActorId, Outcome], ...]:
    """The outcomes of those that have ended. Raises NotFound for what is no work actor."""
    known: list[tuple[ActorId, Outcome]] = []
    for id in on:
        actor = shell.line.shown.actors.get(id)
        if actor is None or not actor.live:
            known.append((id, await shell.outcome_of(id)))
    return tuple(known)


def _kind_of(shell: Shell, id: ActorId) -> AnyKind:
    return shell.registry.kinds[shell.line.shown.actors[id].kind]


def _work(
    shell: Shell, errand: Errand, kind: AnyKind, state: CustomState, *, is_stopping: bool = False
) -> AnyWork:
    return Work(
        id=errand.actor,
        state=kind.decode(state.state, state.version),
        outcomes=state.outcomes,
        idempotency_key=f"{shell.line.shown.uuid}:{errand.actor}",
        agent=shell.handles.agent(errand.agent),
        session=shell.handles.session(),
        owning=Owning(shell, errand),
        is_stopping=is_stopping,
    )

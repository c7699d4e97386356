"""Runs what the shown state owes, and nothing else.

For every actor the state says which effects it owes. This keeps, for each, the errand that was
started for it: an effect newly owed is started, one no longer owed is cancelled. Because what is
owed comes from the state, a fresh start and a recovery are the same code.

An errand that raises faults its actor, never the session; so does one that ends with its effect
still owed. What cannot be cancelled in time is given up on.
"""

import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeAlias

import trio

from pi_actors.core.decider import AbortWork, Command, Effect, Fault, Send
from pi_actors.core.errors import SessionClosed, SessionFailed, root_cause
from pi_actors.core.ids import NO_CAUSE, ActorId, Position
from pi_actors.core.lifecycle import WorkEnded
from pi_actors.core.record import Commit
from pi_actors.core.state import Actor, Kinds, SessionState, owed
from pi_actors.runtime.commit_line import CommitLine, Committed


class Errand:
    """One effect being carried out for one actor."""

    def __init__(self, actor: ActorId, agent: ActorId, effect: Effect, line: CommitLine) -> None:
        self.actor = actor
        self.agent = agent
        self.effect = effect
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self._line = line

    async def report(self, command: Command, *, cause: Position = NO_CAUSE) -> Committed:
        """Tell the actor what happened. What was reported is stored even if the errand is cancelled."""
        return await self._line.commit(Send(self.actor, command), cause=cause)

    def message(self, command: Command) -> Send:
        """*command* to the actor, for a commit of several."""
        return Send(self.actor, command)

    @property
    def state(self) -> object:
        """The actor's shown state; None once it is terminal and forgotten."""
        actor = self._line.shown.actors.get(self.actor)
        return None if actor is None else actor.state


Handler: TypeAlias = Callable[[Errand], Awaitable[None]]


class Errands:
    """The errands of one open session."""

    def __init__(
        self,
        line: CommitLine,
        kinds: Kinds,
        handlers: Mapping[type[Effect], Handler],
        *,
        may_start: Callable[[Actor, Effect], bool],
        close_ms: int,
    ) -> None:
        self._line = line
        self._kinds = kinds
        self._handlers = handlers
        self._may_start = may_start
        self._close_ms = close_ms
        self._running: dict[ActorId, dict[Effect, Errand]] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start what is owed now, then whatever commits come to owe, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            stop_listening = self._line.listen(self._follow)
            task_status.started()
            try:
                self.refresh(list(self._line.shown.actors))
                await trio.sleep_forever()
            finally:
                stop_listening()

    def refresh(self, actors: Iterable[ActorId]) -> None:
        """Make the errands of *actors* what their shown states owe."""
        for id in actors:
            self._refresh(id)

    async def stop(self) -> None:
        """Start nothing more, cancel every errand and see them end, up to the time to close."""
        self._nursery = None
        errands = [errand for running in self._running.values() for errand in running.values()]
        for errand in errands:
            errand.scope.cancel()
        with trio.move_on_after(self._close_ms / 1000, shield=True):
            for errand in errands:
                await errand.ended.wait()

    async def quiet(self, actor: ActorId) -> bool:
        """Wait until *actor* has no errand but its abort; False where one outlasts the time to close."""
        others = [
            errand
            for effect, errand in self._running.get(actor, {}).items()
            if not isinstance(effect, AbortWork)
        ]
        with trio.move_on_after(self._close_ms / 1000):
            for errand in others:
                await errand.ended.wait()
            return True
        return False

    def _follow(self, commit: Commit, _: SessionState) -> None:
        for id in {event.actor: None for event in commit}:
            self._refresh(id)
        for event in commit:
            if type(event.event) is WorkEnded:
                self._refresh_above(self._line.before.actors.get(event.actor))

    def _refresh_above(self, ended: Actor | None) -> None:
        """Marked actors above owe their abort as soon as nothing lives below them."""
        node = ended
        while node is not None:
            node = self._line.shown.actors.get(node.parent)
            if node is not None:
                self._refresh(node.id)

    def _refresh(self, id: ActorId) -> None:
        actor = self._line.shown.actors.get(id)
        wanted = () if actor is None else owed(actor, self._kinds)
        running = self._running.get(id)
        if running:
            for effect, errand in running.items():
                if effect not in wanted:
                    errand.scope.cancel()
        if actor is not None:
            for effect in wanted:
                if (running is None or effect not in running) and self._may_start(actor, effect):
                    self._start(actor, effect)

    def _start(self, actor: Actor, effect: Effect) -> None:
        if self._nursery is None:
            return
        errand = Errand(actor.id, actor.agent, effect, self._line)
        self._running.setdefault(actor.id, {})[effect] = errand
        self._nursery.start_soon(self._carry_out, errand)

    async def _carry_out(self, errand: Errand) -> None:
        fault: str | None = None
        try:
            with errand.scope:
                await self._handlers[type(errand.effect)](errand)
        except Exception as error:  # the supervisor: whatever an errand raises is its actor's fault
            if self._line.closed or self._line.failure is not None:
                return  # nothing more can be stored; a later opening finds the errand still owed
            fault = _describe(root_cause(error))
        except BaseExceptionGroup as group:  # raised while everything is being cancelled: it ends here
            raise _without_errors(group) from None
        finally:
            self._forget(errand)
        await self._conclude(errand, fault)

    async def _conclude(self, errand: Errand, fault: str | None) -> None:
        """Fault the actor of an errand that raised or that ended without having advanced it."""
        actor = self._line.shown.actors.get(errand.actor)
        still_owed = actor is not None and errand.effect in owed(actor, self._kinds)
        if fault is None and still_owed and not errand.scope.cancel_called:
            fault = f"{type(errand.effect).__name__} ended without having advanced its actor"
        if fault is None:
            self._refresh(errand.actor)
        elif errand.actor == errand.agent:
            self._line.fail(SessionFailed(f"agent {errand.agent} cannot go on: {fault}"))
        else:
            with suppress(SessionFailed, SessionClosed):
                await errand.report(Fault(detail=fault))

    def _forget(self, errand: Errand) -> None:
        running = self._running[errand.actor]
        del running[errand.effect]
        if not running:
            del self._running[errand.actor]
        errand.ended.set()


def _without_errors(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What of *group* is no error but a cancellation or an interrupt, which must go on upwards."""
    rest = group.split(Exception)[1]
    assert rest is not None, group
    return rest


def _describe(error: BaseException) -> str:
    """The error and where it was raised, in one line."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" (in {where[0].name}, line {where[0].lineno})" if where else ""
    return f"{type(error).__name__}: {error}{place}"

"""``run`` and ``resume``: a session works, and what it does is seen as it is stored."""

from contextlib import AbstractAsyncContextManager
from typing import Final

import click

from pi_actors.actors.agent.messages import RunEnded
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.compaction.decider import Asking, Begun, Failed
from pi_actors.actors.compaction.messages import CompactionInput
from pi_actors.actors.tool.decider import Pending, Reconciling, Started
from pi_actors.actors.tool.messages import ToolInput
from pi_actors.cli.failures import ANSWERED, UNANSWERED, goes_on, tell, until_interrupted
from pi_actors.cli.feed import Feed, showing
from pi_actors.cli.json_lines import event_json, json_line, named
from pi_actors.cli.opening import Opening, opened, owes, require_session, work_in
from pi_actors.cli.paper import QUIET, WARNING, Roll, console_of
from pi_actors.cli.screen import Screen
from pi_actors.core.errors import Unanswered
from pi_actors.core.ids import ROOT, ActorId
from pi_actors.core.messages import Usage
from pi_actors.core.record import Commit, Recorded
from pi_actors.core.state import SessionState
from pi_actors.core.text import Json
from pi_actors.session import Answer, Session
from pi_actors.session.usage import run_usage

RECALLED: Final = 10
"""How many entries of the transcript are shown before a session is taken up."""


def run(opening: Opening, task: str, *, as_json: bool) -> int:
    """Give the session's root agent *task*, show how it is done, return the exit status."""
    viewer = _JsonViewer() if as_json else _Viewer()

    async def main() -> int:
        async with opened(opening, asks=True) as session:
            cwd = await work_in(session, opening.cwd)
            await viewer.begin(session, f"session {session.id} of {opening.store}, working in {cwd}")
            async with viewer.showing(session):
                session.resume()
                outcome = await _asked(session, task)
                await session.live.waits.until(lambda state: not _summarises(state))
            if running_compactions(session.live.line.shown):
                tell(f"a summary is still to be written; {goes_on(opening.store, opening.session)}")
            return viewer.end(session, outcome)

    return until_interrupted(main, what_now=goes_on(opening.store, opening.session))


def resume(opening: Opening, *, as_json: bool) -> int:
    """Finish what the session owes, show it, return the exit status of its last run."""
    require_session(opening.store, opening.session)
    viewer = _JsonViewer() if as_json else _Viewer(recalls=True)

    async def main() -> int:
        ends: list[Recorded] = []
        async with opened(opening, asks=False) as session:
            await viewer.begin(session, f"session {session.id} of {opening.store}")
            session.live.line.listen(lambda commit, _: ends.extend(filter(_is_end, commit)))
            async with viewer.showing(session):
                session.resume()
                await session.live.waits.until(lambda state: not owes(session, state))
            return viewer.end(session, await _outcome(session, ends))

    return until_interrupted(main, what_now=goes_on(opening.store, opening.session))


def running_tools(state: SessionState) -> dict[ActorId, ToolInput]:
    """The calls that have no result yet, by the actor of each."""
    states = {actor.id: actor.state for actor in state.actors.values()}
    found: dict[ActorId, ToolInput] = {}
    for id, tool in states.items():
        match tool:
            case Pending(call=call) | Started(call=call):
                found[id] = call
            case Reconciling(interrupted=interrupted):
                found[id] = interrupted.call
            case _:
                pass
    return found


def running_compactions(state: SessionState) -> dict[ActorId, CompactionInput]:
    """The compactions that have not ended, by their actors."""
    found: dict[ActorId, CompactionInput] = {}
    for actor in state.actors.values():
        match actor.state:
            case Begun(input=born) | Asking(input=born) | Failed(asked=Asking(input=born)):
                found[actor.id] = born
            case _:
                pass
    return found


def usage_words(usage: Usage) -> str:
    """Tokens and money, for people."""
    cost = "" if usage.cost is None else f", ${usage.cost}"
    return f"{usage.input:,} tokens in, {usage.output:,} out{cost}"


class _Viewer:
    """Shows people what happens."""

    def __init__(self, *, recalls: bool = False) -> None:
        self._paper = Roll(console_of())
        self._screen = Screen(self._paper)
        self._recalls = recalls

    async def begin(self, session: Session, title: str) -> None:
        entries = await session.root.entries()
        self._paper.line(f"· {title}", QUIET)
        self._screen.learn(ROOT, entries, running_tools(session.live.line.shown))
        if self._recalls:
            self._screen.recall(entries[-RECALLED:])
        self._screen.go_on(running_compactions(session.live.line.shown))

    def showing(self, session: Session) -> AbstractAsyncContextManager[Feed]:
        return showing(session, self._screen.show)

    def end(self, session: Session, outcome: Answer | Unanswered | None) -> int:
        match outcome:
            case None:
                waits = _waits_for(session)
                self._paper.line(f"· {waits or 'nothing is owed'}", WARNING if waits else QUIET)
                return UNANSWERED if waits else ANSWERED
            case Answer():
                self._paper.line(f"· {usage_words(outcome.usage)}", QUIET)
                return ANSWERED
            case Unanswered():
                raise outcome


class _JsonViewer:
    """Tells programs what happens, a JSON object a line, the last one being the result."""

    async def begin(self, session: Session, title: str) -> None:
        await session.root.entries()

    def showing(self, session: Session) -> AbstractAsyncContextManager[Feed]:
        return showing(session, _print_events)

    def end(self, session: Session, outcome: Answer | Unanswered | None) -> int:
        click.echo(json_line({"type": "result", "session": session.id, **_result(session, outcome)}))
        waits = outcome is None and _waits_for(session) is not None
        return UNANSWERED if waits or isinstance(outcome, Unanswered) else ANSWERED


def _print_events(commit: Commit) -> None:
    for recorded in commit:
        click.echo(event_json(recorded))


def _result(session: Session, outcome: Answer | Unanswered | None) -> dict[str, Json]:
    match outcome:
        case None:
            waits = _waits_for(session)
            return {"status": "idle" if waits is None else "waiting", "waits_for": waits}
        case Answer():
            text, usage = outcome.text, named(outcome.usage)
            return {"status": "done", "text": text, "entry": outcome.entry.id, "usage": usage}
        case Unanswered():
            return {"status": "unanswered", "reason": outcome.reason, "detail": outcome.detail}


async def _asked(session: Session, task: str) -> Answer | Unanswered:
    try:
        return await session.root.ask(task)
    except Unanswered as unanswered:
        return unanswered


def _summarises(state: SessionState) -> bool:
    """Whether a summary of the root agent's context is being written; one that failed waits for its time."""
    root = state.actors[ROOT].state
    owned = root.compactions if isinstance(root, AgentState) else ()
    actors = (state.actors.get(id) for id in owned)
    return any(actor is not None and isinstance(actor.state, Begun | Asking) for actor in actors)


def _waits_for(session: Session) -> str | None:
    """What the session waits for that it cannot bring about itself, in words; None for nothing."""
    live = session.live
    for actor in live.line.shown.actors.values():
        if (why := live.blocked(actor)) is not None:
            return f"{actor.kind} {actor.id} cannot go on here: {why}"
        if isinstance(actor.state, AgentState) and actor.state.inbox and actor.state.held is not None:
            inputs = f"{len(actor.state.inbox)} queued inputs of agent {actor.id}"
            return f"{inputs} are held ({actor.state.held}); say something new, and they go on"
    return None


def _is_end(recorded: Recorded) -> bool:
    return isinstance(recorded.event, RunEnded) and recorded.actor == ROOT


async def _outcome(session: Session, ends: list[Recorded]) -> Answer | Unanswered | None:
    """How the last of the runs that ended in this opening did."""
    if not ends:
        return None
    event = ends[-1].event
    assert isinstance(event, RunEnded), event
    if event.answer is None:
        assert event.reason is not None, event
        return Unanswered(event.reason, event.detail)
    usage = await run_usage(session.live, ends[-1])
    return Answer(entry=await session.live.bodies.entry(event.answer), usage=usage)

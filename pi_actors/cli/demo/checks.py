"""What must hold after an act, told from the log and from the file alone."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from pi_actors.actors.agent.messages import RunEnded, RunRecovered, ToolResultSettled
from pi_actors.actors.tool.messages import KIND as TOOL_KIND
from pi_actors.actors.tool.messages import ToolInput, ToolStarted
from pi_actors.actors.topics import PROGRESS
from pi_actors.cli.demo.child import Moment
from pi_actors.core.ids import ActorId
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.messages import CallRef
from pi_actors.core.record import Recorded


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A claim about an act, and whether it held."""

    claim: str
    held: bool


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """An act as it left its traces.

    ``found``: the events stored when the process died; ``stored``: when its successor was done.
    ``lines_found`` and ``lines``: how often the wanted line stood in the file then. ``killed``: the
    process was ended by SIGKILL, at its moment.
    """

    stop: Moment
    killed: bool
    found: Sequence[Recorded]
    stored: Sequence[Recorded]
    lines_found: int
    lines: int

    @property
    def added(self) -> Sequence[Recorded]:
        """What the second process stored."""
        last = self.found[-1].position if self.found else 0
        return [recorded for recorded in self.stored if recorded.position > last]


class CallStory(msgspec.Struct, frozen=True, kw_only=True):
    """One call in the log: how often its execution began, and the results that it has."""

    name: str
    started: tuple[ToolStarted, ...]
    results: tuple[ToolResultSettled, ...]

    @property
    def is_interrupted(self) -> bool:
        """Whether its effect is stored as unknown."""
        return any(remark.code == "interrupted" for result in self.results for remark in result.diagnostics)


def checks_of(evidence: Evidence) -> list[Check]:
    """Every claim about the act."""
    calls = calls_in(evidence.stored).values()
    repeated = [call for call in calls if len(call.started) > 1 and call.started[0].replay != "safe"]
    recovered = [event for event in _events(evidence.added) if isinstance(event, RunRecovered)]
    ends = [event for event in _events(evidence.stored) if isinstance(event, RunEnded)]
    return [
        Check(claim="kill -9 ended the process at its moment", held=evidence.killed),
        *_checks_of_moment(evidence),
        Check(claim="what was stored is still stored, unchanged", held=_is_kept(evidence)),
        Check(claim="another process took the run up, once", held=len(recovered) == 1),
        Check(claim="the line is in the file exactly once", held=evidence.lines == 1),
        Check(claim=f"none of {len(calls)} calls was repeated", held=bool(calls) and not repeated),
        Check(
            claim="every call has exactly one result",
            held=all(len(call.results) == 1 for call in calls),
        ),
        Check(claim="the task was answered, once", held=len(ends) == 1 and ends[0].answer is not None),
    ]


def calls_in(events: Sequence[Recorded]) -> dict[ActorId, CallStory]:
    """Every call that became an actor, by that actor's id, in the order of their births."""
    started: dict[ActorId, list[ToolStarted]] = {}
    results: dict[CallRef, list[ToolResultSettled]] = {}
    born: dict[ActorId, ToolInput] = {}
    for recorded in events:
        match recorded.event:
            case WorkSpawned(kind=kind, input=wish) if kind == TOOL_KIND:
                born[recorded.actor] = msgspec.msgpack.decode(wish, type=ToolInput)
            case ToolStarted() as event:
                started.setdefault(recorded.actor, []).append(event)
            case ToolResultSettled() as event:
                results.setdefault(event.call, []).append(event)
            case _:
                pass
    return {
        actor: CallStory(
            name=call.name,
            started=tuple(started.get(actor, ())),
            results=tuple(results.get(CallRef(entry=call.entry, index=call.index), ())),
        )
        for actor, call in born.items()
    }


def _checks_of_moment(evidence: Evidence) -> list[Check]:
    before, after = calls_in(evidence.found), calls_in(evidence.stored)
    open_calls = {actor: call for actor, call in before.items() if not call.results}
    began = {actor for actor, call in open_calls.items() if call.started}
    match evidence.stop:
        case "before the start":
            waiting = open_calls.keys() - began
            ran = all(len(after[actor].started) == 1 and after[actor].results for actor in waiting)
            return [
                Check(
                    claim="the log had the call, not its start; the file was as it was",
                    held=bool(waiting) and evidence.lines_found == 0,
                ),
                Check(claim="the call ran now, for the first time", held=bool(waiting) and ran),
            ]
        case "before the result":
            told = [actor for actor in began if after[actor].is_interrupted]
            return [
                Check(
                    claim="the file was changed, and the log had the call's start, not its result",
                    held=bool(began) and evidence.lines_found == 1,
                ),
                Check(claim="the model was told that the effect is unknown", held=bool(told)),
            ]
        case "before the request":
            counts = Counter({actor: len(call.started) for actor, call in before.items()})
            again = Counter({actor: len(after[actor].started) for actor in before})
            settled = [call for call in before.values() if call.results]
            return [
                Check(
                    claim="the file was changed, and the log had the call's result",
                    held=bool(settled) and evidence.lines_found == 1,
                ),
                Check(claim="no tool that had run ran again", held=counts == again),
            ]


def _is_kept(evidence: Evidence) -> bool:
    """Progress may go once it is superseded; everything else stays."""
    last = evidence.found[-1].position if evidence.found else 0
    found = [recorded for recorded in evidence.found if recorded.topic not in PROGRESS]
    kept = [recorded for recorded in evidence.stored if recorded.position <= last]
    return found == [recorded for recorded in kept if recorded.topic not in PROGRESS]


def _events(recorded: Sequence[Recorded]) -> list[msgspec.Struct]:
    return [each.event for each in recorded]

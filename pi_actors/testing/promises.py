"""What a log must be true to, whatever has happened to the processes that wrote it.

Each checker reads a whole log, from position 1, and yields a line for every place where its promise
is broken. They judge by the events alone and share no code with the deciders.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from pi_actors.actors.agent.messages import (
    ResponseSettled,
    RunEnded,
    RunGivenUp,
    RunRecovered,
    RunReleased,
    RunStarted,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
    ToolResultSettled,
)
from pi_actors.actors.compaction.messages import SummaryRepeated, SummaryStarted
from pi_actors.actors.generation.messages import RequestRepeated, RequestStarted
from pi_actors.actors.tool.messages import ToolReconcileStarted, ToolStarted
from pi_actors.core.decider import Quarantined
from pi_actors.core.ids import ActorId, Position, SubmissionId
from pi_actors.core.lifecycle import AbortMarked, AgentSpawned, OutcomeHeld, WorkEnded, WorkSpawned
from pi_actors.core.messages import Call, CallRef
from pi_actors.core.record import Recorded
from pi_actors.testing.reading import fold_state

Checker: TypeAlias = Callable[[Sequence[Recorded]], Iterator[str]]

SENT: Final = ("answer", "calls", "length")
"""Stops of responses that later requests carry, so their calls must get results."""


def commits_are_whole(log: Sequence[Recorded], scavenged_to: Position = 0) -> Iterator[str]:
    """Positions follow each other, each commit is there to its end, time never runs backwards.

    Up to *scavenged_to* progress may be missing, also the last event of a commit or a whole one.
    """
    for place, each in enumerate(log):
        before = log[place - 1] if place else None
        last = 0 if before is None else before.position
        if not last < each.position <= max(last, scavenged_to) + 1:
            yield f"position {each.position} stands at place {last + 1}"
        if not 0 <= each.cause < each.position:
            yield f"the cause of {each.position} is {each.cause}, which is not before it"
        if before is None:
            continue
        if each.at_us < before.at_us:
            yield f"{each.position} is {before.at_us - each.at_us} us older than the event before it"
        cut_off = scavenged_to < before.end and before.position < before.end
        if cut_off and (each.end, each.at_us) != (before.end, before.at_us):
            yield f"the commit up to {before.end} is cut off at {before.position}"
    if log and log[-1].position != log[-1].end:
        yield f"the commit up to {log[-1].end} is cut off at {log[-1].position}"


def calls_have_one_result(log: Sequence[Recorded]) -> Iterator[str]:
    """Every call gets one result, before its agent's next request and before its run ends."""
    agents = _agents(log)
    open_calls: dict[ActorId, dict[CallRef, str]] = {}
    for each in log:
        match each.event:
            case ResponseSettled() as event if event.info.stop in SENT:
                open_calls.setdefault(each.actor, {}).update(_calls(each.position, event))
            case ToolResultSettled() as event:
                name = open_calls.get(each.actor, {}).pop(event.call, None)
                if name != event.name:
                    yield f"the result at {each.position} is for {event.call}, which has no open call"
            case RequestStarted():
                for call in open_calls.get(agents[each.actor], ()):
                    yield f"the request at {each.position} was sent while {call} had no result"
            case RunEnded():
                for call in open_calls.get(each.actor, ()):
                    yield f"the run ended at {each.position} while {call} had no result"
            case _:
                pass


def unsafe_calls_start_once(log: Sequence[Recorded]) -> Iterator[str]:
    """A call starts again only if it was and is safe, or if its reconciler was asked in between."""
    policies: dict[ActorId, str] = {}
    asked: set[ActorId] = set()
    for each in log:
        match each.event:
            case ToolReconcileStarted():
                asked.add(each.actor)
            case ToolStarted() as event:
                before = policies.get(each.actor)
                policies[each.actor] = event.replay
                safe = before == "safe" and event.replay == "safe"
                if before is not None and not safe and each.actor not in asked:
                    yield f"tool {each.actor} ({before}) was started again at {each.position}"
                asked.discard(each.actor)
            case _:
                pass


def submissions_settle_once(log: Sequence[Recorded]) -> Iterator[str]:
    """Every accepted submission is placed at most once, and settled once or still waiting."""
    waiting: set[SubmissionId] = set()
    placed: set[SubmissionId] = set()
    for each in log:
        for problem in _follow_submission(each, waiting, placed):
            yield f"at {each.position}: {problem}"
    in_runs = {submission for run in _active_runs(log) for submission in run}
    for submission in sorted(placed - in_runs):
        yield f"submission {submission} was placed, is not settled, and no run has it"


def finished_means_finished(log: Sequence[Recorded]) -> Iterator[str]:
    """Nothing happens to a work actor after its end, nor to a run."""
    ended: dict[ActorId, Position] = {}
    runs: dict[ActorId, Position] = {}
    for each in log:
        if each.actor in ended:
            yield f"actor {each.actor} ended at {ended[each.actor]} and has {each.topic} at {each.position}"
        match each.event:
            case WorkEnded():
                ended[each.actor] = each.position
            case RunStarted():
                if each.actor in runs:
                    yield f"run {each.position} began while run {runs[each.actor]} was active"
                runs[each.actor] = each.position
            case RunEnded() | RunRecovered() | RunGivenUp() | RunReleased() as event:
                if runs.get(each.actor) != event.run:
                    yield f"{each.topic} at {each.position} is of run {event.run}, which is not active"
                if isinstance(event, RunEnded):
                    runs.pop(each.actor, None)
            case ResponseSettled() | ToolResultSettled():
                if each.actor not in runs:
                    yield f"{each.topic} at {each.position} came when agent {each.actor} had no run"
            case _:
                pass


def runs_end_with_an_answer_or_a_reason(log: Sequence[Recorded]) -> Iterator[str]:
    """Every run that ends has a settled response of its agent as its answer, or says why it has none."""
    answers: dict[ActorId, set[Position]] = {}
    for each in log:
        match each.event:
            case RunStarted():
                answers[each.actor] = set()
            case ResponseSettled() as event if event.info.stop in SENT:
                answers.setdefault(each.actor, set()).add(each.position)
            case RunEnded() as event:
                if (event.answer is None) == (event.reason is None):
                    yield f"the run ended at {each.position} with {event.answer} for {event.reason}"
                if event.answer is not None and event.answer not in answers.get(each.actor, ()):
                    yield f"the run ended at {each.position} with {event.answer}, no answer of its own"
            case _:
                pass


def nothing_starts_below_an_abort(log: Sequence[Recorded]) -> Iterator[str]:
    """No request and no tool starts once its actor, or a live actor above it, must stop."""
    parents: dict[ActorId, ActorId] = {}
    stopping: set[ActorId] = set()
    for each in log:
        match each.event:
            case AgentSpawned() | WorkSpawned() as event:
                parents[each.actor] = _parent(event)
            case AbortMarked():
                stopping.add(each.actor)
            case OutcomeHeld() as event if event.outcome.status != "completed":
                stopping.add(each.actor)
            case WorkEnded():
                stopping.discard(each.actor)
            case (
                RequestStarted()
                | RequestRepeated()
                | SummaryStarted()
                | SummaryRepeated()
                | ToolStarted()
                | ToolReconcileStarted()
            ):
                if cancelled := stopping & set(_upwards(each.actor, parents)):
                    yield f"{each.topic} at {each.position} came below the aborted {sorted(cancelled)}"
            case _:
                pass


def nothing_is_quarantined(log: Sequence[Recorded]) -> Iterator[str]:
    """Every event fits the state of its actor."""
    for actor in fold_state(log).actors.values():
        if isinstance(actor.state, Quarantined):
            yield f"actor {actor.id} has met {actor.state.event} at {actor.state.position}"


CHECKERS: Final[tuple[Checker, ...]] = (
    commits_are_whole,
    calls_have_one_result,
    unsafe_calls_start_once,
    submissions_settle_once,
    finished_means_finished,
    runs_end_with_an_answer_or_a_reason,
    nothing_starts_below_an_abort,
    nothing_is_quarantined,
)


def _agents(log: Iterable[Recorded]) -> dict[ActorId, ActorId]:
    """The agent of every work actor."""
    return {each.actor: each.event.agent for each in log if isinstance(each.event, WorkSpawned)}


def _calls(entry: Position, event: ResponseSettled) -> dict[CallRef, str]:
    calls = (part for part in event.parts if isinstance(part, Call))
    return {CallRef(entry=entry, index=call.index): call.name for call in calls}


def _follow_submission(
    each: Recorded, waiting: set[SubmissionId], placed: set[SubmissionId]
) -> Iterator[str]:
    match each.event:
        case SubmissionQueued():
            waiting.add(each.position)
        case SubmissionPlaced() as event:
            submission = event.submission or each.position
            if event.submission and submission not in waiting:
                yield f"submission {submission} was placed, but it did not wait"
            waiting.discard(submission)
            if event.mode != "write":
                placed.add(submission)
        case SubmissionSettled() as event:
            if event.submission not in waiting:
                yield f"submission {event.submission} was settled, but it did not wait"
            waiting.discard(event.submission)
        case RunEnded() as event:
            for submission in event.inputs:
                if submission not in placed:
                    yield f"submission {submission} was settled by a run, but it was not placed"
                placed.discard(submission)
        case _:
            pass


def _active_runs(log: Iterable[Recorded]) -> Iterable[Sequence[SubmissionId]]:
    """The inputs of the runs that have not ended; steers that were placed into them included."""
    runs: dict[ActorId, list[SubmissionId]] = {}
    for each in log:
        match each.event:
            case RunStarted() as event:
                runs[each.actor] = list(event.inputs)
            case SubmissionPlaced() as event if event.mode != "write" and each.actor in runs:
                runs[each.actor].append(event.submission or each.position)
            case RunEnded():
                runs.pop(each.actor, None)
            case _:
                pass
    return runs.values()


def _parent(event: AgentSpawned | WorkSpawned) -> ActorId:
    """Who an abort comes from; nobody for background work."""
    match event:
        case AgentSpawned():
            return event.owner
        case WorkSpawned(background=True):
            return 0
        case WorkSpawned():
            return event.owner or event.agent


def _upwards(actor: ActorId, parents: dict[ActorId, ActorId]) -> Iterator[ActorId]:
    while actor:
        yield actor
        actor = parents.get(actor, 0)

"""An agent: what it accepts, when it places it, and what a turn's end leads to.

An agent is *busy* while a run is active. A run's turns are generations; when one ends the agent
passes a boundary: it places what waits in the inbox and starts the next generation, or ends the
run. The boundary itself is in ``boundary.py``.
"""

from typing import assert_never

import msgspec

from pi_actors.actors.agent import messages
from pi_actors.actors.agent.boundary import (
    Draft,
    appended_of,
    end_run,
    pass_compaction,
    pass_end,
    pass_tools,
    start_turn,
)
from pi_actors.actors.agent.compacting import (
    compact,
    compaction_ended,
    make_room,
    place_summary,
    relieve_overflow,
)
from pi_actors.actors.agent.messages import (
    AbortAgent,
    AgentCommand,
    AgentConfigured,
    Compact,
    Configure,
    EntryAppended,
    EntryDraft,
    InboxReleased,
    ItemMode,
    OpenRequest,
    PlaceInbox,
    PlaceSummary,
    RecoverRun,
    ReleaseInbox,
    ReleaseRun,
    RelieveOverflow,
    ResponseSettled,
    RunGivenUp,
    RunRecovered,
    RunReleased,
    RunStarted,
    SettleCall,
    SettleResponse,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
    Submit,
    Submitted,
    SubmitWrite,
    Withdraw,
    Withdrawal,
)
from pi_actors.actors.agent.state import AgentState, Run, evolve, initial, text_digest
from pi_actors.actors.compaction.messages import KIND as COMPACTION_KIND
from pi_actors.actors.generation.messages import KIND as GENERATION_KIND
from pi_actors.actors.generation.messages import RequestOpened, ResponsePlaced
from pi_actors.core.decider import NOTHING, AbortedAbove, At, Decision, Effect, Ended, Event, Kind, Send
from pi_actors.core.errors import AgentBusy, CommandRefused
from pi_actors.core.ids import Position, SubmissionId
from pi_actors.core.messages import Call, Message, Part, Text
from pi_actors.core.tokens import text_tokens


def decide(state: AgentState, command: AgentCommand, at: At) -> Decision:
    """What follows from *command*."""
    match command:
        case Submit():
            return _submit(state, command, at)
        case SubmitWrite():
            return _submit_write(state, command, at)
        case Withdraw():
            return _withdraw(state, command.submission)
        case Configure():
            return Decision(events=(AgentConfigured(choices=command.choices),))
        case ReleaseInbox():
            return NOTHING if state.held is None else Decision(events=(InboxReleased(),))
        case AbortAgent():
            return Decision(
                events=_withdraw_inputs(state), abort_below=True, abort_background=command.background
            )
        case AbortedAbove():
            return Decision(events=_withdraw_inputs(state))
        case PlaceInbox():
            return _place_inbox(state, at)
        case Compact():
            return compact(state, command, at)
        case OpenRequest():
            return _open_request(state, command, at)
        case RelieveOverflow():
            return relieve_overflow(state, command, at)
        case PlaceSummary():
            return place_summary(state, command, at)
        case SettleResponse():
            return _settle_response(state, command, at)
        case SettleCall():
            return _settle_call(state, command)
        case Ended() if command.kind == COMPACTION_KIND:
            return compaction_ended(state, command)
        case Ended():
            return _turn_ended(state, command, at)
        case RecoverRun():
            return _recover(state, command, at)
        case ReleaseRun():
            return _release(state)
        case _:
            assert_never(command)


def owed(state: AgentState) -> tuple[Effect, ...]:
    """A boundary, where something waits and nothing else would place it."""
    waits = state.run is None and state.inbox and state.held is None
    return (PlaceInbox(),) if waits else ()


KIND: Kind[AgentState] = Kind(
    name=messages.KIND, states=(AgentState,), initial=initial, decide=decide, evolve=evolve, owed=owed
)


# Submissions


def _submit(state: AgentState, command: Submit, at: At) -> Decision:
    """Place the input and start a run, or queue it."""
    if state.run is not None and command.when_busy == "reject":
        raise AgentBusy(f"agent {state.id} is busy with a run; wait for it, or submit without reject")
    reply = Submitted(submission=at.position)
    if state.run is not None or state.inbox:
        mode: ItemMode = "steer" if command.when_busy == "steer" else "follow_up"
        entry = EntryDraft(kind="pi.user", messages=command.messages)
        queued = SubmissionQueued(mode=mode, entry=entry, request_id=command.request_id)
        return Decision(events=(queued,), reply=reply)
    placed = SubmissionPlaced(mode="follow_up", entry=at.position + 1, request_id=command.request_id)
    entry_event = EntryAppended(kind="pi.user", messages=command.messages)
    started = RunStarted(inputs=(at.position,))
    turn, prepare = start_turn(state.id, state.choices, at.position + 3)
    return Decision(events=(placed, entry_event, started, turn), messages=(prepare,), reply=reply)


def _submit_write(state: AgentState, command: SubmitWrite, at: At) -> Decision:
    """Append the entry at once, or queue it."""
    entry = command.entry
    reply = Submitted(submission=at.position)
    if state.run is not None or state.inbox:
        queued = SubmissionQueued(mode="write", entry=entry, request_id=command.request_id)
        return Decision(events=(queued,), reply=reply)
    if state.has_left(entry.head):
        raise CommandRefused(f"entry {entry.head} is not in agent {state.id}'s active transcript")
    placed = SubmissionPlaced(mode="write", entry=at.position + 1, request_id=command.request_id)
    return Decision(events=(placed, appended_of(entry, placed.entry)), reply=reply)


def _withdraw(state: AgentState, submission: SubmissionId) -> Decision:
    if any(item.submission == submission for item in state.inbox):
        settled = SubmissionSettled(submission=submission, reason="aborted", detail="withdrawn")
        return Decision(events=(settled,), reply=Withdrawal(status="withdrawn"))
    if state.run is not None and submission in state.run.inputs:
        return Decision(reply=Withdrawal(status="already_placed"))
    return Decision(reply=Withdrawal(status=None))


def _withdraw_inputs(state: AgentState) -> tuple[Event, ...]:
    return tuple(
        SubmissionSettled(submission=item.submission, reason="aborted")
        for item in state.inbox
        if item.mode != "write"
    )


def _place_inbox(state: AgentState, at: At) -> Decision:
    if state.run is not None or not state.inbox or state.held is not None:
        return NOTHING
    draft = Draft(state, at)
    pass_end(draft)
    return draft.decision()


# A turn's requests, responses and results


def _open_request(state: AgentState, command: OpenRequest, at: At) -> Decision:
    """Make the transcript ready: what waited for a compaction, room where it is short, instructions."""
    if state.run is None:
        return NOTHING
    draft = Draft(state, at)
    if command.compacted:
        pass_compaction(draft)
    text = _unsaid(draft.state, command.system)
    planned = 0 if text is None else text_tokens(text)
    if command.may_wait and make_room(draft, command, planned):
        return draft.decision()
    if text is not None:
        message = Message(role="system", parts=(Text(text=text),))
        draft.add(EntryAppended(kind="pi.system", messages=(message,), by=command.generation))
    cutoff = max(meta.id for meta in draft.state.entries)
    opened = RequestOpened(cutoff=cutoff, turn=state.turn, choices=command.choices)
    draft.messages.append(Send(command.generation, opened))
    return draft.decision()


def _unsaid(state: AgentState, wanted: str | None) -> str | None:
    """The instructions to append so that *wanted* is in force; None where it is."""
    if wanted is None and state.system is not None:
        wanted = _WITHDRAWN
    if wanted is None or (state.system is not None and state.system[1] == text_digest(wanted)):
        return None
    return wanted


_WITHDRAWN = "The earlier instructions no longer apply."


def _settle_response(state: AgentState, command: SettleResponse, at: At) -> Decision:
    """Append the response; every call in it gets an id that is unique in the context."""
    if state.run is None:
        return NOTHING
    parts = _with_unique_ids(state, command.parts, at)
    settled = ResponseSettled(by=command.generation, info=command.info, parts=parts)
    if command.info.stop in ("error", "aborted"):
        return Decision(events=(settled,))
    placed = ResponsePlaced(entry=at.position, calls=command.calls, cut=command.info.stop == "length")
    return Decision(events=(settled,), messages=(Send(command.generation, placed),))


def _with_unique_ids(state: AgentState, parts: tuple[Part, ...], at: At) -> tuple[Part, ...]:
    if not any(isinstance(part, Call) for part in parts):
        return parts
    used = {wire_id for meta in state.entries for wire_id in meta.wire_ids}
    unique: list[Part] = []
    for part in parts:
        if isinstance(part, Call):
            wire_id = part.wire_id
            if not wire_id or wire_id in used:
                part = msgspec.structs.replace(part, wire_id=f"pi_{at.position}_{part.index}")
            used.add(part.wire_id)
        unique.append(part)
    return tuple(unique)


def _settle_call(state: AgentState, command: SettleCall) -> Decision:
    """Append the result, unless the call has one."""
    if state.run is None or all(waiting.call != command.result.call for waiting in state.run.open_calls):
        return NOTHING
    return Decision(events=(command.result,))


def _turn_ended(state: AgentState, ended: Ended, at: At) -> Decision:
    """Go on to the next turn, or end the run."""
    if state.run is None or ended.kind != GENERATION_KIND:
        return NOTHING
    draft = Draft(state, at)
    run, outcome = state.run, ended.outcome
    match outcome.status:
        case "completed" if run.calls and run.terminating < run.calls:
            pass_tools(draft)
        case "completed":
            end_run(draft, answer=run.response)
            pass_end(draft)
        case "failed":
            no_model = outcome.reason == "no_model"
            end_run(draft, reason="no_model" if no_model else "model_error", detail=outcome.detail)
        case "aborted" if run.given_up:
            detail = f"{run.recoveries} recoveries in a row brought no progress"
            end_run(draft, reason="recovery_exhausted", detail=detail)
        case "aborted":
            end_run(draft, reason="aborted")
        case "interrupted" | "faulted" | "orphaned":
            end_run(draft, reason="faulted", detail=outcome.detail)
    return draft.decision()


# Recovery


def _recover(state: AgentState, command: RecoverRun, at: At) -> Decision:
    """Count the recovery, or give the run up when too many in a row brought no step."""
    run = state.run
    if run is None or run.given_up:
        return NOTHING
    attempt = _attempt(run, max(state.last_step, command.last_step_below))
    if attempt > at.settings.recoveries_max:
        return Decision(events=(RunGivenUp(run=run.id),), abort_below=True)
    return Decision(events=(RunRecovered(run=run.id, attempt=attempt),))


def _attempt(run: Run, last_step: Position) -> int:
    """Recoveries in a row without a step, this one included unless it follows an orderly close."""
    before = 0 if last_step > run.recovered_at else run.recoveries
    return before if run.released else before + 1


def _release(state: AgentState) -> Decision:
    if state.run is None or state.run.released:
        return NOTHING
    return Decision(events=(RunReleased(run=state.run.id),))

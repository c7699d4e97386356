"""Boundaries: the moments at which what waits in the inbox is placed.

After a tool round: all writes, then steers. At a run's end: writes, steers, follow-ups; the inputs
selected there start the next run. Before a request that has waited for a compaction: as after a tool
round, and follow-ups too where the run has asked for nothing yet. Items of a mode go in the order
they came, one per boundary or all of them. Each item is judged against the transcript as the items
before it have left it.
"""

from typing import Literal

import msgspec

from pi_actors.actors.agent.messages import (
    AgentConfigured,
    AgentEvent,
    EntryAppended,
    EntryDraft,
    RunEnded,
    RunStarted,
    SubmissionPlaced,
    SubmissionSettled,
    result_by_runtime,
)
from pi_actors.actors.agent.state import AgentState, InboxItem, evolve
from pi_actors.actors.generation.messages import KIND as GENERATION_KIND
from pi_actors.actors.generation.messages import Prepare
from pi_actors.core.decider import At, Decision, Quarantined, Send
from pi_actors.core.errors import UnansweredReason
from pi_actors.core.ids import ActorId, EntryId, Position, SubmissionId
from pi_actors.core.lifecycle import Choices, WorkSpawned
from pi_actors.core.messages import Diagnostic


class Draft:
    """A decision in the making, with the state as its events so far have left it."""

    def __init__(self, state: AgentState, at: At) -> None:
        self.state = state
        self.at = at
        self.events: list[AgentEvent | WorkSpawned] = []
        self.messages: list[Send] = []

    @property
    def position(self) -> Position:
        """What the next event will get."""
        return self.at.position + len(self.events)

    def add(self, event: AgentEvent) -> None:
        """Record one of the agent's own events."""
        state = evolve(self.state, self.position, event)
        assert not isinstance(state, Quarantined), state
        self.state = state
        self.events.append(event)

    def start_turn(self) -> None:
        """Spawn the next generation."""
        turn, prepare = start_turn(self.state.id, self.state.choices, self.position)
        self.events.append(turn)
        self.messages.append(prepare)

    def decision(self) -> Decision:
        """The decision as it stands."""
        return Decision(events=tuple(self.events), messages=tuple(self.messages))


def start_turn(agent: ActorId, choices: Choices, position: Position) -> tuple[WorkSpawned, Send]:
    """A generation born at *position*, and the message that sets it off."""
    return WorkSpawned(kind=GENERATION_KIND, agent=agent), Send(position, Prepare(choices=choices))


def appended_of(entry: EntryDraft, position: Position) -> EntryAppended:
    """The event that puts *entry* into the transcript at *position*."""
    return EntryAppended(
        kind=entry.kind,
        messages=entry.messages,
        by=entry.by,
        data=entry.data,
        head=position if entry.head_self else entry.head,
    )


def pass_tools(draft: Draft) -> None:
    """The boundary after a tool round: a reset placed here ends the run, else the next turn starts."""
    _extend_tools(draft)
    was_reset = _place_writes(draft)
    if was_reset:
        end_run(draft, reason="reset")
        _place_inputs_and_run(draft)
        return
    for item in _selected(draft, "steer", draft.at.settings.steer_mode):
        _place(draft, item)
    draft.start_turn()


def pass_compaction(draft: Draft) -> None:
    """The boundary before a request that waited for a compaction: what came meanwhile goes with it.

    A reset would end the run, so with one in the inbox all waits for the next boundary.
    """
    run, settings = draft.state.run, draft.at.settings
    assert run is not None, "only a run waits for a compaction"
    if any(item.entry.kind == "pi.reset" for item in draft.state.inbox):
        return
    _place_writes(draft)
    items = _selected(draft, "steer", settings.steer_mode)
    if run.response is None:
        items += _selected(draft, "follow_up", settings.follow_up_mode)
    for item in items:
        _place(draft, item)


def pass_end(draft: Draft) -> None:
    """The boundary of an agent without a run: place what waits; inputs start the next run."""
    _place_writes(draft)
    _place_inputs_and_run(draft)


def end_run(
    draft: Draft,
    *,
    answer: EntryId | None = None,
    reason: UnansweredReason | None = None,
    detail: str | None = None,
) -> None:
    """End the run and settle its inputs; calls that never got a result get one that says why."""
    run = draft.state.run
    assert run is not None, "a run that is not there cannot end"
    for open_call in run.open_calls:
        text = f"The run ended ({reason or 'answered'}) before this call had a result."
        code: Literal["aborted", "faulted"] = "faulted" if reason == "faulted" else "aborted"
        remark = Diagnostic(level="error", code=code, text=text)
        draft.add(result_by_runtime(open_call.call, open_call.name, draft.state.id, remark))
    draft.add(RunEnded(run=run.id, inputs=run.inputs, answer=answer, reason=reason, detail=detail))


def _place_inputs_and_run(draft: Draft) -> None:
    settings = draft.at.settings
    items = (
        *_selected(draft, "steer", settings.steer_mode),
        *_selected(draft, "follow_up", settings.follow_up_mode),
    )
    for item in items:
        _place(draft, item)
    if items:
        draft.add(RunStarted(inputs=_ids(items)))
        draft.start_turn()


def _ids(items: tuple[InboxItem, ...]) -> tuple[SubmissionId, ...]:
    return tuple(item.submission for item in items)


def _selected(
    draft: Draft, mode: Literal["steer", "follow_up"], amount: Literal["one", "all"]
) -> tuple[InboxItem, ...]:
    items = tuple(item for item in draft.state.inbox if item.mode == mode)
    return items[:1] if amount == "one" else items


def _place_writes(draft: Draft) -> bool:
    """Place every write that is not stale; return whether a reset was among them."""
    was_reset = False
    for item in tuple(item for item in draft.state.inbox if item.mode == "write"):
        if draft.state.has_left(item.entry.head):
            detail = f"entry {item.entry.head} has left the active transcript"
            draft.add(SubmissionSettled(submission=item.submission, reason="stale", detail=detail))
        else:
            _place(draft, item)
            was_reset = was_reset or item.entry.kind == "pi.reset"
    return was_reset


def _place(draft: Draft, item: InboxItem) -> None:
    placed = draft.position + 1
    draft.add(SubmissionPlaced(mode=item.mode, entry=placed, submission=item.submission))
    draft.add(appended_of(item.entry, placed))


def _extend_tools(draft: Draft) -> None:
    """Give a chosen list of tools the names that the round's results asked for."""
    run, choices = draft.state.run, draft.state.choices
    if run is None or choices.tools is None:
        return
    new = tuple(name for name in dict.fromkeys(run.add_tools) if name not in choices.tools)
    if new:
        extended = msgspec.structs.replace(choices, tools=choices.tools + new)
        draft.add(AgentConfigured(choices=extended))

"""What an agent remembers: ids and sizes of its active context, its inbox, its run.

Bodies of entries are not here; they are read from the log by position when a request is built.
"""

import hashlib
from typing import Final, TypeAlias

import msgspec

from pi_actors.actors.agent.entries import EntryMeta, ForkInput, fork_of
from pi_actors.actors.agent.messages import (
    AgentConfigured,
    AgentEvent,
    CompactionEnded,
    CompactionSkipped,
    CompactionStarted,
    EntryAppended,
    EntryDraft,
    InboxReleased,
    ItemMode,
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
from pi_actors.actors.agent.transcript import SENT, Context, appended, responded, resulted
from pi_actors.core.chunks import chunks_of, items_of
from pi_actors.core.decider import Birth, Quarantined
from pi_actors.core.errors import UnansweredReason
from pi_actors.core.ids import ActorId, EntryId, Position, SubmissionId
from pi_actors.core.lifecycle import AgentSpawned, Choices
from pi_actors.core.messages import Call, CallRef, Text

HOLDING: Final[frozenset[UnansweredReason]] = frozenset({"no_model", "model_error", "recovery_exhausted"})
"""Ends of a run that would hit the next input too, so the inbox is held."""


class InboxItem(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """A submission that waits."""

    submission: SubmissionId
    mode: ItemMode
    entry: EntryDraft


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A call of the run's newest response that has no result yet."""

    call: CallRef
    name: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the agent busy.

    ``response``: the newest settled response, with ``calls`` in it; ``open_calls`` of these have no
    result, ``terminating`` asked to end the run, ``add_tools`` were asked for. ``recoveries``: since
    the last step, as of ``recovered_at``. ``released``: closed in order since. ``given_up``: recovered
    too often, its work is being aborted.
    """

    id: Position
    inputs: tuple[SubmissionId, ...]
    response: EntryId | None = None
    calls: int = 0
    open_calls: tuple[OpenCall, ...] = ()
    terminating: int = 0
    add_tools: tuple[str, ...] = ()
    recoveries: int = 0
    recovered_at: Position = 0
    released: bool = False
    given_up: bool = False


class AgentState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An agent, as far as it matters for what comes next.

    ``turn``: responses settled as an answer or as calls. ``system``: the instructions in context, by
    their entry and digest. ``last_step``: where the last real progress was stored. ``counted``: the
    newest response since the context's start that came with a count, and how many tokens the context
    had with it. ``compactions``: the live ones that the agent owns directly.
    ``skipped``: it was said that the context is too large and a compaction would not help.
    ``configured``: where the choices were last changed. ``forked``: the agent whose history this one
    goes on from, and the last entry of it.
    """

    id: ActorId
    choices: Choices
    context: Context = ()
    system: tuple[EntryId, str] | None = None
    turn: int = 0
    inbox: tuple[InboxItem, ...] = ()
    held: UnansweredReason | None = None
    run: Run | None = None
    last_step: Position = 0
    counted: tuple[EntryId, int] | None = None
    compactions: tuple[ActorId, ...] = ()
    skipped: bool = False
    configured: Position = 0
    forked: tuple[ActorId, EntryId] | None = None

    @property
    def entries(self) -> tuple[EntryMeta, ...]:
        """The active context, in order."""
        return items_of(self.context)

    def has_left(self, head: EntryId | None) -> bool:
        """Whether *head* is an entry that is not in the active context: what starts there would be stale."""
        return head is not None and all(entry.id != head for entry in self.entries)


Evolved: TypeAlias = AgentState | Quarantined


def initial(birth: Birth) -> AgentState:
    """A new agent: nothing chosen that its spawn did not choose, nothing said but what a fork inherits."""
    assert isinstance(birth.event, AgentSpawned), birth
    fork = fork_of(birth.event)
    if fork is None:
        return AgentState(id=birth.id, choices=birth.event.choices)
    return AgentState(
        id=birth.id,
        choices=birth.event.choices,
        context=chunks_of(fork.context),
        system=fork.system,
        counted=fork.counted,
        forked=(fork.parent, fork.at),
    )


def fork_input(state: AgentState, at: EntryId) -> ForkInput:
    """What a fork of the agent at its entry *at* is born with; *state* is that of just after *at*."""
    return ForkInput(
        parent=state.id, at=at, context=state.entries, system=state.system, counted=state.counted
    )


def as_of(state: AgentState, at: EntryId) -> AgentState | None:
    """What *state* was just after the entry *at*, as far as a fork needs it; None where it cannot tell.

    It can while nothing that a fork inherits has changed since but by growing.
    """
    kept = tuple(entry for entry in state.entries if entry.id <= at)
    if state.configured > at or not kept or max(entry.id for entry in kept) != at:
        return None
    if any(entry.heads or entry.part == "instructions" for entry in state.entries if entry.id > at):
        return None
    counted = state.counted if state.counted is not None and state.counted[0] <= at else None
    return msgspec.structs.replace(state, context=chunks_of(kept), counted=counted)


def evolve(state: AgentState, position: Position, event: AgentEvent) -> Evolved:
    """The state after *event*."""
    match event:
        case SubmissionPlaced():
            return _placed(state, position, event)
        case EntryAppended():
            return _appended(state, position, event)
        case SubmissionQueued():
            item = InboxItem(submission=position, mode=event.mode, entry=event.entry)
            return msgspec.structs.replace(state, inbox=(*state.inbox, item), held=None)
        case SubmissionSettled():
            return msgspec.structs.replace(state, inbox=_without(state.inbox, event.submission))
        case AgentConfigured():
            return msgspec.structs.replace(state, choices=event.choices, held=None, configured=position)
        case InboxReleased():
            return msgspec.structs.replace(state, held=None)
        case CompactionStarted():
            compactions = (*state.compactions, event.compaction)
            return msgspec.structs.replace(state, compactions=compactions)
        case CompactionEnded():
            compactions = tuple(id for id in state.compactions if id != event.compaction)
            return msgspec.structs.replace(state, compactions=compactions)
        case CompactionSkipped():
            return msgspec.structs.replace(state, skipped=True)
        case AgentSpawned():
            return Quarantined(position=position, event="AgentSpawned")
        case RunStarted() if state.run is None:
            return msgspec.structs.replace(state, run=Run(id=position, inputs=event.inputs), held=None)
        case _ if state.run is not None:
            return _evolve_run(state, state.run, position, event)
        case _:
            return Quarantined(position=position, event=type(event).__name__)


def _evolve_run(state: AgentState, run: Run, position: Position, event: AgentEvent) -> Evolved:
    match event:
        case ResponseSettled():
            return _responded(state, run, position, event)
        case ToolResultSettled():
            return _resulted(state, run, position, event)
        case RunEnded():
            held = event.reason if event.reason in HOLDING else None
            return msgspec.structs.replace(state, run=None, held=held)
        case RunRecovered():
            recovered = msgspec.structs.replace(
                run, recoveries=event.attempt, recovered_at=position, released=False
            )
            return msgspec.structs.replace(state, run=recovered)
        case RunGivenUp():
            return msgspec.structs.replace(state, run=msgspec.structs.replace(run, given_up=True))
        case RunReleased():
            return msgspec.structs.replace(state, run=msgspec.structs.replace(run, released=True))
        case _:
            return Quarantined(position=position, event=type(event).__name__)


def _placed(state: AgentState, position: Position, event: SubmissionPlaced) -> AgentState:
    run = state.run
    if run is not None and event.mode != "write":
        run = msgspec.structs.replace(run, inputs=(*run.inputs, event.submission or position))
    queued = event.submission != 0
    return msgspec.structs.replace(
        state,
        inbox=_without(state.inbox, event.submission) if queued else state.inbox,
        held=state.held if queued else None,
        run=run,
        last_step=position,
    )


def _without(inbox: tuple[InboxItem, ...], submission: SubmissionId) -> tuple[InboxItem, ...]:
    return tuple(item for item in inbox if item.submission != submission)


def _appended(state: AgentState, position: Position, event: EntryAppended) -> AgentState:
    context = appended(state.context, position, event)
    if event.kind == "pi.system":
        return msgspec.structs.replace(state, context=context, system=(position, _digest(event)))
    if event.head is None:
        return msgspec.structs.replace(state, context=context)
    system = state.system
    if system is not None and all(entry.id != system[0] for entry in items_of(context)):
        system = None
    return msgspec.structs.replace(
        state,
        context=context,
        system=system,
        counted=None,
        skipped=False,
        last_step=position if event.kind == "pi.compaction" else state.last_step,
    )


def _digest(event: EntryAppended) -> str:
    """Stands for the text of the event's messages."""
    parts = (part for message in event.messages for part in message.parts)
    return text_digest("".join(part.text for part in parts if isinstance(part, Text)))


def text_digest(text: str) -> str:
    """Stands for *text* where only its equality matters."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _responded(state: AgentState, run: Run, position: Position, event: ResponseSettled) -> AgentState:
    context = responded(state.context, position, event)
    last_step = state.last_step if event.info.stop == "aborted" else position
    if event.info.stop not in SENT:
        return msgspec.structs.replace(state, context=context, last_step=last_step)
    calls = tuple(part for part in event.parts if isinstance(part, Call))
    run = msgspec.structs.replace(
        run,
        response=position,
        calls=len(calls) if event.info.stop == "calls" else 0,
        open_calls=tuple(
            OpenCall(call=CallRef(entry=position, index=call.index), name=call.name) for call in calls
        ),
        terminating=0,
        add_tools=(),
    )
    usage = event.info.usage
    tokens = 0 if usage is None else usage.input + usage.output
    return msgspec.structs.replace(
        state,
        context=context,
        turn=state.turn + 1,
        run=run,
        last_step=last_step,
        counted=(position, tokens) if tokens else state.counted,
    )


def _resulted(state: AgentState, run: Run, position: Position, event: ToolResultSettled) -> AgentState:
    run = msgspec.structs.replace(
        run,
        open_calls=tuple(waiting for waiting in run.open_calls if waiting.call != event.call),
        terminating=run.terminating + event.terminate,
        add_tools=run.add_tools + event.add_tools,
    )
    return msgspec.structs.replace(
        state,
        context=resulted(state.context, position, event),
        run=run,
        last_step=position if event.own else state.last_step,
    )

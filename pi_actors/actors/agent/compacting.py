"""When an agent's context is compacted, and how a summary takes its place.

    manual      a caller asks                          the agent owns the compaction
    background  a request leaves little more room than its reserve; it is sent at once   the agent owns it
    blocking    a request would leave less: it waits   the generation owns it
    overflow    a provider refused it as too large     the generation owns it

A summary that somebody waits for is appended as soon as it is there; any other is a write like a
caller's: placed at once when no run is active, else at the next boundary. One whose first kept
entry has left the active transcript meanwhile is stale and is dropped.
"""

from typing import Final, Literal

import msgspec

from pi_actors.actors.agent.boundary import Draft, appended_of
from pi_actors.actors.agent.cut import Cut, Limits, Load, limits_of, load_of, select_cut
from pi_actors.actors.agent.messages import (
    Compact,
    CompactionEnded,
    CompactionSkipped,
    CompactionStarted,
    EntryAppended,
    EntryDraft,
    OpenRequest,
    PlaceSummary,
    RelieveOverflow,
    SubmissionQueued,
)
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.compaction.messages import KIND, BeginSummary, CompactionInput, SummaryPlaced, Trigger
from pi_actors.actors.generation.messages import AwaitCompaction, NothingToCompact
from pi_actors.core.decider import NOTHING, At, Decision, Ended, Send, Spawned
from pi_actors.core.ids import NOBODY, ActorId
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.messages import user_message

_INTRODUCTION: Final = "The conversation before this point, summarised to save room:"
"""What stands before a summary; ``INTRODUCTION_TOKENS`` are set aside for it."""


def compact(state: AgentState, command: Compact, at: At) -> Decision:
    """Begin a compaction that a caller asked for; where there is nothing to cut it ends at once."""
    draft = Draft(state, at)
    model = state.choices.model or at.catalog.default_model
    limits, load = _measured(state, model, at)
    cut = select_cut(state.entries, limits, load.scale)
    begun = _begun("manual", model, limits, load, cut, instructions=command.instructions)
    compaction = _begin_own(draft, begun, command.request_id)
    return msgspec.structs.replace(draft.decision(), reply=Spawned(id=compaction, is_new=True))


def make_room(draft: Draft, request: OpenRequest, planned: int) -> bool:
    """Begin what the size of the context asks for before a request; return whether it must wait.

    *planned*: the tokens of instructions that the request will add.
    """
    settings, state = draft.at.settings.compaction, draft.state
    model = request.choices.model or draft.at.catalog.default_model
    limits, load = _measured(state, model, draft.at, planned)
    if not settings.enabled or limits.blocking is None or limits.background is None:
        return False
    if load.tokens <= limits.background or state.compactions or _summary_waits(state):
        return False
    must_wait = load.tokens > limits.blocking
    beside = limits._replace(kept_max=limits.kept_max - planned)
    cut = select_cut(state.entries, beside, load.scale)
    freed = 0 if cut is None else max(cut.tokens - limits.summary, 0)
    if freed == 0 or freed < settings.freed_min * load.tokens:
        if must_wait and not state.skipped:
            draft.add(CompactionSkipped(tokens=load.tokens, freed_tokens=freed))
        return False
    if must_wait:
        begun = _begun("blocking", model, limits, load, cut)
        _begin_for(draft, request.generation, begun, overflow=None)
    else:
        _begin_own(draft, _begun("background", model, limits, load, cut), None)
    return must_wait


def relieve_overflow(state: AgentState, command: RelieveOverflow, at: At) -> Decision:
    """Compact what a provider has refused as too large, or say that this cannot help."""
    if state.run is None:
        return NOTHING
    refused = _measured(state, command.model, at)[1].tokens
    limits, load = _measured(state, command.model, at, too_large=refused)
    cut = select_cut(state.entries, limits, load.scale)
    if cut is None:
        # Better a context that is hardly smaller than a run that ends for it.
        cut = select_cut(state.entries, limits._replace(kept_max=refused), load.scale)
    if cut is None or cut.tokens <= limits.summary or not at.settings.compaction.enabled:
        return Decision(messages=(Send(command.generation, NothingToCompact(overflow=command.error)),))
    draft = Draft(state, at)
    begun = _begun("overflow", command.model, limits, load, cut)
    _begin_for(draft, command.generation, begun, overflow=command.error)
    return draft.decision()


def place_summary(state: AgentState, command: PlaceSummary, at: At) -> Decision:
    """Append the summary, queue it, or drop it as stale; the compaction is told which."""
    if state.has_left(command.keep_from):
        return _told(command, "stale")
    entry = EntryDraft(
        kind="pi.compaction",
        messages=(user_message(f"{_INTRODUCTION}\n\n{command.text}"),),
        data={"trigger": command.trigger, "tokens_before": command.tokens},
        head=command.keep_from,
        by=command.compaction,
    )
    if state.run is None or command.trigger in ("blocking", "overflow"):
        return _told(command, "placed", appended_of(entry, at.position))
    request_id = f"pi.compaction:{command.compaction}"
    return _told(command, "queued", SubmissionQueued(mode="write", entry=entry, request_id=request_id))


def compaction_ended(state: AgentState, ended: Ended) -> Decision:
    """Forget a compaction that the agent owned."""
    if ended.actor not in state.compactions:
        return NOTHING
    return Decision(events=(CompactionEnded(compaction=ended.actor),))


def _summary_waits(state: AgentState) -> bool:
    """Whether a summary is ready and stands in the inbox: the attempt that began with it was repeated."""
    return any(item.entry.kind == "pi.compaction" for item in state.inbox)


def _measured(
    state: AgentState, model: str | None, at: At, planned: int = 0, too_large: int | None = None
) -> tuple[Limits, Load]:
    window = None if model is None else at.catalog.windows.get(model)
    limits = limits_of(window, at.settings.compaction, too_large=too_large)
    return limits, load_of(state.entries, state.counted, planned)


def _begun(
    trigger: Trigger,
    model: str | None,
    limits: Limits,
    load: Load,
    cut: Cut | None,
    *,
    instructions: str | None = None,
) -> CompactionInput:
    return CompactionInput(
        trigger=trigger,
        entries=() if cut is None else cut.entries,
        keep_from=0 if cut is None else cut.keep_from,
        model=model,
        tokens=load.tokens,
        summary_tokens_max=limits.summary,
        instructions=instructions,
    )


def _begin_own(draft: Draft, begun: CompactionInput, request_id: str | None) -> ActorId:
    """Spawn a compaction that the agent owns itself, and return its id."""
    compaction = draft.position + 1
    draft.add(CompactionStarted(compaction=compaction, trigger=begun.trigger, request_id=request_id))
    _spawn(draft, NOBODY, begun)
    draft.messages.append(Send(compaction, BeginSummary()))
    return compaction


def _begin_for(draft: Draft, generation: ActorId, begun: CompactionInput, *, overflow: str | None) -> None:
    """Spawn a compaction that *generation* owns and waits for."""
    compaction = draft.position
    _spawn(draft, generation, begun)
    awaited = AwaitCompaction(compaction=compaction, overflow=overflow)
    draft.messages += (Send(generation, awaited), Send(compaction, BeginSummary()))


def _spawn(draft: Draft, owner: ActorId, begun: CompactionInput) -> None:
    born = msgspec.msgpack.encode(begun)
    draft.events.append(WorkSpawned(kind=KIND, agent=draft.state.id, owner=owner, input=born))


def _told(
    command: PlaceSummary,
    status: Literal["placed", "queued", "stale"],
    *events: EntryAppended | SubmissionQueued,
) -> Decision:
    return Decision(events=events, messages=(Send(command.compaction, SummaryPlaced(status=status)),))

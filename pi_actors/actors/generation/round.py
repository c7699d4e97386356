"""The calls of one response: which run, in which order, and when the round is over.

A round's tool actors are spawned right after the event that starts or advances it, so their ids
follow from its position.
"""

from collections.abc import Sequence

import msgspec

from pi_actors.actors.agent.messages import SettleCall, result_by_runtime
from pi_actors.actors.generation.messages import (
    CallSpec,
    CheckedCall,
    ResponsePlaced,
    ToolRoundAdvanced,
    ToolRoundStarted,
)
from pi_actors.actors.tool.messages import KIND as TOOL_KIND
from pi_actors.actors.tool.messages import BeginCall, ToolInput
from pi_actors.core.decider import NOTHING, At, Decision, Ended, Send
from pi_actors.core.ids import ActorId, EntryId, Position
from pi_actors.core.lifecycle import COMPLETED, WorkSpawned
from pi_actors.core.messages import CallRef, Diagnostic, DiagnosticCode


class InRound(msgspec.Struct, frozen=True, kw_only=True, tag="round"):
    """The calls run. ``next``: how many were spawned. ``tools``: (actor, call) of the newest ones."""

    id: ActorId
    agent: ActorId
    entry: EntryId
    calls: tuple[CallSpec, ...]
    sequential: bool
    next: int
    tools: tuple[tuple[ActorId, CallSpec], ...]


def open_round(
    id: ActorId, agent: ActorId, offered: Sequence[str], placed: ResponsePlaced, at: At
) -> Decision:
    """Start what can run; give every other call its result in the same commit."""
    if placed.cut:
        incomplete = [_refusal(id, agent, placed.entry, call, "incomplete", _CUT) for call in placed.calls]
        return Decision(messages=tuple(incomplete), finish=COMPLETED)
    runnable = [call for call in placed.calls if call.name in offered]
    refused = [
        _refusal(id, agent, placed.entry, call, "tool_unavailable", _not_offered(call.name))
        for call in placed.calls
        if call.name not in offered
    ]
    if not runnable:
        return Decision(messages=tuple(refused), finish=COMPLETED)
    sequential = at.settings.sequential_tools or any(_is_sequential(call.name, at) for call in runnable)
    started = ToolRoundStarted(
        entry=placed.entry,
        calls=tuple(CallSpec(index=call.index, name=call.name) for call in runnable),
        sequential=sequential,
    )
    first = runnable[:1] if sequential else runnable
    births = [_spawn(id, agent, placed.entry, CallSpec(index=call.index, name=call.name)) for call in first]
    begins = [
        Send(at.position + 1 + place, BeginCall(problem=call.problem)) for place, call in enumerate(first)
    ]
    return Decision(events=(started, *births), messages=(*refused, *begins))


def start_round(id: ActorId, agent: ActorId, position: Position, event: ToolRoundStarted) -> InRound:
    """The state after the round's first event."""
    spawned = 1 if event.sequential else len(event.calls)
    return InRound(
        id=id,
        agent=agent,
        entry=event.entry,
        calls=event.calls,
        sequential=event.sequential,
        next=spawned,
        tools=tuple((position + 1 + place, call) for place, call in enumerate(event.calls[:spawned])),
    )


def continue_round(state: InRound, position: Position, event: ToolRoundAdvanced) -> InRound:
    """The state of a sequential round after its next call was taken up."""
    tools = ((position + 1, state.calls[event.next]),)
    return msgspec.structs.replace(state, next=event.next + 1, tools=tools)


def close_call(state: InRound, ended: Ended) -> Decision:
    """A tool has ended: its call gets a result from us if its code broke before it gave one."""
    return Decision(messages=_close_broken(state, ended))


def advance_round(state: InRound, at: At) -> Decision:
    """Nothing lives below any more: go on to the next call, or end the turn."""
    if state.next >= len(state.calls):
        return Decision(finish=COMPLETED)
    if at.marked:
        return NOTHING
    call = state.calls[state.next]
    return Decision(
        events=(ToolRoundAdvanced(next=state.next), _spawn(state.id, state.agent, state.entry, call)),
        messages=(Send(at.position + 1, BeginCall()),),
    )


def _close_broken(state: InRound, ended: Ended) -> tuple[Send, ...]:
    code: DiagnosticCode
    match ended.outcome.status:
        case "faulted":
            code, text = "faulted", "The tool's code broke; its effect is unknown and it was not repeated."
        case "orphaned":
            code, text = "orphaned", "The tool's code is missing; the call was given up."
        case _:
            return ()
    if ended.outcome.detail:
        text = f"{text} ({ended.outcome.detail})"
    for actor, call in state.tools:
        if actor == ended.actor:
            broken = CheckedCall(index=call.index, name=call.name)
            return (_refusal(state.id, state.agent, state.entry, broken, code, text),)
    return ()


def _spawn(id: ActorId, agent: ActorId, entry: EntryId, call: CallSpec) -> WorkSpawned:
    born = ToolInput(entry=entry, index=call.index, name=call.name)
    return WorkSpawned(kind=TOOL_KIND, agent=agent, owner=id, input=msgspec.msgpack.encode(born))


def _refusal(
    id: ActorId, agent: ActorId, entry: EntryId, call: CheckedCall, code: DiagnosticCode, text: str
) -> Send:
    remark = Diagnostic(level="error", code=code, text=text)
    result = result_by_runtime(CallRef(entry=entry, index=call.index), call.name, id, remark)
    return Send(agent, SettleCall(result=result))


def _is_sequential(name: str, at: At) -> bool:
    facts = at.catalog.tools.get(name)
    return facts is not None and facts.sequential


def _not_offered(name: str) -> str:
    return f"No tool named {name!r} was offered, so the call was not run."


_CUT = "The response was cut off by its length limit, so this call is incomplete and was not run."

"""Entries: what a stored event puts into a transcript, and what an agent keeps in mind of it."""

from typing import Literal, TypeAlias

import msgspec

from pi_actors.actors.agent.messages import EntryAppended, ResponseSettled, ToolResultSettled
from pi_actors.core.decider import Event
from pi_actors.core.ids import ActorId, EntryId, Position
from pi_actors.core.instants import instant
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.messages import Entry, Message, Result
from pi_actors.core.text import Json

Part: TypeAlias = Literal["user", "assistant", "result", "instructions", "note", "nothing"]
"""What an entry is to a model; a note is a system message of a caller's own."""


class EntryMeta(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """What the active context knows of an entry.

    ``sent``: it goes to models. ``heads``: it moved the start. ``tokens``: about how much it takes.
    ``answers``: the entry whose call this is the result of.
    """

    id: EntryId
    sent: bool = True
    heads: bool = False
    wire_ids: tuple[str, ...] = ()
    tokens: int = 0
    part: Part = "nothing"
    answers: EntryId = 0


class ForkInput(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a fork is born with: the context of ``parent`` as it was at its entry ``at``, by reference.

    ``system``: the instructions in that context, by their entry and digest. ``counted``: as
    ``AgentState.counted``.
    """

    parent: ActorId
    at: EntryId
    context: tuple[EntryMeta, ...]
    system: tuple[EntryId, str] | None = None
    counted: tuple[EntryId, int] | None = None


def fork_of(event: AgentSpawned) -> ForkInput | None:
    """What the agent was forked from, None where it began with nothing.

    Raises:
        msgspec.MsgspecError: its input is no fork's.
    """
    return msgspec.msgpack.decode(event.input, type=ForkInput) if event.input else None


def entry_of(event: Event, *, position: Position, agent: ActorId, at_us: int) -> Entry | None:
    """The entry that *event* put into *agent*'s transcript, or None."""
    at = instant(at_us)
    match event:
        case EntryAppended():
            return Entry(
                id=position,
                agent=agent,
                kind=event.kind,
                at=at,
                by=event.by,
                head=event.head,
                messages=event.messages,
                data=event.data,
            )
        case ResponseSettled():
            messages = (Message(role="assistant", parts=event.parts),) if event.parts else ()
            data = msgspec.to_builtins(event.info)
            return Entry(
                id=position,
                agent=agent,
                kind="pi.assistant",
                at=at,
                by=event.by,
                messages=messages,
                data=data,
            )
        case ToolResultSettled():
            return Entry(
                id=position,
                agent=agent,
                kind="pi.tool-result",
                at=at,
                by=event.by,
                messages=(_result_message(event),),
                data=_result_data(event),
            )
        case _:
            return None


def _result_message(event: ToolResultSettled) -> Message:
    result = Result(
        call=event.call, content=event.content, is_error=event.is_error, diagnostics=event.diagnostics
    )
    return Message(role="tool", parts=(result,))


def _result_data(event: ToolResultSettled) -> Json:
    data: dict[str, Json] = {
        "tool": event.name,
        "diagnostics": [msgspec.to_builtins(remark) for remark in event.diagnostics],
    }
    if event.details is not None:
        data["details"] = event.details
    if event.duration_ms is not None:
        data["duration_ms"] = event.duration_ms
    return data

"""What a stored event puts into a transcript."""

import msgspec

from pi_actors.actors.agent.messages import EntryAppended, ResponseSettled, ToolResultSettled
from pi_actors.core.decider import Event
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.instants import instant
from pi_actors.core.messages import Entry, Message, Result
from pi_actors.core.text import Json


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

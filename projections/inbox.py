"""pi.inbox: what waits to be placed, and why it waits longer than usual.

``{"items": [{"id", "mode", "kind", "text", "messages", "queued_at", "request_id"}, ...],
"held": None | {"reason", "detail"}}``, items in the order they were accepted; ``text`` is a
preview.
"""

from typing import Final

import immutables
import msgspec

from pi_actors.actors.agent.messages import (
    AgentConfigured,
    EntryDraft,
    InboxReleased,
    ItemMode,
    RunEnded,
    RunStarted,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
)
from pi_actors.core.errors import UnansweredReason
from pi_actors.core.ids import SubmissionId
from pi_actors.core.messages import Message, Text
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json
from projections.fold import Document, Projection, as_json, iso

PREVIEW_CHARACTERS: Final = 200
HOLDING: Final[frozenset[UnansweredReason]] = frozenset({"no_model", "model_error", "recovery_exhausted"})
"""How a run ends that would hit the next input too."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A queued submission."""

    id: SubmissionId
    mode: ItemMode
    entry: EntryDraft
    queued_us: int
    request_id: str | None


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing is placed although the agent is not busy."""

    reason: UnansweredReason
    detail: str | None


class InboxState(msgspec.Struct, frozen=True, kw_only=True):
    """The queued submissions by id; ids are positions, so their order is the order of arrival."""

    items: "immutables.Map[SubmissionId, Item]" = immutables.Map()
    held: Hold | None = None


def evolve(state: InboxState, recorded: Recorded) -> InboxState:
    """The inbox after *recorded*."""
    match recorded.event:
        case SubmissionQueued() as event:
            item = Item(
                id=recorded.position,
                mode=event.mode,
                entry=event.entry,
                queued_us=recorded.at_us,
                request_id=event.request_id,
            )
            return InboxState(items=state.items.set(item.id, item))
        case SubmissionPlaced(submission=0):
            return InboxState(items=state.items)
        case SubmissionPlaced(submission=id) | SubmissionSettled(submission=id):
            return _without(state, id)
        case RunEnded(reason=reason, detail=detail):
            hold = Hold(reason=reason, detail=detail) if reason is not None and reason in HOLDING else None
            return InboxState(items=state.items, held=hold)
        case AgentConfigured() | InboxReleased() | RunStarted():
            return InboxState(items=state.items)
        case _:
            return state


def document(state: InboxState) -> Document:
    """The inbox as JSON."""
    held = None if state.held is None else {"reason": state.held.reason, "detail": state.held.detail}
    return {"items": [_item_document(state.items[id]) for id in sorted(state.items)], "held": held}


INBOX: Final = Projection(name="pi.inbox", version=1, initial=InboxState(), evolve=evolve, document=document)


def _without(state: InboxState, id: SubmissionId) -> InboxState:
    if id not in state.items:
        return state
    return InboxState(items=state.items.delete(id), held=state.held)


def _item_document(item: Item) -> Json:
    return {
        "id": item.id,
        "mode": item.mode,
        "kind": item.entry.kind,
        "text": _preview(item.entry.messages),
        "messages": as_json(item.entry.messages),
        "queued_at": iso(item.queued_us),
        "request_id": item.request_id,
    }


def _preview(messages: tuple[Message, ...]) -> str:
    text = "".join(part.text for message in messages for part in message.parts if isinstance(part, Text))
    return text if len(text) <= PREVIEW_CHARACTERS else text[: PREVIEW_CHARACTERS - 1] + "…"

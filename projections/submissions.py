"""Every submission of a session: how far it is and what became of it."""

from typing import Final, Literal, TypeAlias

import immutables
import msgspec

from pi_actors.actors.agent.messages import (
    ItemMode,
    RunEnded,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
)
from pi_actors.core.errors import UnansweredReason
from pi_actors.core.ids import ActorId, EntryId, SubmissionId
from pi_actors.core.record import Recorded
from projections.fold import Document, Projection, as_json


class SubmissionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says of a submission. ``entry``: where it was placed.

    done: with ``answer``, or a write, which asks no model and has none. unanswered: for ``reason``.
    """

    id: SubmissionId
    agent: ActorId
    mode: ItemMode
    status: Literal["queued", "placed", "done", "unanswered"]
    entry: EntryId | None = None
    answer: EntryId | None = None
    reason: UnansweredReason | None = None
    detail: str | None = None


Submissions: TypeAlias = "immutables.Map[SubmissionId, SubmissionFacts]"


def evolve(state: Submissions, recorded: Recorded) -> Submissions:
    """The submissions after *recorded*; a settled one never changes again."""
    match recorded.event:
        case SubmissionQueued(mode=mode):
            queued = SubmissionFacts(id=recorded.position, agent=recorded.actor, mode=mode, status="queued")
            return state.set(queued.id, queued)
        case SubmissionPlaced() as event:
            return _place(state, recorded, event)
        case SubmissionSettled() as event:
            return _settle(state, event.submission, None, event.reason, event.detail)
        case RunEnded() as event:
            for id in event.inputs:
                state = _settle(state, id, event.answer, event.reason, event.detail)
            return state
        case _:
            return state


def document(state: Submissions) -> Document:
    """The submissions as JSON, oldest first."""
    return {"submissions": [as_json(state[id]) for id in sorted(state)]}


_NONE: Final[Submissions] = immutables.Map()
SUBMISSIONS: Final = Projection(
    name="submissions", version=1, initial=_NONE, evolve=evolve, document=document
)


def _place(state: Submissions, recorded: Recorded, event: SubmissionPlaced) -> Submissions:
    id = event.submission or recorded.position
    queued = state.get(id)
    if event.submission and (queued is None or queued.status != "queued"):
        return state
    placed = SubmissionFacts(
        id=id,
        agent=recorded.actor,
        mode=event.mode,
        status="done" if event.mode == "write" else "placed",
        entry=event.entry,
    )
    return state.set(id, placed)


def _settle(
    state: Submissions,
    id: SubmissionId,
    answer: EntryId | None,
    reason: UnansweredReason | None,
    detail: str | None,
) -> Submissions:
    found = state.get(id)
    if found is None or found.status in ("done", "unanswered"):
        return state
    settled = SubmissionFacts(
        id=id,
        agent=found.agent,
        mode=found.mode,
        status="done" if reason is None else "unanswered",
        entry=found.entry,
        answer=answer,
        reason=reason,
        detail=detail,
    )
    return state.set(id, settled)

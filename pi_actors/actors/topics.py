"""Every stored event of the built-in kinds by its topic, and what each adds to the index tables.

A topic is a promise: classes may be renamed, topics may not. A changed meaning is a new topic
(``ToolStarted.2``) with an upcaster from the old one.
"""

from collections.abc import Iterable
from typing import Final

from pi_actors.actors.agent import messages as agent
from pi_actors.actors.agent.messages import (
    CompactionStarted,
    EntryAppended,
    ResponseSettled,
    RunEnded,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
    ToolResultSettled,
)
from pi_actors.actors.compaction import messages as compaction
from pi_actors.actors.custom import messages as custom
from pi_actors.actors.generation import messages as generation
from pi_actors.actors.tool import messages as tool
from pi_actors.core import lifecycle
from pi_actors.core.decider import Event
from pi_actors.core.ids import NOBODY, ActorId, Position
from pi_actors.core.lifecycle import AgentSpawned, WorkEnded
from pi_actors.core.record import IndexRows, Recorded

KERNEL: Final[dict[str, type[Event]]] = {
    "WorkSpawned": lifecycle.WorkSpawned,
    "AbortMarked": lifecycle.AbortMarked,
    "OutcomeHeld": lifecycle.OutcomeHeld,
    "WaitStarted": lifecycle.WaitStarted,
    "MemoWritten": lifecycle.MemoWritten,
    "WorkEnded": lifecycle.WorkEnded,
}

ALL: Final[dict[str, type[Event]]] = {
    **KERNEL,
    **agent.TOPICS,
    **generation.TOPICS,
    **tool.TOPICS,
    **compaction.TOPICS,
    **custom.TOPICS,
}

PROGRESS: Final = frozenset({"PartialStreamed", "ToolOutputStreamed", "ToolDetailsReported"})
"""Topics whose events are superseded by what settles them."""

ENTRIES: Final = frozenset({EntryAppended, ResponseSettled, ToolResultSettled})
"""The types of the events that are an entry of the transcript."""

_INDEXED_BESIDES: Final = frozenset(
    {
        SubmissionPlaced,
        SubmissionQueued,
        SubmissionSettled,
        RunEnded,
        WorkEnded,
        AgentSpawned,
        CompactionStarted,
    }
)


def index_of(events: Iterable[Recorded]) -> IndexRows:
    """The index rows of these events."""
    requests: list[tuple[ActorId, str, Position, str]] = []
    settled: list[tuple[Position, Position]] = []
    entries: list[tuple[ActorId, Position]] = []
    for recorded in events:
        event, position, actor = recorded.event, recorded.position, recorded.actor
        if type(event) in ENTRIES:
            entries.append((actor, position))
        if type(event) not in _INDEXED_BESIDES:
            continue
        match event:
            case SubmissionPlaced():
                if event.mode == "write" and event.submission:
                    settled.append((event.submission, position))
                if event.request_id is not None:
                    kind = "write" if event.mode == "write" else "input"
                    requests.append((actor, event.request_id, position, kind))
            case SubmissionQueued():
                if event.request_id is not None:
                    kind = "write" if event.mode == "write" else "input"
                    requests.append((actor, event.request_id, position, kind))
            case SubmissionSettled():
                settled.append((event.submission, position))
            case RunEnded():
                settled.extend((submission, position) for submission in event.inputs)
            case WorkEnded():
                settled.append((actor, position))
            case AgentSpawned():
                if event.request_id is not None:
                    requests.append((NOBODY, event.request_id, position, "agent"))
            case CompactionStarted():
                if event.request_id is not None:
                    requests.append((actor, event.request_id, event.compaction, "compaction"))
            case _:
                pass
    return IndexRows(requests=requests, settled=settled, entries=entries)

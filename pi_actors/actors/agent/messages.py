"""The words an agent understands, and the facts it records.

Stored events are arrays: fields keep their order for ever and grow only at the end, with defaults.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from pi_actors.actors.compaction.messages import Trigger
from pi_actors.actors.generation.messages import CheckedCall
from pi_actors.core.decider import AbortedAbove, Ended, Event
from pi_actors.core.errors import UnansweredReason
from pi_actors.core.ids import NOBODY, ActorId, EntryId, Position, SubmissionId
from pi_actors.core.lifecycle import AgentSpawned, Choices
from pi_actors.core.messages import (
    Blob,
    CallRef,
    Diagnostic,
    Message,
    Part,
    ResponseInfo,
    Text,
    Usage,
)
from pi_actors.core.text import Json

KIND: Final = "pi.agent"
ItemMode: TypeAlias = Literal["write", "steer", "follow_up"]

# Stored events.


class AgentConfigured(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The agent's choices are now these; the whole set, not a change."""

    choices: Choices


class EntryDraft(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """An entry that waits to be placed. ``head_self``: the active context will start at it."""

    kind: str
    messages: tuple[Message, ...] = ()
    data: Json = None
    head: EntryId | None = None
    head_self: bool = False
    by: ActorId = NOBODY


class SubmissionQueued(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A submission was accepted and waits in the inbox. Its id is this event's position."""

    mode: ItemMode
    entry: EntryDraft
    request_id: str | None = None


class SubmissionPlaced(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """A submission's entry stands in the transcript; a write is thereby done.

    ``submission`` is 0 where it was never queued: then this event admitted it and is its id.
    """

    mode: ItemMode
    entry: EntryId
    submission: SubmissionId = 0
    request_id: str | None = None


class SubmissionSettled(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A queued submission ended without having been placed."""

    submission: SubmissionId
    reason: UnansweredReason
    detail: str | None = None


class EntryAppended(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """An entry stands in the transcript. Its id is this event's position."""

    kind: str
    messages: tuple[Message, ...] = ()
    by: ActorId = NOBODY
    head: EntryId | None = None
    data: Json = None


class ResponseSettled(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A model response, whole or cut, is an entry (pi.assistant) with its usage."""

    by: ActorId
    info: ResponseInfo
    parts: tuple[Part, ...] = ()


class ToolResultSettled(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A call has its one result, as an entry (pi.tool-result).

    ``own``: the tool's execution or its reconciler said so; otherwise the runtime did, and the
    first diagnostic says why.
    """

    call: CallRef
    name: str
    by: ActorId
    own: bool
    content: tuple[Text | Blob, ...] = ()
    is_error: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    details: Json = None
    usage: Usage | None = None
    terminate: bool = False
    add_tools: tuple[str, ...] = ()
    duration_ms: int | None = None


class RunStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The agent is busy. A run's id is this event's position."""

    inputs: tuple[SubmissionId, ...]


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The run is over and settles ``inputs``: with ``answer``, or for ``reason``."""

    run: Position
    inputs: tuple[SubmissionId, ...]
    answer: EntryId | None = None
    reason: UnansweredReason | None = None
    detail: str | None = None


class RunRecovered(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A new process took up the run; the ``attempt``-th time since its last step."""

    run: Position
    attempt: int


class RunGivenUp(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Recovered too often without a step: the run's work is being aborted."""

    run: Position


class RunReleased(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The session was closed in order during the run; taking it up again is no failed attempt."""

    run: Position


class InboxReleased(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A held inbox goes on."""


class CompactionStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A compaction that the agent owns directly has begun: the actor ``compaction``."""

    compaction: ActorId
    trigger: Trigger
    request_id: str | None = None


class CompactionEnded(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A compaction that the agent owned directly is over, one way or another."""

    compaction: ActorId


class CompactionSkipped(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The context, of about ``tokens``, is too large, but a compaction would free too little of it.

    Said once; no compaction is begun at a threshold until one would free enough.
    """

    tokens: int
    freed_tokens: int


AgentEvent: TypeAlias = (
    AgentSpawned
    | AgentConfigured
    | SubmissionQueued
    | SubmissionPlaced
    | SubmissionSettled
    | EntryAppended
    | ResponseSettled
    | ToolResultSettled
    | RunStarted
    | RunEnded
    | RunRecovered
    | RunGivenUp
    | RunReleased
    | InboxReleased
    | CompactionStarted
    | CompactionEnded
    | CompactionSkipped
)

# Commands of callers.


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    """Admit an input. Refused with AgentBusy when busy and ``when_busy`` is "reject"."""

    messages: tuple[Message, ...]
    when_busy: Literal["follow_up", "steer", "reject"] = "follow_up"
    request_id: str | None = None


class SubmitWrite(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Admit an entry that asks no model."""

    entry: EntryDraft
    request_id: str | None = None


class Withdraw(msgspec.Struct, frozen=True, kw_only=True):
    """Take a submission back, unless it was placed."""

    submission: SubmissionId


class Configure(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the agent's choices."""

    choices: Choices


class AbortAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Withdraw queued inputs and mark everything ordinary below; ``background``: the rest as well."""

    background: bool = False


class ReleaseInbox(msgspec.Struct, frozen=True, kw_only=True):
    """Let a held inbox go on."""


class Compact(msgspec.Struct, frozen=True, kw_only=True):
    """Summarise the older part of the context. Answers Spawned."""

    instructions: str | None = None
    request_id: str | None = None


class Submitted(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Answers Submit and SubmitWrite."""

    submission: SubmissionId


class Withdrawal(msgspec.Struct, frozen=True, kw_only=True):
    """Answers Withdraw; None where this agent holds no live submission of that id."""

    status: Literal["withdrawn", "already_placed"] | None


# Commands of the shell.


class PlaceInbox(msgspec.Struct, frozen=True, kw_only=True):
    """Pass the owed boundary. Also the effect that asks the shell for it."""


class RecoverRun(msgspec.Struct, frozen=True, kw_only=True):
    """A process that found the run active is about to start its effects.

    ``last_step_below``: the newest step of anything on ordinary traversal below the run.
    """

    last_step_below: Position = 0


class ReleaseRun(msgspec.Struct, frozen=True, kw_only=True):
    """The session closes in order."""


# Messages of generations and tools.


class OpenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A generation has prepared; ``system`` is the instructions its request needs in context.

    ``compacted``: it comes from waiting for a compaction, so what came meanwhile goes with it.
    ``may_wait``: it may wait for one; not twice in a turn.
    """

    generation: ActorId
    choices: Choices
    system: str | None
    compacted: bool = False
    may_wait: bool = True


class RelieveOverflow(msgspec.Struct, frozen=True, kw_only=True):
    """A generation's request was refused as too large, with ``error``: compact, if that can help."""

    generation: ActorId
    model: str
    error: str


class PlaceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction has its summary, to stand before entry ``keep_from``."""

    compaction: ActorId
    trigger: Trigger
    keep_from: EntryId
    tokens: int
    text: str


class SettleResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A generation's attempt is over, one way or the other. ``calls`` go back to it as they are."""

    generation: ActorId
    info: ResponseInfo
    parts: tuple[Part, ...] = ()
    calls: tuple[CheckedCall, ...] = ()


class SettleCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call's result; a no-op when the call has one."""

    result: ToolResultSettled


AgentCommand: TypeAlias = (
    Submit
    | SubmitWrite
    | Withdraw
    | Configure
    | AbortAgent
    | ReleaseInbox
    | Compact
    | PlaceInbox
    | RecoverRun
    | ReleaseRun
    | OpenRequest
    | RelieveOverflow
    | PlaceSummary
    | SettleResponse
    | SettleCall
    | AbortedAbove
    | Ended
)

TOPICS: Final[dict[str, type[Event]]] = {
    "AgentSpawned": AgentSpawned,
    "AgentConfigured": AgentConfigured,
    "SubmissionQueued": SubmissionQueued,
    "SubmissionPlaced": SubmissionPlaced,
    "SubmissionSettled": SubmissionSettled,
    "EntryAppended": EntryAppended,
    "ResponseSettled": ResponseSettled,
    "ToolResultSettled": ToolResultSettled,
    "RunStarted": RunStarted,
    "RunEnded": RunEnded,
    "RunRecovered": RunRecovered,
    "RunGivenUp": RunGivenUp,
    "RunReleased": RunReleased,
    "InboxReleased": InboxReleased,
    "CompactionStarted": CompactionStarted,
    "CompactionEnded": CompactionEnded,
    "CompactionSkipped": CompactionSkipped,
}


def is_done_at_once(event: Event) -> bool:
    """Whether *event* admits a write that is thereby done: it settles itself, and no index says so."""
    return isinstance(event, SubmissionPlaced) and event.mode == "write" and event.submission == 0


def result_by_runtime(call: CallRef, name: str, by: ActorId, remark: Diagnostic) -> ToolResultSettled:
    """The result of a call whose tool gave none and showed nothing; *remark* says why."""
    return ToolResultSettled(call=call, name=name, by=by, own=False, is_error=True, diagnostics=(remark,))

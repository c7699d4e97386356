"""The words a generation understands, the facts it records and the errands it owes."""

from typing import Final, Literal, TypeAlias

import msgspec

from pi_actors.core.decider import Abort, Drained, Ended, Event, Recover
from pi_actors.core.ids import ActorId, EntryId, Position
from pi_actors.core.lifecycle import Choices
from pi_actors.core.messages import Part, Usage

KIND: Final = "pi.generation"

# Stored events.


class RequestStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The model is about to be asked, with exactly this.

    ``cutoff``: the newest entry included. ``digest`` identifies the offered tools' schemas.
    """

    attempt: int
    turn: int
    cutoff: EntryId
    model: str
    thinking: str | None = None
    tools: tuple[str, ...] = ()
    digest: str = ""


class Delta(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Text that a streamed part grew by. ``part`` counts the parts of the response from 0.

    ``name`` and ``wire_id`` come with the first delta of a call; a call's text is its arguments.
    """

    part: int
    type: Literal["text", "thinking", "call"]
    text: str = ""
    name: str = ""
    wire_id: str = ""


class PartialStreamed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Part of an unfinished response arrived."""

    deltas: tuple[Delta, ...]


class RequestRepeated(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The same pinned request is sent again after a crash; what had streamed is an aborted entry."""


class RetryScheduled(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The attempt failed; the next is due at ``due_us`` (UTC, microseconds)."""

    attempt: int
    due_us: int
    error: str


class CallSpec(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A call to run: its place in the response and its tool."""

    index: int
    name: str


class ToolRoundStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The response ``entry`` has calls to run: all at once, or one after another."""

    entry: EntryId
    calls: tuple[CallSpec, ...]
    sequential: bool = False


class ToolRoundAdvanced(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A sequential round goes on with call number ``next`` of the round."""

    next: int


class CompactionAwaited(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The context is being compacted, by the actor ``compaction``, before the model is asked.

    ``overflow``: what the provider said when it refused the request as too large; None where the
    request was never sent.
    """

    compaction: ActorId
    overflow: str | None = None


class CompactionReturned(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The compaction is over, whatever its outcome: the request is prepared anew."""


GenerationEvent: TypeAlias = (
    RequestStarted
    | PartialStreamed
    | RequestRepeated
    | RetryScheduled
    | ToolRoundStarted
    | ToolRoundAdvanced
    | CompactionAwaited
    | CompactionReturned
)

# Messages of the agent.


class Prepare(msgspec.Struct, frozen=True, kw_only=True):
    """Prepare a request with these choices, at once where nothing must be awaited for it."""

    choices: Choices


class RequestOpened(msgspec.Struct, frozen=True, kw_only=True):
    """The transcript is ready up to ``cutoff``; ``choices`` are those it was prepared with."""

    cutoff: EntryId
    turn: int
    choices: Choices


class CheckedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A received call; ``problem`` says why its arguments cannot be used, None that they can."""

    index: int
    name: str
    problem: str | None = None


class ResponsePlaced(msgspec.Struct, frozen=True, kw_only=True):
    """The response stands in the transcript as ``entry``."""

    entry: EntryId
    calls: tuple[CheckedCall, ...]
    cut: bool


class AwaitCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """The context is compacted first, by an actor that the generation now owns."""

    compaction: ActorId
    overflow: str | None = None


class NothingToCompact(msgspec.Struct, frozen=True, kw_only=True):
    """The context that a provider refused as too large cannot be made smaller."""

    overflow: str


class ScheduleRetry(msgspec.Struct, frozen=True, kw_only=True):
    """From the generation to itself, so that the failed attempt stands in the log before this."""

    retry: RetryScheduled


# Reports of the shell.


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An errand has computed the instructions for these choices."""

    choices: Choices
    instructions: str | None


class StreamPartial(msgspec.Struct, frozen=True, kw_only=True):
    """More of the response has arrived."""

    deltas: tuple[Delta, ...]


class ReceiveResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The model has answered. ``stop`` is None where the stream ended without its finish marker."""

    parts: tuple[Part, ...]
    stop: Literal["stop", "calls", "length"] | None
    calls: tuple[CheckedCall, ...] = ()
    provider: str | None = None
    provider_model: str | None = None
    usage: Usage | None = None


class FailAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The request failed; ``parts`` is what had arrived."""

    kind: Literal["retryable", "overflow", "fatal"]
    error: str
    retry_after_ms: int | None = None
    parts: tuple[Part, ...] = ()
    usage: Usage | None = None
    provider: str | None = None
    provider_model: str | None = None


GenerationCommand: TypeAlias = (
    Prepare
    | RequestOpened
    | ResponsePlaced
    | AwaitCompaction
    | NothingToCompact
    | ScheduleRetry
    | Prepared
    | StreamPartial
    | ReceiveResponse
    | FailAttempt
    | Ended
    | Drained
    | Abort
    | Recover
)

# Effects.


class PrepareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Compute the instructions for the agent's choices and report Prepared.

    ``compacted``: once more, after a compaction.
    """

    compacted: bool = False


class CallModel(msgspec.Struct, frozen=True, kw_only=True):
    """Send the request stored at ``request``; ``repeated`` counts its resendings."""

    request: Position
    repeated: int


class WakeAt(msgspec.Struct, frozen=True, kw_only=True):
    """At the first look at or after ``due_us`` (UTC, microseconds) do as PrepareRequest."""

    due_us: int


GenerationEffect: TypeAlias = PrepareRequest | CallModel | WakeAt

TOPICS: Final[dict[str, type[Event]]] = {
    "RequestStarted": RequestStarted,
    "PartialStreamed": PartialStreamed,
    "RequestRepeated": RequestRepeated,
    "RetryScheduled": RetryScheduled,
    "ToolRoundStarted": ToolRoundStarted,
    "ToolRoundAdvanced": ToolRoundAdvanced,
    "CompactionAwaited": CompactionAwaited,
    "CompactionReturned": CompactionReturned,
}

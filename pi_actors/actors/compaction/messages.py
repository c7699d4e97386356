"""The words a compaction understands, the facts it records and the errands it owes."""

from typing import Final, Literal, TypeAlias

import msgspec

from pi_actors.core.decider import Abort, Drained, Ended, Event, Recover
from pi_actors.core.ids import EntryId, Position
from pi_actors.core.messages import Usage

KIND: Final = "pi.compaction"

Trigger: TypeAlias = Literal["manual", "background", "blocking", "overflow"]
"""Who wants it. manual: a caller. background: beside a request that still fits. blocking: before a
request that would not leave its reserve. overflow: a provider has refused the request as too large.
"""


class CompactionInput(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a compaction is born with.

    ``entries``: what is summarised, in the context's order, an earlier summary first; empty where
    there is nothing to summarise. ``keep_from``: the first entry that stays as it is. ``model``: the
    agent's own, None where it has none. ``tokens``: the size of the context it was begun for.
    ``summary_tokens_max``: a longer summary is cut. ``instructions``: what a caller wants of it.
    """

    trigger: Trigger
    entries: tuple[EntryId, ...] = ()
    keep_from: EntryId = 0
    model: str | None = None
    tokens: int = 0
    summary_tokens_max: int = 0
    instructions: str | None = None


# Stored events.


class SummaryStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The model is about to be asked for the first part, with exactly this.

    A second one begins anew with smaller parts, where a part was refused as too large.

    ``input_tokens_max``: how much one request may carry, None where the model's window is unknown;
    more is summarised part by part, each with the summary so far.
    """

    model: str
    input_tokens_max: int | None = None


class SummarySettled(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The model has summarised part number ``part`` (from 0), together with what came before it.

    ``text`` is empty with the last part, whose summary becomes the entry.
    """

    part: int
    last: bool
    model: str
    text: str = ""
    provider: str | None = None
    provider_model: str | None = None
    usage: Usage | None = None


class SummaryFailed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A request for the summary failed; the same is sent again at ``due_us`` (UTC, microseconds).

    Where ``due_us`` is None it is not sent again.
    """

    attempt: int
    error: str
    model: str
    due_us: int | None = None
    usage: Usage | None = None


class SummaryRepeated(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The same request is about to be sent again, as attempt number ``attempt``."""

    attempt: int


CompactionEvent: TypeAlias = SummaryStarted | SummarySettled | SummaryFailed | SummaryRepeated

# Messages of the agent.


class BeginSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the summary, if there is anything to summarise and a model to do it."""


class SummaryPlaced(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the summary.

    queued: it is placed at the next boundary. stale: its cut has left the active transcript.
    """

    status: Literal["placed", "queued", "stale"]


# Reports of the shell.


class ReceiveSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The model has answered for part ``part``; ``calls``: it called a tool, which it must not."""

    part: int
    last: bool
    text: str
    stop: Literal["stop", "calls", "length"] | None
    calls: bool = False
    provider: str | None = None
    provider_model: str | None = None
    usage: Usage | None = None


class FailSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The request failed. ``sent_tokens``: about how much it carried."""

    kind: Literal["retryable", "overflow", "fatal"]
    error: str
    sent_tokens: int = 0
    retry_after_ms: int | None = None
    usage: Usage | None = None


class RepeatSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The deadline of a retry has come."""


CompactionCommand: TypeAlias = (
    BeginSummary
    | SummaryPlaced
    | ReceiveSummary
    | FailSummary
    | RepeatSummary
    | Ended
    | Drained
    | Abort
    | Recover
)

# Effects.


class Summarise(msgspec.Struct, frozen=True, kw_only=True):
    """Send the request that the event at ``request`` made due."""

    request: Position


class RepeatAt(msgspec.Struct, frozen=True, kw_only=True):
    """At the first look at or after ``due_us`` (UTC, microseconds) report RepeatSummary."""

    due_us: int


CompactionEffect: TypeAlias = Summarise | RepeatAt

TOPICS: Final[dict[str, type[Event]]] = {
    "SummaryStarted": SummaryStarted,
    "SummarySettled": SummarySettled,
    "SummaryFailed": SummaryFailed,
    "SummaryRepeated": SummaryRepeated,
}

"""The words a tool call understands, the facts it records and the errands it owes."""

from typing import Final, TypeAlias

import msgspec

from pi_actors.core.catalog import ReplayPolicy
from pi_actors.core.decider import Abort, Drained, Ended, Event, Recover
from pi_actors.core.ids import EntryId
from pi_actors.core.messages import Blob, Diagnostic, Text, Usage
from pi_actors.core.text import Json

KIND: Final = "pi.tool"


class ToolInput(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a tool actor is born with: which call of which entry, of which tool."""

    entry: EntryId
    index: int
    name: str


# Stored events.


class ToolStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Execution may begin from here on: after a crash the effect is unknown.

    ``arguments``: JSON as really executed, None where it is the call's own text. ``max_bytes``,
    ``max_lines`` and ``keep_head`` bound the output window. A second one is a rerun.
    """

    replay: ReplayPolicy
    arguments: str | None = None
    max_bytes: int = 50 * 1024
    max_lines: int = 2_000
    keep_head: bool = False


class ToolOutputStreamed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The running tool wrote ``text``, after ``skipped_bytes`` that no longer fit its window."""

    text: str
    skipped_bytes: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


class ToolDetailsReported(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The running tool replaced its details for people."""

    details: Json


class ToolReconcileStarted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The tool's reconciler is being asked what became of the call."""


ToolEvent: TypeAlias = ToolStarted | ToolOutputStreamed | ToolDetailsReported | ToolReconcileStarted

# Messages of the generation.


class BeginCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call may run. ``problem``: its arguments cannot be used, and why."""

    problem: str | None = None


# Reports of the shell.


class StartTool(msgspec.Struct, frozen=True, kw_only=True):
    """The slot is held and the arguments fit: execution is about to begin.

    ``arguments``: JSON as it will be executed, None where it is the call's own text.
    """

    arguments: str | None = None


class RejectCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call cannot be run; ``diagnostic`` says why and its text is the result."""

    diagnostic: Diagnostic


class StreamOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The running tool wrote something."""

    text: str
    skipped_bytes: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()


class ReportDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The running tool has new details."""

    details: Json


class SettleTool(msgspec.Struct, frozen=True, kw_only=True):
    """Execution (or the reconciler) is over. ``threw``: by an exception, not a result."""

    content: tuple[Text | Blob, ...] = ()
    is_error: bool = False
    threw: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    details: Json = None
    usage: Usage | None = None
    terminate: bool = False
    add_tools: tuple[str, ...] = ()
    duration_ms: int | None = None


class LeaveUnknown(msgspec.Struct, frozen=True, kw_only=True):
    """The reconciler could not tell what happened."""

    detail: str | None = None


ToolCommand: TypeAlias = (
    BeginCall
    | StartTool
    | RejectCall
    | StreamOutput
    | ReportDetails
    | SettleTool
    | LeaveUnknown
    | Ended
    | Drained
    | Abort
    | Recover
)

# Effects.


class RunTool(msgspec.Struct, frozen=True, kw_only=True):
    """Hold a slot, check the arguments, report StartTool where that has not happened, execute, report."""

    call: ToolInput


class ReconcileTool(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the tool's reconciler what became of the call and report what it says."""

    call: ToolInput


ToolEffect: TypeAlias = RunTool | ReconcileTool

TOPICS: Final[dict[str, type[Event]]] = {
    "ToolStarted": ToolStarted,
    "ToolOutputStreamed": ToolOutputStreamed,
    "ToolDetailsReported": ToolDetailsReported,
    "ToolReconcileStarted": ToolReconcileStarted,
}

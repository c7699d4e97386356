"""What a person sees of a session's commits: answers and tool output as they stream, results, faults.

It shows acknowledged events and nothing else, so what was seen can never turn out not to have been.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from pi_actors.actors.agent.messages import (
    EntryAppended,
    ResponseSettled,
    RunEnded,
    RunGivenUp,
    RunRecovered,
    SubmissionQueued,
    SubmissionSettled,
    ToolResultSettled,
)
from pi_actors.actors.compaction.messages import CompactionInput
from pi_actors.actors.generation.messages import (
    Delta,
    PartialStreamed,
    RequestRepeated,
    RequestStarted,
    RetryScheduled,
)
from pi_actors.actors.tool.messages import KIND as TOOL_KIND
from pi_actors.actors.tool.messages import ToolInput, ToolOutputStreamed, ToolReconcileStarted, ToolStarted
from pi_actors.cli.paper import FAULT, GOOD, QUIET, USER, WARNING, Paper
from pi_actors.cli.summaries import Summaries
from pi_actors.cli.wording import call_words, shortened
from pi_actors.core.ids import ActorId, EntryId
from pi_actors.core.lifecycle import AbortMarked, WorkEnded, WorkSpawned
from pi_actors.core.messages import Blob, Call, Entry, Message, Text, Thinking, calls_of
from pi_actors.core.record import Commit, Recorded

RESULT_LINES: Final = 6
"""How much of a result is shown that did not stream."""

CallKey: TypeAlias = tuple[EntryId, int]


class Screen:
    """Shows commits on *paper*. Keeps only what it needs to name what is running."""

    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self._calls: dict[CallKey, Call] = {}
        self._tools: dict[ActorId, ToolInput] = {}
        self._shown: dict[ActorId, dict[int, str]] = {}
        self._output: dict[ActorId, str] = {}
        self._summaries = Summaries(paper)

    def learn(self, agent: ActorId, entries: Sequence[Entry], tools: Mapping[ActorId, ToolInput]) -> None:
        """Know *agent*'s *entries* and the running *tools*, which began before the first commit."""
        for entry in entries:
            for message in entry.messages:
                self._remember_calls(entry.id, calls_of(message))
        self._tools.update(tools)
        self._summaries.learn(agent, [entry.id for entry in entries if entry.head is None])

    def recall(self, entries: Sequence[Entry]) -> None:
        """Show what was said before."""
        for entry in entries:
            if entry.kind == "pi.compaction":
                self._summaries.recall(entry)
                continue
            for message in entry.messages:
                if message.role == "user":
                    self._show_user((message,))
                elif message.role == "assistant" and entry.text:
                    self._paper.line(entry.text)

    def go_on(self, compactions: Mapping[ActorId, CompactionInput]) -> None:
        """Show the *compactions* that go on, as they began before the first commit."""
        self._summaries.go_on(compactions)

    def show(self, commit: Commit) -> None:
        """Show one commit."""
        for recorded in commit:
            if not self._summaries.show(recorded):
                self._show(recorded)

    def _show(self, recorded: Recorded) -> None:
        match recorded.event:
            case PartialStreamed() as event:
                self._show_deltas(recorded.actor, event.deltas)
            case ToolOutputStreamed() as event:
                self._show_output(recorded.actor, event)
            case ResponseSettled() as event:
                self._show_response(recorded, event)
            case ToolResultSettled() as event:
                self._show_result(event)
            case WorkSpawned(kind=kind, input=born) if kind == TOOL_KIND:
                self._tools[recorded.actor] = msgspec.msgpack.decode(born, type=ToolInput)
            case ToolStarted():
                self._paper.line(f"▸ {self._call_words(recorded.actor)}", "cyan")
            case EntryAppended(kind="pi.user") as event:
                self._show_user(event.messages)
            case WorkEnded():
                self._forget(recorded.actor)
            case _:
                self._show_notice(recorded)

    def _show_notice(self, recorded: Recorded) -> None:
        """What is told in a line of its own."""
        match recorded.event:
            case RequestStarted(model=model, attempt=attempt):
                again = f", attempt {attempt}" if attempt > 1 else ""
                self._paper.line(f"· {model} is asked{again}", QUIET)
            case RequestRepeated():
                self._paper.line("· the process stopped during the response; it is asked for again", WARNING)
            case RetryScheduled() as event:
                seconds = max(0.0, (event.due_us - recorded.at_us) / 1_000_000)
                self._paper.line(f"· attempt {event.attempt} in {seconds:.1f} s", WARNING)
            case ToolReconcileStarted():
                self._paper.line(f"· what became of {self._call_words(recorded.actor)}?", WARNING)
            case RunRecovered(attempt=attempt):
                self._paper.line(f"· a run was found unfinished and is taken up, attempt {attempt}", WARNING)
            case RunGivenUp():
                self._paper.line("· recovered too often without a step; the run is given up", FAULT)
            case SubmissionQueued(mode=mode, entry=entry):
                said = " ".join(part.text for message in entry.messages for part in _texts(message))
                self._paper.line(f"· queued ({mode.replace('_', ' ')}): {shortened(said)}", QUIET)
            case SubmissionSettled(reason=reason):
                self._paper.line(f"· a queued input was withdrawn ({reason})", WARNING)
            case AbortMarked() if recorded.actor in self._tools:
                self._paper.line(f"· stopping {self._call_words(recorded.actor)}", WARNING)
            case RunEnded(answer=None, reason=reason, detail=detail):
                words = f": {shortened(detail)}" if detail else ""
                self._paper.line(f"✗ unanswered ({reason}){words}", FAULT)
            case _:
                pass

    # What the model says.

    def _show_deltas(self, generation: ActorId, deltas: Sequence[Delta]) -> None:
        shown = self._shown.setdefault(generation, {})
        for delta in deltas:
            if delta.type == "call":
                continue
            if delta.part not in shown:
                self._paper.end_line()
            shown[delta.part] = shown.get(delta.part, "") + delta.text
            self._paper.piece(delta.text, QUIET if delta.type == "thinking" else "")

    def _show_response(self, recorded: Recorded, event: ResponseSettled) -> None:
        """Whatever of the response has not streamed, and how it ended."""
        shown = self._shown.pop(event.by, {})
        calls = [part for part in event.parts if isinstance(part, Call)]
        self._remember_calls(recorded.position, calls)
        for number, part in enumerate(event.parts):
            if isinstance(part, Text | Thinking):
                self._show_rest(part, shown.get(number, ""))
        self._paper.end_line()
        match event.info.stop:
            case "error":
                self._paper.line(f"✗ {event.info.model}: {shortened(event.info.error or '')}", FAULT)
            case "aborted":
                self._paper.line("✗ the response was cut off here", WARNING)
            case "length":
                self._paper.line("✗ the response reached its length limit", WARNING)
            case "answer" | "calls":
                pass

    def _show_rest(self, part: Text | Thinking, shown: str) -> None:
        style = QUIET if isinstance(part, Thinking) else ""
        if not shown or not part.text.startswith(shown):
            self._paper.end_line()
            shown = ""
        self._paper.piece(part.text[len(shown) :], style)

    def _show_user(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for part in message.parts:
                match part:
                    case Text():
                        self._paper.line(f"> {part.text}", USER)
                    case Blob():
                        self._paper.line(f"> [{part.media_type}, {len(part.data)} bytes]", USER)
                    case _:
                        pass

    # What tools do.

    def _show_output(self, tool: ActorId, event: ToolOutputStreamed) -> None:
        if event.skipped_bytes:
            self._paper.line(f"  │ … {event.skipped_bytes} bytes left out …", QUIET)
        *lines, rest = (self._output.get(tool, "") + event.text).split("\n")
        for line in lines:
            self._paper.line(f"  │ {line}", QUIET)
        self._output[tool] = rest
        for remark in event.diagnostics:
            self._paper.line(f"  · {remark.text}", QUIET)

    def _show_result(self, event: ToolResultSettled) -> None:
        rest = self._output.pop(event.by, None)
        if rest:
            self._paper.line(f"  │ {rest}", QUIET)
        elif rest is None:
            self._show_content(event)
        if rest is not None:
            self._show_closing(event)
        for remark in event.diagnostics:
            self._paper.line(f"  · {remark.code}: {remark.text}", WARNING)
        took = "" if event.duration_ms is None else f" ({event.duration_ms} ms)"
        mark, style = ("✗", FAULT) if event.is_error else ("✓", GOOD)
        self._paper.line(f"{mark} {event.name}{took}", style)

    def _show_closing(self, event: ToolResultSettled) -> None:
        """The tool's own remark behind output that has streamed, such as its exit status."""
        text = "".join(part.text for part in event.content if isinstance(part, Text))
        last = text.rstrip("\n").split("\n")[-1]
        if last.startswith("[") and last.endswith("]"):
            self._paper.line(f"  │ {last}", QUIET)

    def _show_content(self, event: ToolResultSettled) -> None:
        for part in event.content:
            if isinstance(part, Blob):
                self._paper.line(f"  │ [{part.media_type}, {len(part.data)} bytes]", QUIET)
                continue
            lines = part.text.rstrip("\n").split("\n")
            for line in lines[:RESULT_LINES]:
                self._paper.line(f"  │ {shortened(line) if len(line) > 200 else line}", QUIET)
            if len(lines) > RESULT_LINES:
                self._paper.line(f"  │ … {len(lines) - RESULT_LINES} more lines", QUIET)

    def _call_words(self, tool: ActorId) -> str:
        born = self._tools.get(tool)
        if born is None:
            return f"call {tool}"
        call = self._calls.get((born.entry, born.index))
        return born.name if call is None else call_words(call.name, call.arguments)

    def _remember_calls(self, entry: EntryId, calls: Sequence[Call]) -> None:
        self._calls.update({(entry, call.index): call for call in calls})

    def _forget(self, actor: ActorId) -> None:
        born = self._tools.pop(actor, None)
        self._output.pop(actor, None)
        self._shown.pop(actor, None)
        if born is not None:
            self._calls.pop((born.entry, born.index), None)


def _texts(message: Message) -> list[Text]:
    return [part for part in message.parts if isinstance(part, Text)]

"""Stored events in plain words, one line each: for ``log``, the demo and whoever reads along."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from pi_actors.actors.agent.entries import fork_of
from pi_actors.actors.agent.messages import (
    AgentConfigured,
    EntryAppended,
    EntryDraft,
    InboxReleased,
    ResponseSettled,
    RunEnded,
    RunGivenUp,
    RunRecovered,
    RunReleased,
    RunStarted,
    SubmissionPlaced,
    SubmissionQueued,
    SubmissionSettled,
    ToolResultSettled,
)
from pi_actors.actors.compaction.messages import KIND as COMPACTION_KIND
from pi_actors.actors.custom.messages import WorkAdvanced, WorkResumed
from pi_actors.actors.generation.messages import (
    PartialStreamed,
    RequestRepeated,
    RequestStarted,
    RetryScheduled,
    ToolRoundAdvanced,
    ToolRoundStarted,
)
from pi_actors.actors.tool.messages import KIND as TOOL_KIND
from pi_actors.actors.tool.messages import (
    ToolDetailsReported,
    ToolInput,
    ToolOutputStreamed,
    ToolReconcileStarted,
    ToolStarted,
)
from pi_actors.cli.wording_compactions import WORDS as WORDS_OF_COMPACTIONS
from pi_actors.cli.wording_compactions import compaction_words, placed_words
from pi_actors.core.decider import Event
from pi_actors.core.instants import instant as instant_of
from pi_actors.core.lifecycle import (
    AbortMarked,
    AgentSpawned,
    Choices,
    MemoWritten,
    Outcome,
    OutcomeHeld,
    WaitStarted,
    WorkEnded,
    WorkSpawned,
)
from pi_actors.core.messages import Blob, Call, Message, Part, Result, Text, Thinking
from pi_actors.core.record import Recorded, UnknownEvent
from pi_actors.core.window import clean_output
from projections.fold import in_calendar, iso

QUOTED_MAX: Final = 200
"""Characters of a quoted text that are shown."""


def line_of(recorded: Recorded) -> str:
    """*recorded* as one line: position, time (UTC), actor, cause, topic, what it says."""
    cause = f"<{recorded.cause}" if recorded.cause else "-"
    return (
        f"{recorded.position:>5}  {time_of(recorded)}  {recorded.actor:>4}  {cause:>5}  "
        f"{recorded.topic:<19}  {words_of(recorded.event)}"
    ).rstrip()


def time_of(recorded: Recorded) -> str:
    """When *recorded* was stored: ISO, UTC, to the millisecond."""
    at = instant_of(in_calendar(recorded.at_us))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def words_of(event: Event) -> str:
    """What *event* says beyond its topic, in one line; empty where there is nothing to add."""
    words = _WORDS.get(type(event))
    return "" if words is None else one_line(words(event))


def one_line(text: str) -> str:
    """*text* without line breaks and control characters."""
    return " ".join(clean_output(text).split())


def shortened(text: str, characters: int = QUOTED_MAX) -> str:
    """*text* in one line of at most *characters*."""
    line = one_line(text)
    return line if len(line) <= characters else line[: characters - 1] + "…"


def call_words(name: str, arguments: str) -> str:
    """A call as people read it: the tool, and what it is to do."""
    try:
        values = msgspec.json.decode(arguments, type=dict[str, object])
    except msgspec.MsgspecError:
        return f"{name} {shortened(arguments)}".rstrip()
    if list(values) in (["command"], ["path"]):
        return f"{name} {shortened(str(*values.values()))}"
    said = ", ".join(f"{key}={_value(value)}" for key, value in values.items())
    return f"{name} {shortened(said)}".rstrip()


def _value(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _agent_spawned(event: AgentSpawned) -> str:
    owner = f"owned by {event.owner}" if event.owner else "that nobody owns"
    fork = fork_of(event)
    origin = "" if fork is None else f", forked from agent {fork.parent} at entry {fork.at}"
    return f"an agent {owner}{origin}{_choices(event.choices)}"


def _configured(event: AgentConfigured) -> str:
    return f"it uses{_choices(event.choices) or ' the defaults'}"


def _choices(choices: Choices) -> str:
    chosen = msgspec.structs.asdict(choices)
    return "".join(f" {name}={shortened(_value(chosen[name]), 80)}" for name in chosen if chosen[name])


def _work_spawned(event: WorkSpawned) -> str:
    owner = f"owned by {event.owner}" if event.owner else f"of agent {event.agent}"
    if event.kind == TOOL_KIND:
        call = msgspec.msgpack.decode(event.input, type=ToolInput)
        return f"{event.kind} {owner}: call {call.index} of entry {call.entry}, {call.name}"
    if event.kind == COMPACTION_KIND:
        return f"{event.kind} {owner}: {compaction_words(event)}"
    return f"{event.kind} {owner}"


def _marked(event: AbortMarked) -> str:
    return "it must stop"


def _held(event: OutcomeHeld) -> str:
    return f"{_outcome(event.outcome)}, once the work below it has ended"


def _wait_started(event: WaitStarted) -> str:
    how = ", or until the first of them fails" if event.fail_fast else ""
    return f"it waits for {', '.join(map(str, event.on))}{how}"


def _memo(event: MemoWritten) -> str:
    return f"{shortened(event.name, 40)} = {shortened(event.value.decode(errors='replace'), 80)}"


def _advanced(event: WorkAdvanced) -> str:
    waits = " and waits" if event.waits else ""
    until = "" if event.due_us is None else f" until {iso(in_calendar(event.due_us))}"
    return f"a step is done{waits}{until}, {len(event.state)} bytes of state"


def _resumed(event: WorkResumed) -> str:
    return f"what it waited for is over: {', '.join(map(_outcome, event.outcomes)) or 'time'}"


def _ended(event: WorkEnded) -> str:
    return _outcome(event.outcome)


def _outcome(outcome: Outcome) -> str:
    reason = f" ({outcome.reason})" if outcome.reason else ""
    detail = f": {shortened(outcome.detail)}" if outcome.detail else ""
    return outcome.status + reason + detail


def _queued(event: SubmissionQueued) -> str:
    return f"{event.mode} {_request(event.request_id)}{_draft(event.entry)}"


def _draft(entry: EntryDraft) -> str:
    return f"{entry.kind} {_messages(entry.messages)}"


def _placed(event: SubmissionPlaced) -> str:
    which = f"submission {event.submission}" if event.submission else "this submission"
    return f"{which} ({event.mode}) {_request(event.request_id)}is entry {event.entry}"


def _request(request_id: str | None) -> str:
    return "" if request_id is None else f"with request id {shortened(request_id, 40)} "


def _settled(event: SubmissionSettled) -> str:
    return f"submission {event.submission} unanswered ({event.reason}){_detail(event.detail)}"


def _detail(detail: str | None) -> str:
    return f": {shortened(detail)}" if detail else ""


def _appended(event: EntryAppended) -> str:
    head = "" if event.head is None else f" (the context starts at {event.head})"
    if event.kind == "pi.compaction":
        return f"{event.kind}: {placed_words(event.data)}{head} {_messages(event.messages)}"
    return f"{event.kind} {_messages(event.messages)}{head}"


def _messages(messages: Sequence[Message]) -> str:
    return _quoted("".join(_parts(message.parts) for message in messages))


def _response(event: ResponseSettled) -> str:
    info = event.info
    if info.error is not None:
        return f"{info.stop}: {shortened(info.error)} {_said(event.parts)}"
    tokens = "" if info.usage is None else f" [{info.usage.input} in, {info.usage.output} out]"
    return f"{info.stop} {_said(event.parts)}{tokens}"


def _said(parts: Sequence[Part]) -> str:
    calls = [call_words(part.name, part.arguments) for part in parts if isinstance(part, Call)]
    text = _parts([part for part in parts if not isinstance(part, Call)])
    return " ".join(filter(None, (_quoted(text), *(f"-> {call}" for call in calls))))


def _parts(parts: Sequence[Part]) -> str:
    said = ""
    for part in parts:
        match part:
            case Text():
                said += part.text
            case Thinking() | Call() | Result():
                pass
            case Blob():
                said += f"[{part.media_type}, {len(part.data)} bytes]"
    return said


def _result(event: ToolResultSettled) -> str:
    who = "" if event.own else " (by the runtime)"
    outcome = "error" if event.is_error else "ok"
    remarks = "".join(f" [{remark.code}: {shortened(remark.text)}]" for remark in event.diagnostics)
    return f"{event.name} {outcome}{who} {_quoted(_parts(event.content))}{remarks}"


def _run_started(event: RunStarted) -> str:
    return f"for submission {', '.join(map(str, event.inputs))}"


def _run_ended(event: RunEnded) -> str:
    if event.answer is not None:
        return f"run {event.run} answered by entry {event.answer}"
    return f"run {event.run} unanswered ({event.reason}){_detail(event.detail)}"


def _recovered(event: RunRecovered) -> str:
    return f"a new process took up run {event.run}, attempt {event.attempt} since its last step"


def _given_up(event: RunGivenUp) -> str:
    return f"run {event.run} was recovered too often without a step"


def _released(event: RunReleased) -> str:
    return f"the session was closed in order during run {event.run}"


def _inbox_released(event: InboxReleased) -> str:
    return "what was held goes on"


def _request_started(event: RequestStarted) -> str:
    return (
        f"{event.model} is asked, turn {event.turn}, attempt {event.attempt}, up to entry {event.cutoff}, "
        f"{len(event.tools)} tools"
    )


def _streamed(event: PartialStreamed) -> str:
    pieces = [f"{delta.name} {delta.text}" if delta.name else delta.text for delta in event.deltas]
    return _quoted("".join(pieces))


def _repeated(event: RequestRepeated) -> str:
    return "the same request is sent again"


def _retry(event: RetryScheduled) -> str:
    return f"attempt {event.attempt} at {iso(in_calendar(event.due_us))}: {shortened(event.error)}"


def _round_started(event: ToolRoundStarted) -> str:
    order = " one after another" if event.sequential and len(event.calls) > 1 else ""
    return f"{', '.join(call.name for call in event.calls)}{order} for entry {event.entry}"


def _round_advanced(event: ToolRoundAdvanced) -> str:
    return f"call {event.next} of the round is next"


def _tool_started(event: ToolStarted) -> str:
    arguments = "" if event.arguments is None else f", with {shortened(event.arguments)}"
    return f"execution may begin; after a crash: {_AFTER_CRASH[event.replay]}{arguments}"


_AFTER_CRASH: Final = {
    "never": "not repeated",
    "safe": "run again",
    "reconcile": "its tool is asked what happened",
}


def _output(event: ToolOutputStreamed) -> str:
    skipped = f" ({event.skipped_bytes} bytes before it left out)" if event.skipped_bytes else ""
    return _quoted(event.text) + skipped


def _details(event: ToolDetailsReported) -> str:
    return shortened(_value(event.details))


def _reconciled(event: ToolReconcileStarted) -> str:
    return "the tool is asked what became of the call"


def _unknown(event: UnknownEvent) -> str:
    which = "only for display" if event.display else "needs a newer pi-actors"
    return f"an event of an unknown topic, {len(event.body)} bytes, {which}"


def _quoted(text: str) -> str:
    return f'"{shortened(text)}"' if text else ""


_WORDS: Final[dict[type[Event], Callable[..., str]]] = {
    AgentSpawned: _agent_spawned,
    AgentConfigured: _configured,
    WorkSpawned: _work_spawned,
    AbortMarked: _marked,
    OutcomeHeld: _held,
    WorkEnded: _ended,
    WaitStarted: _wait_started,
    MemoWritten: _memo,
    WorkAdvanced: _advanced,
    WorkResumed: _resumed,
    SubmissionQueued: _queued,
    SubmissionPlaced: _placed,
    SubmissionSettled: _settled,
    EntryAppended: _appended,
    ResponseSettled: _response,
    ToolResultSettled: _result,
    RunStarted: _run_started,
    RunEnded: _run_ended,
    RunRecovered: _recovered,
    RunGivenUp: _given_up,
    RunReleased: _released,
    InboxReleased: _inbox_released,
    RequestStarted: _request_started,
    PartialStreamed: _streamed,
    RequestRepeated: _repeated,
    RetryScheduled: _retry,
    ToolRoundStarted: _round_started,
    ToolRoundAdvanced: _round_advanced,
    ToolStarted: _tool_started,
    ToolOutputStreamed: _output,
    ToolDetailsReported: _details,
    ToolReconcileStarted: _reconciled,
    UnknownEvent: _unknown,
    **WORDS_OF_COMPACTIONS,
}

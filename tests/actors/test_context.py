"""What a model is sent, whatever the history looks like."""

from datetime import UTC, datetime

from hypothesis import given as for_all
from hypothesis import strategies as st

from pi_actors.actors.agent.context import derive, needed
from pi_actors.actors.agent.decider import KIND as AGENT
from pi_actors.actors.agent.entries import EntryMeta, entry_of
from pi_actors.actors.agent.messages import (
    EntryAppended,
    ResponseSettled,
    RunStarted,
    SubmissionPlaced,
    ToolResultSettled,
)
from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Birth, Event
from pi_actors.core.ids import ROOT
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.messages import (
    Call,
    CallRef,
    Diagnostic,
    Entry,
    Message,
    ResponseInfo,
    Result,
    Text,
    user_message,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


def user(id: int, text: str, head: int | None = None) -> Entry:
    return Entry(id=id, agent=1, kind="pi.user", at=AT, messages=(user_message(text),), head=head)


def system(id: int, text: str) -> Entry:
    message = Message(role="system", parts=(Text(text=text),))
    return Entry(id=id, agent=1, kind="pi.system", at=AT, messages=(message,))


def assistant(id: int, text: str, *calls: int) -> Entry:
    made = tuple(Call(index=index, wire_id=f"{id}-{index}", name="t", arguments="{}") for index in calls)
    message = Message(role="assistant", parts=(Text(text=text), *made))
    data = {"stop": "answer", "model": "m", "provider": "p", "provider_model": "pm"}
    return Entry(id=id, agent=1, kind="pi.assistant", at=AT, messages=(message,), data=data)


def result(id: int, entry: int, index: int, text: str = "r", *remarks: Diagnostic) -> Entry:
    part = Result(call=CallRef(entry=entry, index=index), content=(Text(text=text),), diagnostics=remarks)
    message = Message(role="tool", parts=(part,))
    return Entry(id=id, agent=1, kind="pi.tool-result", at=AT, messages=(message,))


def said(*entries: Entry) -> list[str]:
    """The messages that *entries* make, as "role: texts"."""
    lines: list[str] = []
    for message in derive(entries)[0]:
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        for part in message.parts:
            if isinstance(part, Result):
                texts += [f"{part.call.entry}.{part.call.index}"]
        lines.append(f"{message.role}: {' '.join(texts)}")
    return lines


def test_results_come_directly_after_their_call_in_call_order() -> None:
    entries = user(1, "go"), assistant(2, "a", 0, 1), result(3, 2, 1), user(4, "steer"), result(5, 2, 0)
    assert said(*entries) == ["user: go", "assistant: a", "tool: 2.0 2.1", "user: steer"]


def test_a_missing_result_is_made_up_and_says_so() -> None:
    """B40, X01."""
    messages, _ = derive([user(1, "go"), assistant(2, "a", 0), user(3, "well?")])
    (part,) = messages[2].parts
    assert isinstance(part, Result)
    assert part.is_error
    assert "missing_result" in str(part.content)


def test_a_result_whose_call_is_not_in_range_is_dropped() -> None:
    """B41."""
    assert said(user(1, "go"), result(2, 99, 0)) == ["user: go"]


def test_instructions_that_only_user_messages_precede_move_to_the_front() -> None:
    """B43."""
    entries = user(1, "go"), system(2, "be brief"), assistant(3, "a"), user(4, "on"), system(5, "be loud")
    assert said(*entries) == [
        "system: be brief",
        "user: go",
        "assistant: a",
        "user: on",
        "system: be loud",
    ]


def test_remarks_are_one_trailing_text_block() -> None:
    """D96."""
    remarks = (
        Diagnostic(level="info", code="note", text="one"),
        Diagnostic(level="warn", code="truncated", text="two"),
    )
    messages, _ = derive([assistant(1, "a", 0), result(2, 1, 0, "r", *remarks)])
    (part,) = messages[1].parts
    assert isinstance(part, Result)
    assert part.content == (Text(text="r"), Text(text="[info: one]\n[warn: two]"))


def test_only_assistant_messages_have_an_origin() -> None:
    _, origins = derive([user(1, "go"), assistant(2, "a", 0), result(3, 2, 0)])
    assert origins == (None, ("p", "pm"), None)


def test_failed_and_aborted_answers_are_left_out_and_the_cutoff_is_kept() -> None:
    """B42."""
    metas = [EntryMeta(id=1), EntryMeta(id=2, sent=False), EntryMeta(id=3), EntryMeta(id=4)]
    assert needed(metas, 3) == [1, 3]


def agent_after(*events: Event) -> AgentState:
    """The root agent after *events* at 2, 3, …"""
    state: object = AGENT.initial(Birth(id=ROOT, agent=ROOT, owner=0, event=AgentSpawned()))
    for position, event in enumerate(events, start=2):
        assert isinstance(state, AgentState)
        state = AGENT.evolve(state, position, event)
    assert isinstance(state, AgentState), state
    return state


def active(state: AgentState) -> list[int]:
    return [meta.id for meta in state.entries]


def test_the_context_starts_with_the_newest_head_then_from_its_target_on() -> None:
    """B35, B36: older heads inside the range are left out."""
    written = [EntryAppended(kind="note") for _ in range(3)]
    assert active(agent_after(*written)) == [2, 3, 4]
    assert active(agent_after(*written, EntryAppended(kind="pi.compaction", head=3))) == [5, 3, 4]
    twice = agent_after(
        *written,
        EntryAppended(kind="pi.compaction", head=3),
        EntryAppended(kind="note"),
        EntryAppended(kind="pi.compaction", head=4),
    )
    assert active(twice) == [7, 4, 6]
    assert active(agent_after(*written, EntryAppended(kind="pi.reset", head=5))) == [5]


PARTS = st.sampled_from(["user", "answer", "calls", "error", "result", "head"])


@for_all(st.lists(PARTS, max_size=30), st.integers(0, 60))
def test_any_history_cut_anywhere_is_a_valid_transcript(story: list[str], cutoff: int) -> None:
    """X08, V337: each call has exactly one result, directly after it; no result without its call."""
    events: list[Event] = [SubmissionPlaced(mode="follow_up", entry=3), RunStarted(inputs=(2,))]
    entries: list[Entry] = []
    call = CallRef(entry=0, index=0)
    for what in story:
        position = len(events) + 2
        event = _event(what, position, call)
        if what == "calls":
            call = CallRef(entry=position, index=0)
        events.append(event)
        entry = entry_of(event, position=position, agent=1, at_us=0)
        assert entry is not None
        entries.append(entry)
    chosen = needed(agent_after(*events).entries, cutoff)
    bodies = {entry.id: entry for entry in entries}
    messages, _ = derive([bodies[id] for id in chosen])
    waiting = 0
    for message in messages:
        results = [part for part in message.parts if isinstance(part, Result)]
        calls = [part for part in message.parts if isinstance(part, Call)]
        assert len(results) == waiting
        assert (message.role == "tool") == bool(results)
        waiting = len(calls)
    assert waiting == 0


def _event(what: str, position: int, call: CallRef) -> Event:
    match what:
        case "user":
            return EntryAppended(kind="pi.user", messages=(user_message("x"),))
        case "head":
            return EntryAppended(
                kind="pi.compaction", messages=(user_message("so far"),), head=max(position - 4, 2)
            )
        case "result":
            return ToolResultSettled(call=call, name="t", by=5, own=True)
        case "calls":
            made = tuple(Call(index=i, wire_id=f"{position}.{i}", name="t", arguments="{}") for i in range(2))
            return ResponseSettled(by=5, info=ResponseInfo(stop="calls", model="m"), parts=made)
        case "error":
            return ResponseSettled(
                by=5, info=ResponseInfo(stop="error", model="m"), parts=(Text(text="half"),)
            )
        case _:
            return ResponseSettled(
                by=5, info=ResponseInfo(stop="answer", model="m"), parts=(Text(text="yes"),)
            )

"""Events in plain words: every topic has some, each in one line, whatever a model put into it."""

import msgspec
import pytest

from pi_actors.actors.agent.entries import ForkInput
from pi_actors.actors.agent.messages import (
    CompactionSkipped,
    EntryAppended,
    EntryDraft,
    ResponseSettled,
    RunEnded,
    SubmissionQueued,
    ToolResultSettled,
)
from pi_actors.actors.compaction.messages import CompactionInput
from pi_actors.actors.topics import ALL
from pi_actors.cli.wording import _WORDS, call_words, line_of, shortened, words_of
from pi_actors.core.lifecycle import AgentSpawned, Choices, Outcome, WorkEnded, WorkSpawned
from pi_actors.core.messages import Call, CallRef, Diagnostic, ResponseInfo, Text, user_message
from pi_actors.core.record import Recorded, UnknownEvent


def recorded(event: msgspec.Struct, *, position: int = 7, cause: int = 0, at_us: int = 0) -> Recorded:
    """*event* as the log holds it."""
    return Recorded(
        position=position,
        end=position,
        at_us=at_us,
        actor=1,
        cause=cause,
        topic=type(event).__name__,
        event=event,
    )


def test_every_topic_has_words() -> None:
    """A new event needs an entry in the table of words."""
    assert sorted(topic for topic, event in ALL.items() if event not in _WORDS) == []


def test_a_line_has_position_time_actor_cause_topic_and_words() -> None:
    line = line_of(recorded(RunEnded(run=5, inputs=(3,), answer=33), cause=34, at_us=1_764_468_011_266_999))
    assert line.split(maxsplit=5) == [
        "7",
        "2025-11-30T02:00:11.266Z",
        "1",
        "<34",
        "RunEnded",
        "run 5 answered by entry 33",
    ]


def test_a_caller_is_a_dash_and_a_time_outside_the_calendar_does_no_harm() -> None:
    line = line_of(recorded(RunEnded(run=5, inputs=(3,), reason="aborted"), at_us=-5))
    assert line.split()[1:4] == ["1970-01-01T00:00:00.000Z", "1", "-"]
    assert line.endswith("run 5 unanswered (aborted)")


def test_words_are_one_line_without_control_characters() -> None:
    text = "first\nsecond \x1b[31mred\x07\tlast"
    entry = EntryAppended(kind="pi.user", messages=(user_message(text),))
    assert words_of(entry) == 'pi.user "first second [31mred last"'


def test_long_texts_are_shortened() -> None:
    assert len(words_of(EntryAppended(kind="pi.user", messages=(user_message("x" * 9_000),)))) < 300
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"


def test_a_response_tells_its_text_its_calls_and_its_fault() -> None:
    info = ResponseInfo(stop="calls", model="m")
    call = Call(index=0, wire_id="x", name="bash", arguments='{"command": "make\\ntest"}')
    said = ResponseSettled(by=2, info=info, parts=(Text(text="Now."), call))
    assert words_of(said) == 'calls "Now." -> bash make test'
    failed = ResponseSettled(by=2, info=ResponseInfo(stop="error", model="m", error="overloaded"))
    assert words_of(failed) == "error: overloaded"


def test_a_result_tells_who_gave_it_and_its_remarks() -> None:
    remark = Diagnostic(level="warn", code="interrupted", text="Nobody knows.")
    result = ToolResultSettled(
        call=CallRef(entry=1, index=0), name="edit", by=2, own=False, is_error=True, diagnostics=(remark,)
    )
    assert words_of(result) == "edit error (by the runtime) [interrupted: Nobody knows.]"


def test_queued_inputs_and_outcomes_have_words() -> None:
    entry = EntryDraft(kind="pi.user", messages=(user_message("faster"),))
    queued = SubmissionQueued(mode="steer", entry=entry, request_id="r1")
    assert words_of(queued) == 'steer with request id r1 pi.user "faster"'
    ended = WorkEnded(outcome=Outcome(status="failed", reason="tool_error", detail="no"))
    assert words_of(ended) == "failed (tool_error): no"


def test_compactions_and_summaries_have_words() -> None:
    born = CompactionInput(trigger="blocking", entries=(2, 3), keep_from=4, tokens=9_000)
    spawned = WorkSpawned(kind="pi.compaction", agent=1, owner=6, input=msgspec.msgpack.encode(born))
    assert words_of(spawned) == (
        "pi.compaction owned by 6: blocking, 2 entries of a context of about 9,000 tokens; "
        "from entry 4 on it stays"
    )
    nothing = msgspec.msgpack.encode(CompactionInput(trigger="manual", tokens=20))
    assert words_of(WorkSpawned(kind="pi.compaction", agent=1, input=nothing)) == (
        "pi.compaction of agent 1: manual, 0 entries of a context of about 20 tokens"
    )
    said, data = (user_message("Much was said."),), {"trigger": "blocking", "tokens_before": 9_000}
    assert words_of(EntryAppended(kind="pi.compaction", messages=said, head=4, data=data)) == (
        "pi.compaction: context summarised: about 9,000 tokens before (the context starts at 4) "
        '"Much was said."'
    )
    skipped = CompactionSkipped(tokens=9_000, freed_tokens=10)
    assert words_of(skipped) == "the context has about 9,000 tokens, and only 10 could be freed"


def test_a_forks_birth_says_where_it_goes_on_from() -> None:
    born = msgspec.msgpack.encode(ForkInput(parent=3, at=8, context=()))
    assert words_of(AgentSpawned(choices=Choices(model="m"), input=born)) == (
        'an agent that nobody owns, forked from agent 3 at entry 8 model="m"'
    )


def test_an_event_of_a_newer_version_is_shown_as_what_it_is() -> None:
    event = UnknownEvent(topic="New.2", display=True, body=b"123")
    assert words_of(event) == "an event of an unknown topic, 3 bytes, only for display"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"command": "ls -l"}', "t ls -l"),
        ('{"path": "a.txt"}', "t a.txt"),
        ('{"path": "a.txt", "limit": 3}', 't path="a.txt", limit=3'),
        ("{}", "t"),
        ("[1]", "t [1]"),
        ("{bad", "t {bad"),
    ],
)
def test_a_call_reads_as_what_it_does(arguments: str, words: str) -> None:
    assert call_words("t", arguments) == words

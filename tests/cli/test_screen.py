"""What a person sees of commits: each text once and whole, in order, whatever had streamed before."""

from collections.abc import Sequence

import msgspec

from pi_actors.actors.agent.messages import (
    EntryAppended,
    ResponseSettled,
    RunEnded,
    RunRecovered,
    ToolResultSettled,
)
from pi_actors.actors.generation.messages import Delta, PartialStreamed, RequestRepeated, RetryScheduled
from pi_actors.actors.tool.messages import ToolInput, ToolOutputStreamed, ToolStarted
from pi_actors.core.decider import Event
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.messages import Call, CallRef, Diagnostic, ResponseInfo, Text, Thinking, user_message
from tests.cli.seeing import seen

ANSWER = ResponseInfo(stop="answer", model="m")
CALL = Call(index=0, wire_id="x", name="bash", arguments='{"command":"make"}')
ASKED = ResponseSettled(by=2, info=ResponseInfo(stop="calls", model="m"), parts=(CALL,))


def streamed(*deltas: tuple[int, str]) -> PartialStreamed:
    """Text that has arrived, by part."""
    return PartialStreamed(deltas=tuple(Delta(part=part, type="text", text=text) for part, text in deltas))


def born(actor: int, *, entry: int = 5) -> tuple[int, int, Event]:
    """A call of *entry* becomes an actor."""
    input = msgspec.msgpack.encode(ToolInput(entry=entry, index=0, name="bash"))
    return actor, actor, WorkSpawned(kind="pi.tool", agent=1, input=input)


def result(*, by: int, text: str = "", is_error: bool = False, remarks: Sequence[Diagnostic] = ()) -> Event:
    """The result of a call."""
    return ToolResultSettled(
        call=CallRef(entry=5, index=0),
        name="bash",
        by=by,
        own=True,
        content=(Text(text=text),) if text else (),
        is_error=is_error,
        diagnostics=tuple(remarks),
    )


def test_what_has_streamed_is_completed_not_repeated() -> None:
    whole = ResponseSettled(by=2, info=ANSWER, parts=(Text(text="Hello, world."),))
    assert (
        seen((3, 2, streamed((0, "Hel"))), (4, 2, streamed((0, "lo, w"))), (5, 1, whole)) == "Hello, world.\n"
    )
    assert seen((5, 1, whole)) == "Hello, world.\n"


def test_what_was_stored_counts_where_something_else_had_streamed() -> None:
    whole = ResponseSettled(by=2, info=ANSWER, parts=(Text(text="Hello."),))
    assert seen((3, 2, streamed((0, "Good"))), (5, 1, whole)) == "Good\nHello.\n"


def test_thinking_and_text_stand_in_lines_of_their_own() -> None:
    parts = (Thinking(text="Hm."), Text(text="Yes."))
    whole = ResponseSettled(by=2, info=ANSWER, parts=parts)
    thought = PartialStreamed(deltas=(Delta(part=0, type="thinking", text="Hm."),))
    assert seen((3, 2, thought), (4, 2, streamed((1, "Y"))), (5, 1, whole)) == "Hm.\nYes.\n"
    assert seen((5, 1, whole)) == "Hm.\nYes.\n"


def test_the_same_answer_streams_anew_after_a_crash() -> None:
    cut = ResponseSettled(by=2, info=ResponseInfo(stop="aborted", model="m"), parts=(Text(text="Hel"),))
    whole = ResponseSettled(by=2, info=ANSWER, parts=(Text(text="Hello."),))
    text = seen((3, 1, cut), (4, 2, RequestRepeated()), (5, 2, streamed((0, "He"))), (6, 1, whole))
    assert text.startswith("Hel\n✗ the response was cut off here\n· the process stopped")
    assert text.endswith("asked for again\nHello.\n")


def test_output_that_streams_is_shown_by_line_and_the_result_does_not_repeat_it() -> None:
    text = seen(
        (5, 1, ASKED),
        born(7),
        (8, 7, ToolStarted(replay="never")),
        (9, 7, ToolOutputStreamed(text="one\ntw")),
        (10, 7, ToolOutputStreamed(text="o\nthree")),
        (11, 1, result(by=7, text="one\ntwo\nthree\n[Exit status 1.]", is_error=True)),
    )
    assert text == "▸ bash make\n  │ one\n  │ two\n  │ three\n  │ [Exit status 1.]\n✗ bash\n"


def test_a_result_that_did_not_stream_shows_its_beginning() -> None:
    text = seen((5, 1, ASKED), born(7), (8, 1, result(by=7, text="\n".join(map(str, range(50))))))
    assert "  │ 0\n" in text
    assert "  │ … 44 more lines\n✓ bash\n" in text


def test_what_was_left_out_of_an_output_is_told() -> None:
    skipped = ToolOutputStreamed(text="end\n", skipped_bytes=9_000)
    assert seen(born(7), (8, 7, skipped)) == "  │ … 9000 bytes left out …\n  │ end\n"


def test_remarks_on_a_result_are_told() -> None:
    remark = Diagnostic(level="warn", code="interrupted", text="Nobody knows.")
    assert "  · interrupted: Nobody knows.\n✗ bash\n" in seen(
        (8, 1, result(by=7, is_error=True, remarks=[remark]))
    )


def test_retries_recoveries_and_ends_without_an_answer_are_told() -> None:
    text = seen(
        (3, 1, RunRecovered(run=1, attempt=2)),
        (4, 2, RetryScheduled(attempt=2, due_us=1_500_000, error="overloaded")),
        (5, 1, RunEnded(run=1, inputs=(1,), reason="model_error", detail="gone")),
    )
    assert text == (
        "· a run was found unfinished and is taken up, attempt 2\n"
        "· attempt 2 in 1.5 s\n"
        "✗ unanswered (model_error): gone\n"
    )


def test_what_the_user_said_is_shown_where_it_is_placed() -> None:
    entry = EntryAppended(kind="pi.user", messages=(user_message("faster"),))
    instructions = EntryAppended(kind="pi.system", messages=(user_message("be good"),))
    assert seen((3, 1, instructions), (4, 1, entry)) == "> faster\n"

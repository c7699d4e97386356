"""The demo's model: what it says follows from the request alone, and it believes no unreported effect."""

from pi_actors.cli.demo.project import CHANGELOG, WANTED_LINE
from pi_actors.cli.demo.story import TESTS, answer
from pi_actors.core.messages import Call, CallRef, Message, Result, Text, user_message
from pi_actors.models import ModelRequest, Reply

INTERRUPTED = "[warn: The process stopped while this call was running, so its effect is unknown: …]"


def asked(*did: tuple[str, str, bool]) -> Reply:
    """The model's answer after calls of (tool, result, whether it is an error)."""
    messages = [user_message("do it")]
    for name, text, is_error in did:
        wish = Call(index=0, wire_id="x", name=name, arguments="{}")
        result = Result(call=CallRef(entry=1, index=0), content=(Text(text=text),), is_error=is_error)
        messages += [
            Message(role="assistant", parts=(wish,)),
            Message(role="tool", parts=(result,)),
        ]
    return answer(ModelRequest(messages=tuple(messages)))


def wish_of(said: Reply) -> str:
    """The one tool that is called, or nothing."""
    return "".join(call.name for call in said.calls)


def test_it_edits_then_tests_then_reports() -> None:
    assert wish_of(asked()) == "edit"
    tests = asked(("edit", "Replaced.", False))
    assert wish_of(tests) == "bash"
    assert TESTS in tests.calls[0].arguments
    report = asked(("edit", "Replaced.", False), ("bash", "OK", False))
    assert wish_of(report) == ""
    assert "all tests pass" in report.text


def test_it_looks_before_it_touches_a_file_again_whose_state_nobody_knows() -> None:
    assert wish_of(asked(("edit", INTERRUPTED, True))) == "grep"


def test_it_does_not_add_a_line_that_is_there() -> None:
    said = asked(("edit", INTERRUPTED, True), ("grep", f"{CHANGELOG}:5:{WANTED_LINE}", False))
    assert wish_of(said) == "bash"


def test_it_adds_a_line_that_is_not_there_after_all() -> None:
    assert wish_of(asked(("edit", INTERRUPTED, True), ("grep", "No match.", False))) == "edit"


def test_it_reports_what_failed() -> None:
    assert "could not" in asked(("edit", "no such file", True)).text
    assert "did not pass" in asked(("edit", "Replaced.", False), ("bash", "FAILED", True)).text


def test_a_new_input_is_a_new_task() -> None:
    wish = Call(index=0, wire_id="x", name="bash", arguments="{}")
    result = Result(call=CallRef(entry=1, index=0), content=(Text(text="OK"),))
    messages = (
        user_message("do it"),
        Message(role="assistant", parts=(wish,)),
        Message(role="tool", parts=(result,)),
        Message(role="assistant", parts=(Text(text="Done."),)),
        user_message("do it again"),
    )
    assert wish_of(answer(ModelRequest(messages=messages))) == "edit"

"""``chat`` in a real pseudo-terminal: keys are pressed, and the screen is read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commandline import (
    events_of,
    kill,
    let_go,
    pi_actors,
    read_until,
    running,
    says,
    script,
    topics_of,
    waits,
)
from tests.cli.terminal import END_KEY, ENTER, ESCAPE_KEY, INTERRUPT_KEY, Terminal, at_terminal

READY = "Enter sends"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a test works; no command that it has started waits on after it."""
    yield tmp_path
    let_go(tmp_path)


def say(terminal: Terminal, text: str) -> None:
    """Type *text* and send it."""
    terminal.press(text + ENTER)


def test_what_is_said_is_answered_and_ctrl_d_leaves(folder: Path) -> None:
    model = script(folder, "First answer,\nin two lines.", "Second answer.", chunk_ms=30)
    with at_terminal("chat", "--model", model, cwd=folder) as terminal:
        terminal.wait_for(READY)
        say(terminal, "hello")
        terminal.wait_for("> hello\n")
        terminal.wait_for("First answer,\n")
        terminal.wait_for("in two lines.\n")
        say(terminal, "and now?")
        terminal.wait_for("Second answer.\n")
        terminal.press(END_KEY)
        assert terminal.end() == 0
    assert topics_of(events_of("pi-actors.db", cwd=folder)).count("RunEnded") == 2


def test_what_is_typed_while_the_agent_works_steers_it(folder: Path) -> None:
    model = script(folder, says("I start.", waits()), "As you wish.")
    with at_terminal("chat", "--model", model, cwd=folder) as terminal:
        terminal.wait_for(READY)
        say(terminal, "work")
        terminal.wait_for("│ begun")
        say(terminal, "do it another way")
        terminal.wait_for("queued (steer): do it another way\n")
        let_go(folder)
        terminal.wait_for("✓ bash")
        terminal.wait_for("> do it another way\n")
        terminal.wait_for("As you wish.\n")
        terminal.press(END_KEY)
        assert terminal.end() == 0
    events = events_of("pi-actors.db", cwd=folder)
    (queued,) = [event for event in events if event["topic"] == "SubmissionQueued"]
    assert queued["event"]["mode"] == "steer"
    assert topics_of(events).count("RunEnded") == 1, "it was steered, not asked again"


@pytest.mark.parametrize("key", [ESCAPE_KEY, INTERRUPT_KEY])
def test_a_key_stops_what_the_agent_does_and_the_conversation_goes_on(folder: Path, key: str) -> None:
    model = script(folder, says("I start.", waits()), "Here I am.")
    with at_terminal("chat", "--model", model, cwd=folder) as terminal:
        terminal.wait_for(READY)
        say(terminal, "work")
        terminal.wait_for("│ begun")
        terminal.press(key)
        terminal.wait_for("unanswered (aborted)")
        say(terminal, "and now?")
        terminal.wait_for("Here I am.\n")
        terminal.press(END_KEY)
        assert terminal.end() == 0
    assert not (folder / "go").exists(), "nobody let the command go; it was ended"


def test_stopping_nothing_is_told_and_a_begun_line_is_cleared(folder: Path) -> None:
    with at_terminal("chat", "--model", script(folder, "Hello."), cwd=folder) as terminal:
        terminal.wait_for(READY)
        terminal.press(INTERRUPT_KEY)
        terminal.wait_for("nothing to stop; Ctrl-D leaves")
        terminal.press("rubbish" + INTERRUPT_KEY)
        say(terminal, "/help")
        terminal.wait_for("while the agent works, it steers it")
        say(terminal, "/quit")
        assert terminal.end() == 0
    assert "RunStarted" not in topics_of(events_of("pi-actors.db", cwd=folder))


def test_a_chat_that_is_left_in_the_middle_says_how_to_go_on(folder: Path) -> None:
    model = script(folder, says("I start.", waits()), "Somebody should look.")
    with at_terminal("chat", "--model", model, cwd=folder) as terminal:
        terminal.wait_for(READY)
        say(terminal, "work")
        terminal.wait_for("│ begun")
        terminal.press(END_KEY)
        terminal.wait_for("Go on with: pi-actors resume pi-actors.db")
        assert terminal.end() == 0
    assert "Somebody should look." in pi_actors("resume", "pi-actors.db", cwd=folder).stdout


def test_a_chat_shows_what_was_said_before_and_finishes_what_was_killed(folder: Path) -> None:
    model = script(folder, says("I start.", waits()), "Somebody should look.", "Hello again.")
    with running("run", "work", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        kill(process)
    with at_terminal("chat", "--model", model, cwd=folder) as terminal:
        terminal.wait_for("> work\n")
        terminal.wait_for("I start.\n")
        terminal.wait_for("taken up, attempt 1")
        terminal.wait_for("Somebody should look.\n")
        say(terminal, "hello")
        terminal.wait_for("Hello again.\n")
        terminal.press(END_KEY)
        assert terminal.end() == 0


def test_a_chat_whose_process_is_told_to_end_leaves_the_terminal_in_order(folder: Path) -> None:
    with at_terminal("chat", "--model", script(folder, "Hello."), cwd=folder) as terminal:
        terminal.wait_for(READY)
        terminal.process.terminate()
        assert terminal.end() == 143
        assert "interrupted; nothing stored is lost" in terminal.seen
        assert "Traceback" not in terminal.seen


def test_colours_are_for_terminals_and_not_where_they_are_unwanted(folder: Path) -> None:
    model = script(folder, {"fail": "nope", "retryable": False})
    colour = "\x1b[31m"
    with at_terminal("run", "x", "--model", model, cwd=folder) as terminal:
        assert terminal.end() == 1
        assert colour in terminal.raw
    with at_terminal("run", "x", "--model", model, cwd=folder, NO_COLOR="1") as terminal:
        assert terminal.end() == 1
        assert colour not in terminal.raw


def test_a_chat_needs_a_terminal(folder: Path) -> None:
    done = pi_actors("chat", "--model", script(folder, "Hello."), cwd=folder, input="hello\n")
    assert done.returncode == 2
    assert done.stderr.startswith("pi-actors: chat needs a terminal; use run ")


def test_a_chat_with_a_session_in_use_ends_with_3(folder: Path) -> None:
    model = script(folder, says("", waits()), "Done.")
    with running("run", "x", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        with at_terminal("chat", "--model", model, cwd=folder) as terminal:
            assert terminal.end() == 3
            assert f"in use by process {process.pid} " in " ".join(terminal.seen.split())

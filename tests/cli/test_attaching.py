"""``attach`` in a real terminal, beside real servers and files."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pi_actors.core.text import Json
from tests.cli.commandline import (
    events_of,
    let_go,
    pi_actors,
    read_until,
    running,
    says,
    script,
    topics_of,
    waits,
)
from tests.cli.terminal import END_KEY, ENTER, ESCAPE_KEY, at_terminal
from tests.server.processes import free_port, serving

TAKES_COMMANDS = "Enter sends, and steers while the agent works"
ONLY_WATCHING = "only watching: no commands are taken here"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a test works; no command that it has started waits on after it."""
    yield tmp_path
    let_go(tmp_path)


def test_a_session_on_a_server_is_drawn_steered_and_stopped_from_a_terminal(folder: Path) -> None:
    model = script(folder, says("I start.", waits()), "As you wish.", says("Again.", waits()), chunk_ms=5)
    with serving("work.db", "--model", model, cwd=folder) as server:
        with at_terminal("attach", server.url, cwd=folder) as terminal:
            terminal.wait_for(TAKES_COMMANDS)
            terminal.press("work" + ENTER)
            terminal.wait_for("> work")
            terminal.wait_for("I start.")
            terminal.wait_for("│ begun")
            terminal.wait_for("· pi.tool ")
            terminal.press("do it another way" + ENTER)
            terminal.wait_for("queued (steer): do it another way")
            let_go(folder)
            terminal.wait_for("✓ bash")
            terminal.wait_for("> do it another way")
            terminal.wait_for("As you wish.")
            (folder / "go").unlink()
            terminal.press("once more" + ENTER)
            terminal.wait_for("Again.")
            terminal.wait_for("│ begun")
            terminal.press(ESCAPE_KEY)
            terminal.wait_for("✗ bash")
            terminal.press(END_KEY)
            assert terminal.end() == 0
        assert "Traceback" not in terminal.seen
    topics = topics_of(events_of("work.db", cwd=folder))
    assert topics.count("RunEnded") == 2
    assert "AbortMarked" in topics


def test_a_file_that_another_process_writes_is_watched_live_and_nothing_can_be_said(folder: Path) -> None:
    model = script(folder, says("I start.", waits()), "Done now.", chunk_ms=5)
    with running("run", "work", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        with at_terminal("attach", "pi-actors.db", cwd=folder) as terminal:
            terminal.wait_for("> work")
            terminal.wait_for("│ begun")
            terminal.wait_for(ONLY_WATCHING)
            terminal.press("nobody hears this" + ENTER)
            let_go(folder)
            terminal.wait_for("Done now.")
            terminal.press(END_KEY)
            assert terminal.end() == 0
        assert process.wait() == 0
    assert "nobody hears" not in json.dumps(events_of("pi-actors.db", cwd=folder))


def test_a_server_that_goes_and_comes_back_is_told_and_waited_for(folder: Path) -> None:
    model, port = script(folder, "Hello.", "Hello again."), free_port()
    with (
        serving("work.db", "--model", model, cwd=folder, port=port) as first,
        at_terminal("attach", first.url, cwd=folder) as terminal,
    ):
        terminal.wait_for(TAKES_COMMANDS)
        first.kill()
        terminal.wait_for("the server cannot be reached; trying again")
        with serving("work.db", "--model", model, cwd=folder, port=port) as second:
            ask(second.url, "hi")
            terminal.wait_for("Hello.")
            terminal.press("and now?" + ENTER)
            terminal.wait_for("Hello again.")
            terminal.press(END_KEY)
            assert terminal.end() == 0


def test_what_a_server_refuses_is_told_in_the_terminal(folder: Path) -> None:
    with serving("work.db", cwd=folder, PI_ACTORS_TOKEN="a-secret") as server:
        with at_terminal("attach", server.url, cwd=folder) as terminal:
            assert terminal.end() == 1
            assert "refuses: this server wants a token" in " ".join(terminal.seen.split())
        with at_terminal("attach", server.url, cwd=folder, PI_ACTORS_TOKEN="a-secret") as terminal:
            terminal.wait_for(TAKES_COMMANDS)
            terminal.press(END_KEY)
            assert terminal.end() == 0


def test_the_frames_are_printed_for_programs(folder: Path) -> None:
    with serving("work.db", "--model", script(folder, "Hello."), cwd=folder) as server:
        for where in (server.url, "work.db"):
            with running("attach", where, "--json", cwd=folder) as process:
                first = next_line(process.stdout)
                assert first["type"] == "frame"
                assert first["snapshot"]["agent"]["id"] == 1
                ask(server.url, "hi")
                frame = next_line(process.stdout)
                assert frame["position"] > first["position"]
                assert frame["ops"]


def next_line(lines: Iterator[str] | None) -> Json:
    """The next object that a program prints."""
    assert lines is not None
    return json.loads(next(lines))


def ask(url: str, text: str) -> None:
    """Hand over an input."""
    answer = httpx.post(f"{url}/sessions/main/agents/1/submit", json={"content": text}, trust_env=False)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("arguments", "status", "says_what"),
    [
        (("attach", "work.db"), 2, "attach needs a terminal; --json prints frames without one"),
        (("attach", "nothing.db", "--json"), 2, "there is no store"),
        (("attach", "http://127.0.0.1:1/x", "--json"), 2, "is no address of a server"),
        (("attach", "http://127.0.0.1:1", "--json"), 1, "http://127.0.0.1:1 cannot be reached"),
        (("tree", "http://127.0.0.1:1"), 1, "http://127.0.0.1:1 cannot be reached"),
        (("tree", "nothing.db"), 2, "there is no store"),
        (("replay", "nothing.db"), 2, "there is no store"),
    ],
)
def test_what_cannot_be_watched_is_told_in_a_line(
    folder: Path, arguments: tuple[str, ...], status: int, says_what: str
) -> None:
    done = pi_actors(*arguments, cwd=folder)
    assert done.returncode == status
    (line,) = done.stderr.splitlines()
    assert says_what in line

"""Compaction as people meet it: in ``run``, ``resume``, ``chat``, ``attach`` and ``log``."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cli.commandline import Event, events_of, json_lines, pi_actors, read_until, running, script
from tests.cli.terminal import END_KEY, ENTER, ESCAPE_KEY, at_terminal
from tests.server.processes import serving

WINDOW: Final = 800
LONG: Final = "word " * 180
"""Two of these leave little more room than the reserve."""


def talkative(folder: Path, *turns: object, summaries: Sequence[object] = ("They talked.",)) -> str:
    """A model with a small window that gives long answers first."""
    return script(folder, LONG, LONG, *turns, summaries=summaries, context_window=WINDOW)


def nearly_full(folder: Path, model: str) -> None:
    """A session with two long answers."""
    for task in ("one", "two"):
        assert pi_actors("run", task, "--model", model, cwd=folder).returncode == 0


def of_compactions(events: Sequence[Event]) -> list[Event]:
    """What happened to compactions."""
    born = [
        event["actor"]
        for event in events
        if event["topic"] == "WorkSpawned" and event["event"]["kind"] == "pi.compaction"
    ]
    return [event for event in events if event["actor"] in born]


def test_a_run_says_its_answer_and_finishes_the_summary_that_began_beside_it(tmp_path: Path) -> None:
    model = talkative(tmp_path, "Ok.")
    nearly_full(tmp_path, model)
    done = pi_actors("run", "three", "--model", model, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert f"· the context is summarised, in the background: {model} is asked to sum up 3 entries" in lines
    assert "Ok." in lines
    (placed,) = [line for line in lines if line.startswith("≡ context summarised: about 5")]
    assert placed.endswith(" entries kept")
    assert of_compactions(events_of("pi-actors.db", cwd=tmp_path))[-1]["topic"] == "WorkEnded"
    replayed = pi_actors("replay", "pi-actors.db", cwd=tmp_path).stdout.splitlines()
    assert placed in replayed


def test_an_answer_does_not_wait_for_a_summary_and_what_is_interrupted_goes_on_with_resume(
    tmp_path: Path,
) -> None:
    model = talkative(tmp_path, "Ok.", summaries=[{"stall": "They"}])
    nearly_full(tmp_path, model)
    with running("run", "three", "--json", "--model", model, cwd=tmp_path) as process:
        read_until(process, "RunEnded")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert of_compactions(events_of("pi-actors.db", cwd=tmp_path))[-1]["topic"] == "SummaryStarted"
    talkative(tmp_path, "Ok.")
    lines = pi_actors("resume", "pi-actors.db", cwd=tmp_path).stdout.splitlines()
    assert "· the summary that was being written goes on (in the background)" in lines
    assert any(line.startswith("≡ context summarised: ") for line in lines)
    assert of_compactions(events_of("pi-actors.db", cwd=tmp_path))[-1]["event"]["outcome"]["reason"] is None


def test_a_summary_that_is_to_be_tried_again_later_is_left_to_resume(tmp_path: Path) -> None:
    later = [[{"fail": "overloaded", "retry_after_ms": 500_000}, "They talked."]]
    model = talkative(tmp_path, "Ok.", summaries=later)
    nearly_full(tmp_path, model)
    done = pi_actors("run", "three", "--model", model, cwd=tmp_path)
    assert done.returncode == 0
    assert "· the summary failed: overloaded; attempt 2 in " in done.stdout
    assert "a summary is still to be written; nothing stored is lost. Go on with: pi-actors resume" in (
        done.stderr
    )


def test_a_request_that_is_refused_as_too_large_is_told_with_what_is_done_about_it(tmp_path: Path) -> None:
    model = talkative(tmp_path, [{"overflow": True}, "Ok."], summaries=[{"fail": "no", "retryable": False}])
    nearly_full(tmp_path, model)
    done = pi_actors("run", "three", "--model", model, cwd=tmp_path)
    assert "· the context is summarised, as the request was refused as too large: " in done.stdout
    assert "✗ no summary (model_error: no); the context is as it was\n" in done.stdout


def test_the_log_says_who_wanted_a_compaction_and_what_it_is_about(tmp_path: Path) -> None:
    model = talkative(tmp_path, "Ok.")
    nearly_full(tmp_path, model)
    pi_actors("run", "three", "--model", model, cwd=tmp_path)
    log = pi_actors("log", "pi-actors.db", cwd=tmp_path).stdout
    assert "pi.compaction of agent 1: background, 3 entries of a context of about 5" in log
    assert "pi.compaction: context summarised: about 5" in log
    (born, *_) = of_compactions(json_lines(pi_actors("log", "pi-actors.db", "--json", cwd=tmp_path)))
    assert born["event"]["input"]["trigger"] == "background"


def test_a_person_has_the_context_summarised_and_is_told_how_that_ended(tmp_path: Path) -> None:
    model = talkative(tmp_path)
    nearly_full(tmp_path, model)
    with at_terminal("chat", "--model", model, cwd=tmp_path) as terminal:
        terminal.wait_for("Enter sends")
        terminal.press("/help" + ENTER)
        terminal.wait_for("/compact summarises the older part of the context")
        terminal.press("/compact the words that count" + ENTER)
        terminal.wait_for("· the context is summarised, as asked: ")
        terminal.wait_for("≡ context summarised: about 5")
        terminal.press("/compact" + ENTER)
        terminal.wait_for("· nothing was summarised: the context is too small to leave anything out")
        terminal.press(END_KEY)
        assert terminal.end() == 0
    (born, *_) = of_compactions(events_of("pi-actors.db", cwd=tmp_path))
    assert born["event"]["input"]["instructions"] == "the words that count"


def test_a_person_at_a_server_has_the_context_summarised(tmp_path: Path) -> None:
    model = talkative(tmp_path)
    nearly_full(tmp_path, model)
    with (
        serving("pi-actors.db", "--model", model, cwd=tmp_path) as server,
        at_terminal("attach", server.url, cwd=tmp_path) as terminal,
    ):
        terminal.wait_for("Enter sends")
        terminal.press("/compact the words" + ENTER)
        terminal.wait_for("≡ context summarised: about 5")
        terminal.press("/compact" + ENTER)
        terminal.wait_for("✗ the context is too small to leave anything out")
        terminal.press(END_KEY)
        assert terminal.end() == 0


def test_a_person_at_a_server_stops_a_summary(tmp_path: Path) -> None:
    model = talkative(tmp_path, summaries=[{"stall": "They"}])
    nearly_full(tmp_path, model)
    with (
        serving("pi-actors.db", "--model", model, cwd=tmp_path) as server,
        at_terminal("attach", server.url, cwd=tmp_path) as terminal,
    ):
        terminal.wait_for("Enter sends")
        terminal.press("/compact" + ENTER)
        terminal.wait_for("· the context is summarised, as asked: ")
        terminal.press(ESCAPE_KEY)
        with running("log", "pi-actors.db", "--follow", "--json", cwd=tmp_path) as process:
            ended = of_compactions(read_until(process, "CompactionEnded"))[-1]
        terminal.press(END_KEY)
        assert terminal.end() == 0
    assert ended["event"]["outcome"]["status"] == "aborted"

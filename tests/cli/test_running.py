"""``run`` and ``resume``, as real processes that are killed, interrupted and taken up again."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from pi_actors import ActorKind, Done, Work, open_session
from pi_actors.cli.models import model_of
from tests.cli.commandline import (
    Finished,
    command,
    environment,
    events_of,
    json_lines,
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


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a test works; no command that it has started waits on after it."""
    yield tmp_path
    let_go(tmp_path)


# What is seen.


def test_a_run_shows_what_is_said_and_done_and_ends_with_0(folder: Path) -> None:
    (folder / "a.txt").write_text("hello\n")
    model = script(folder, says("Let me look.", ("read", {"path": "a.txt"})), "It says hello.")
    done = pi_actors("run", "what does a.txt say?", "--model", model, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("·")]
    assert lines[0] == "> what does a.txt say?"
    assert lines[1] == "Let me look."
    assert lines[2] == "▸ read a.txt"
    assert lines[3].startswith("  │")
    assert "hello" in lines[3]
    assert lines[-2].startswith("✓ read (")
    assert lines[-1] == "It says hello."


def test_a_failed_command_is_shown_with_its_output_and_status(folder: Path) -> None:
    model = script(folder, says("", ("bash", {"command": "echo so far; exit 3"})), "It failed.")
    done = pi_actors("run", "try", "--model", model, cwd=folder)
    assert "  │ so far\n  │ [Exit status 3.]\n✗ bash (" in done.stdout
    assert done.returncode == 0


def test_text_that_streams_is_shown_once_and_whole(folder: Path) -> None:
    text = "One sentence that takes a while to be said, in many small pieces.\nAnd a second line."
    model = script(folder, text, chunk_ms=20)
    done = pi_actors("run", "talk", "--model", model, "--keep-progress", cwd=folder)
    assert done.stdout.count(text) == 1
    assert "PartialStreamed" in [event["topic"] for event in events_of("pi-actors.db", cwd=folder)]


def test_an_attempt_that_fails_is_shown_with_its_retry(folder: Path) -> None:
    model = script(folder, [{"fail": "overloaded", "retry_after_ms": 1, "after": "I be"}, "At last."])
    done = pi_actors("run", "talk", "--model", model, cwd=folder)
    assert "I be\n" in done.stdout
    assert "overloaded" in done.stdout
    assert "attempt 2" in done.stdout
    assert "At last." in done.stdout


def test_a_run_without_an_answer_ends_with_1_and_says_why(folder: Path) -> None:
    model = script(folder, {"fail": "no such deployment", "retryable": False})
    done = pi_actors("run", "talk", "--model", model, cwd=folder)
    assert done.returncode == 1
    assert done.stderr == "pi-actors: unanswered (model_error): no such deployment\n"


def test_control_characters_of_a_model_do_not_reach_the_terminal(folder: Path) -> None:
    done = pi_actors("run", "talk", "--model", script(folder, "a\x1b]0;title\x07b"), cwd=folder)
    assert "\x1b" not in done.stdout
    assert "a]0;titleb" in done.stdout


def test_json_is_one_event_a_line_and_the_result_at_the_end(folder: Path) -> None:
    done = pi_actors("run", "talk", "--json", "--model", script(folder, "Hello."), cwd=folder)
    *events, result = json_lines(done)
    assert done.returncode == 0
    assert [event["type"] for event in events] == ["event"] * len(events)
    assert topics_of(events)[-1] == "RunEnded"
    assert result["type"] == "result"
    assert result["status"] == "done"
    assert result["text"] == "Hello."
    assert result["usage"]["responses"] == 1


def test_json_tells_why_there_is_no_answer(folder: Path) -> None:
    model = script(folder, {"fail": "nope", "retryable": False})
    done = pi_actors("run", "talk", "--json", "--model", model, cwd=folder)
    result = json_lines(done)[-1]
    assert done.returncode == 1
    assert (result["status"], result["reason"], result["detail"]) == ("unanswered", "model_error", "nope")


# Options.


def test_the_environment_names_the_store_and_the_model(folder: Path) -> None:
    model, store = script(folder, "Hello."), folder / "mine.db"
    done = pi_actors("run", "x", cwd=folder, PI_ACTORS_MODEL=model, PI_ACTORS_STORE=str(store))
    assert done.returncode == 0
    assert store.exists()
    assert "main" in pi_actors("sessions", cwd=folder, PI_ACTORS_STORE=str(store)).stdout


def test_a_task_may_come_from_standard_input(folder: Path) -> None:
    done = pi_actors("run", "-", "--model", script(folder, "Hello."), cwd=folder, input="do this\n")
    assert "> do this" in done.stdout
    assert done.returncode == 0


def test_a_second_run_goes_on_in_the_same_session(folder: Path) -> None:
    model = script(folder, "First.", "Second.")
    pi_actors("run", "talk", "--model", model, cwd=folder)
    done = pi_actors("run", "talk", "--model", model, cwd=folder)
    assert "Second." in done.stdout
    assert "First." not in done.stdout


def test_sessions_of_one_store_know_nothing_of_each_other(folder: Path) -> None:
    model = script(folder, "First.", "Second.")
    for name in ("one", "two"):
        done = pi_actors("run", "talk", "--session", name, "--model", model, cwd=folder)
        assert "First." in done.stdout


def test_only_the_chosen_tools_are_offered(folder: Path) -> None:
    model = script(folder, says("", ("bash", {"command": "touch made"})), "I could not.")
    done = pi_actors("run", "x", "--tools", "read, grep", "--model", model, cwd=folder)
    assert done.returncode == 0
    assert "tool_unavailable" in done.stdout
    assert not (folder / "made").exists()


def test_tools_work_where_the_session_worked_before(folder: Path) -> None:
    """Also when it is taken up from another directory."""
    (folder / "there").mkdir()
    model = script(folder, "Hello.", says("", ("bash", {"command": "touch made"})), "Made.")
    store = folder / "work.db"
    pi_actors("run", "x", "--cwd", "there", "--store", store, "--model", model, cwd=folder)
    done = pi_actors("run", "y", "--store", store, "--model", model, cwd=folder)
    assert done.returncode == 0
    assert (folder / "there" / "made").exists()


# Killed and taken up.


def test_a_run_that_was_killed_in_a_tool_is_finished_by_resume_and_the_tool_is_not_repeated(
    folder: Path,
) -> None:
    model = script(folder, says("I run it.", waits()), "Somebody should look what it did.")
    with running("run", "x", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolOutputStreamed")
        kill(process)
    done = pi_actors("resume", "pi-actors.db", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "> x\nI run it.\n" in done.stdout, "what was said before is shown again"
    assert "taken up, attempt 1" in done.stdout
    assert "interrupted: " in done.stdout
    assert "Somebody should look what it did." in done.stdout
    assert (folder / "runs").read_text() == "run\n"
    started = [event for event in events_of("pi-actors.db", cwd=folder) if event["topic"] == "ToolStarted"]
    assert len(started) == 1


def test_a_run_that_was_killed_while_the_model_spoke_asks_the_same_model_again(folder: Path) -> None:
    """The request is sent again to the model it was sent to, whatever --model says now (R1)."""
    first = script(folder, {"stall": "It is going to be a long"})
    other = script(folder, "I am another one.", name="other.json")
    with running("run", "x", "--json", "--model", first, cwd=folder) as process:
        read_until(process, "PartialStreamed")
        kill(process)
    script(folder, "Here I am again.")
    done = pi_actors("resume", "pi-actors.db", "--model", other, cwd=folder)
    assert done.returncode == 0
    assert "Here I am again." in done.stdout
    assert "RequestRepeated" in topics_of(events_of("pi-actors.db", cwd=folder))


def test_a_run_that_was_interrupted_says_how_to_go_on_and_can(folder: Path) -> None:
    model = script(folder, says("I run it.", waits()), "Done.")
    with running("run", "x", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        os.kill(process.pid, signal.SIGINT)
        _, complaint = process.communicate()
    assert process.returncode == 130
    assert complaint == (
        "pi-actors: interrupted; nothing stored is lost. Go on with: pi-actors resume pi-actors.db\n"
    )
    assert topics_of(events_of("pi-actors.db", cwd=folder))[-1] == "RunReleased"
    done = pi_actors("resume", "pi-actors.db", cwd=folder)
    assert done.returncode == 0
    assert "Done." in done.stdout


def test_an_input_for_a_session_found_unfinished_is_answered_after_what_it_owes(folder: Path) -> None:
    model = script(folder, says("", waits()), "First done.", "Second done.")
    with running("run", "one", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        kill(process)
    done = pi_actors("run", "two", "--model", model, cwd=folder)
    assert done.returncode == 0
    assert done.stdout.index("First done.") < done.stdout.index("Second done.")


def test_resume_of_a_session_that_owes_nothing_shows_it_and_changes_nothing(folder: Path) -> None:
    pi_actors("run", "talk", "--model", script(folder, "Hello."), cwd=folder)
    before = events_of("pi-actors.db", cwd=folder)
    done = pi_actors("resume", "pi-actors.db", cwd=folder)
    assert done.returncode == 0
    assert "> talk\nHello.\n" in done.stdout
    assert "nothing is owed" in done.stdout
    assert events_of("pi-actors.db", cwd=folder) == before


async def test_resume_tells_of_inputs_that_are_held_and_ends_with_1(folder: Path) -> None:
    """They wait because the next request would fail, too; something new lets them go on."""
    store = folder / "work.db"
    model = script(folder, [{"fail": "no key", "retryable": False}])
    async with open_session(store, model=model_of(model), resume=False) as session:
        for text in ("one", "two"):
            await session.root.submit(text)
    first = await in_thread(pi_actors, "resume", store, "--model", model, cwd=folder)
    assert first.returncode == 1
    assert first.stderr == "pi-actors: unanswered (model_error): no key\n"
    again = await in_thread(pi_actors, "resume", store, cwd=folder)
    assert again.returncode == 1
    assert "1 queued inputs of agent 1 are held (model_error); say something new" in again.stdout
    told = await in_thread(pi_actors, "resume", store, "--json", cwd=folder)
    assert [line["status"] for line in json_lines(told)] == ["waiting"]
    script(folder, "Better.", "Best.")
    done = await in_thread(pi_actors, "run", "three", "--store", store, "--model", model, cwd=folder)
    assert done.returncode == 0
    assert "> two" in done.stdout


async def test_resume_tells_of_actors_whose_code_it_lacks_and_does_not_wait_for_them(folder: Path) -> None:
    store = folder / "work.db"
    kind = ActorKind("shop.order", Order, step=deliver)
    async with open_session(store, actors=[kind], resume=False) as session:
        order = await session.root.spawn(kind, Order(number=3))
    done = await in_thread(pi_actors, "resume", store, cwd=folder)
    assert done.returncode == 1
    assert f"· shop.order {order} cannot go on here: " in done.stdout


class Order(msgspec.Struct, frozen=True):
    """The state of an actor that the command line knows nothing of."""

    number: int


async def deliver(work: Work[Order]) -> Done:
    """Never called: the process that has this code closes before it starts."""
    await trio.lowlevel.checkpoint()
    return Done(work.state.number)


async def in_thread(command: Callable[..., Finished], *arguments: object, cwd: Path) -> Finished:
    """What came of *command* while the event loop goes on."""
    return await trio.to_thread.run_sync(partial(command, *arguments, cwd=cwd))


def test_resume_as_json_ends_with_the_result(folder: Path) -> None:
    model = script(folder, says("", waits()), "Done.")
    with running("run", "x", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        kill(process)
    done = pi_actors("resume", "pi-actors.db", "--json", cwd=folder)
    *events, result = json_lines(done)
    assert topics_of(events)[:2] == ["RunRecovered", "ToolResultSettled"]
    assert (result["status"], result["text"]) == ("done", "Done.")
    idle = json_lines(pi_actors("resume", "pi-actors.db", "--json", cwd=folder))
    assert [line["status"] for line in idle] == ["idle"]


def test_resume_makes_no_store_and_no_session(folder: Path) -> None:
    missing = pi_actors("resume", "nix.db", cwd=folder)
    assert missing.returncode == 2
    assert "there is no store" in missing.stderr
    pi_actors("run", "talk", "--model", script(folder, "Hello."), cwd=folder)
    other = pi_actors("resume", "pi-actors.db", "--session", "other", cwd=folder)
    assert other.returncode == 2
    assert other.stderr == "pi-actors: pi-actors.db has no session 'other'; its sessions are: 'main'\n"
    assert not (folder / "nix.db").exists()


def test_a_model_that_cannot_be_made_any_more_is_told_and_the_run_stays_as_it_is(folder: Path) -> None:
    """A run is not ended for want of a key that may come back."""
    model = script(folder, {"stall": "It is going to be"})
    with running("run", "x", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "RequestStarted")
        kill(process)
    before = events_of("pi-actors.db", cwd=folder)
    (folder / "script.json").unlink()
    for options in ((), ("--model", "demo")):
        done = pi_actors("resume", "pi-actors.db", *options, cwd=folder)
        assert done.returncode == 2
        assert done.stderr == (
            f"pi-actors: model {model!r}: the script {folder / 'script.json'} cannot be read: "
            "No such file or directory\n"
        )
    assert events_of("pi-actors.db", cwd=folder) == before


# The output.


def test_there_are_no_colours_in_a_file(folder: Path) -> None:
    done = pi_actors("run", "talk", "--model", script(folder, "Hello."), cwd=folder)
    assert "\x1b" not in done.stdout


def test_a_reader_that_goes_away_ends_the_command_without_a_word(folder: Path) -> None:
    model = script(folder, says("", ("bash", {"command": "seq 20000"})), "Hello.")
    process = subprocess.Popen(
        command("run", "talk", "--json", "--model", model),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["type"] == "event"
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert complaint == ""

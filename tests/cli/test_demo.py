"""The demo end to end: three processes really die, and the log and the file say what came of it."""

import re
import subprocess
from pathlib import Path

import pytest
import trio

from pi_actors.cli.demo.acts import free_names
from pi_actors.cli.demo.project import CHANGELOG, WANTED_LINE, make_project, times_wanted
from pi_actors.models import call, reply
from tests.cli.commandline import (
    Finished,
    command,
    environment,
    events_of,
    pi_actors,
    says,
    script,
    topics_of,
)
from tests.models.playback import answer_for, open_playback


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo was played once, for all tests to look at."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def played(scratch: Path) -> Finished:
    """The demo, played with no key and no network."""
    return pi_actors("demo", cwd=scratch, TMPDIR=str(scratch), HOME=str(scratch), PI_ACTORS_STORE="other.db")


def store_of(scratch: Path) -> Path:
    """The store that the demo has left."""
    (store,) = scratch.glob("pi-actors-demo-*/demo.db")
    return store


def test_the_demo_succeeds_and_says_where_it_left_everything(played: Finished, scratch: Path) -> None:
    assert (played.returncode, played.stderr) == (0, "")
    store = store_of(scratch)
    assert f"pi-actors sessions {store}" in played.stdout
    assert f"pi-actors log {store} --session act-2" in played.stdout
    assert not (scratch / "other.db").exists(), "it never touches the user's own store"


def test_every_check_of_every_act_held(played: Finished) -> None:
    acts = played.stdout.split("\nAct ")[1:]
    assert len(acts) == 3
    for act in acts:
        assert act.count("  ✓ ") == 9
        assert "✗" not in act
        assert "✓ kill -9 ended the process at its moment" in act
        assert "✓ the line is in the file exactly once" in act


def test_two_processes_take_part_in_each_act(played: Finished) -> None:
    for act in played.stdout.split("\nAct ")[1:]:
        (killed,) = re.findall(r"process (\d+) works on the task … kill -9", act)
        (successor,) = re.findall(r"process (\d+) opens the session and stores", act)
        assert killed != successor


def test_each_act_tells_what_was_decided_and_why(played: Finished) -> None:
    first, second, third = played.stdout.split("\nAct ")[1:]
    assert "why: edit has no ToolStarted in the log, so it never began: it runs now" in first
    assert "why: edit began and has no result, so nobody knows what it did" in second
    assert "[interrupted: " in second
    assert "the line is there, so I do not add it again" in second
    assert "why: every call has its result, so no tool runs" in third
    for act in (first, second, third):
        assert "RunRecovered" in act


def test_the_files_and_the_logs_say_the_same(played: Finished, scratch: Path) -> None:
    """The demo's own checks are not believed: the same is looked up anew."""
    assert played.returncode == 0
    store = store_of(scratch)
    for act in ("act-1", "act-2", "act-3"):
        lines = (store.parent / act / CHANGELOG).read_text().splitlines()
        assert lines.count(WANTED_LINE) == 1
        events = events_of(store, cwd=scratch, session=act)
        started = [event["actor"] for event in events if event["topic"] == "ToolStarted"]
        settled = [event["event"]["by"] for event in events if event["topic"] == "ToolResultSettled"]
        assert sorted(started) == sorted(set(started))
        assert sorted(started) == sorted(settled)
        assert topics_of(events).count("RunEnded") == 1


def test_the_second_act_neither_repeats_nor_believes_the_edit(played: Finished, scratch: Path) -> None:
    assert played.returncode == 0
    events = events_of(store_of(scratch), cwd=scratch, session="act-2")
    results = [event["event"] for event in events if event["topic"] == "ToolResultSettled"]
    assert [result["name"] for result in results] == ["edit", "grep", "bash"]
    assert [result["own"] for result in results] == [False, True, True]
    assert results[0]["diagnostics"][0]["code"] == "interrupted"


def test_the_store_that_was_left_can_be_looked_at(played: Finished, scratch: Path) -> None:
    assert played.returncode == 0
    listed = pi_actors("sessions", store_of(scratch), cwd=scratch).stdout
    assert [line.split()[0] for line in listed.splitlines()[:-1]] == ["session", "act-1", "act-2", "act-3"]


def test_a_model_that_does_something_else_fails_the_demo_and_is_told(tmp_path: Path) -> None:
    """Kill points are events, so any model can be killed at them; this one never gets there."""
    model = script(tmp_path, "I would rather not.")
    done = pi_actors("demo", "--store", "mine.db", "--model", model, cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.count("✗ kill -9 ended the process at its moment") == 3
    assert "checks did not hold" in done.stdout
    listed = pi_actors("sessions", "mine.db", cwd=tmp_path).stdout
    assert [line.split()[0] for line in listed.splitlines()[1:-1]] == ["act-1", "act-2", "act-3"]
    assert free_names(tmp_path / "mine.db") == ["act-1-2", "act-2-2", "act-3-2"], "it can be played again"


def test_a_model_that_repeats_what_it_does_not_know_fails_the_second_act(tmp_path: Path) -> None:
    """Whoever believes that nothing happened adds the line a second time, and the demo notices."""
    line = f"echo '{WANTED_LINE}' >> {CHANGELOG}"
    add = says("I add it.", ("bash", {"command": line}))
    model = script(tmp_path, add, says("Again.", ("bash", {"command": line})), "Done.")
    done = pi_actors("demo", "--model", model, cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.count("✗ the line is in the file exactly once") == 3


async def test_a_model_behind_http_is_killed_at_the_same_moments(tmp_path: Path) -> None:
    """The kill points are events of the log and changes of the file, not lines of a script."""
    edit = reply(
        "I add it.",
        call("edit", path=CHANGELOG, old_text="## Unreleased", new_text=f"## Unreleased\n\n{WANTED_LINE}"),
    )
    look = reply("I look first.", call("grep", pattern=WANTED_LINE))
    tests = reply("Now the tests.", call("bash", command="python3 -m unittest"))
    done = reply("Done.")
    async with open_playback() as server:
        plays = (edit, tests, done, edit, look, tests, done, edit, tests, done)
        server.answers = [answer_for(play, "chat") for play in plays]
        finished = await trio.run_process(
            command("demo", "--model", "openai:played", "--base-url", f"{server.url}/v1"),
            cwd=tmp_path,
            env=environment(OPENAI_API_KEY="no secret at all", TMPDIR=str(tmp_path)),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert (finished.returncode, finished.stderr) == (0, b""), finished.stdout.decode()
    assert len(server.recorded) == len(plays), "nothing was asked twice"


def test_the_scratch_project_passes_its_tests_and_lacks_the_line(tmp_path: Path) -> None:
    project = tmp_path / "project"
    make_project(project)
    assert times_wanted(project) == 0
    subprocess.run(["python3", "-m", "unittest"], cwd=project, check=True, capture_output=True)

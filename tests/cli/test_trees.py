"""``tree``: who lives in a session, in a file or on a server."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commandline import (
    events_of,
    json_lines,
    let_go,
    pi_actors,
    read_until,
    running,
    says,
    script,
    waits,
)
from tests.cli.terminal import at_terminal
from tests.projections.test_folding import damage
from tests.server.processes import serving


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a test works; no command that it has started waits on after it."""
    yield tmp_path
    let_go(tmp_path)


def test_a_tree_is_drawn_once_where_nobody_sits_at_a_terminal(folder: Path) -> None:
    model = script(folder, says("I start.", waits()), "Done.")
    with running("run", "work", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        shown = pi_actors("tree", "pi-actors.db", cwd=folder).stdout
        (told,) = json_lines(pi_actors("tree", "pi-actors.db", "--json", cwd=folder))
    head, *lines = shown.splitlines()
    assert head.startswith("pi-actors.db, session main · position ")
    assert "agent 1 · busy" in lines[0]
    assert "pi.generation" in lines[1]
    assert "pi.tool" in lines[2]
    assert [node["kind"] for node in told["tree"]] == ["pi.agent", "pi.generation", "pi.tool"]


def test_what_is_watched_in_another_process_begins_with_the_snapshot_of_its_owner(folder: Path) -> None:
    """What it covers is not read again: a row that is damaged there troubles a replay only."""
    model = script(folder, "Done.")
    pi_actors("run", "work", "--model", model, cwd=folder)
    known = pi_actors("replay", "pi-actors.db", "--json", cwd=folder)
    events = events_of("pi-actors.db", cwd=folder)
    (begun,) = [event["position"] for event in events if event["topic"] == "RunStarted"]
    damage(folder / "pi-actors.db", position=begun, topic="RunStarted")
    assert f"damaged at position {begun}" in pi_actors("replay", "pi-actors.db", "--json", cwd=folder).stderr
    (tree,) = json_lines(pi_actors("tree", "pi-actors.db", "--json", cwd=folder))
    (state,) = json_lines(known)
    assert tree["tree"] == state["tree"]
    with running("attach", "pi-actors.db", "--json", cwd=folder) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
    assert (first["position"], first["snapshot"]) == (state["position"], state["value"])


def test_a_tree_is_followed_in_a_terminal(folder: Path) -> None:
    """Q263."""
    model = script(folder, says("I start.", waits()), "Done.")
    with running("run", "work", "--json", "--model", model, cwd=folder) as process:
        read_until(process, "ToolStarted")
        with at_terminal("tree", "pi-actors.db", cwd=folder) as terminal:
            terminal.wait_for("agent 1 · busy")
            terminal.wait_for("pi.tool")
            let_go(folder)
            terminal.wait_for("agent 1 · idle")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == 130
            assert "Traceback" not in terminal.seen


def test_a_tree_on_a_server_is_told_with_every_change(folder: Path) -> None:
    model = script(folder, "Hello.")
    with serving("work.db", "--model", model, cwd=folder) as server:
        with running("tree", server.url, "--json", "--follow", cwd=folder) as process:
            assert process.stdout is not None
            assert [node["state"] for node in json.loads(next(process.stdout))["tree"]] == ["idle"]
        (told,) = json_lines(pi_actors("tree", server.url, "--json", cwd=folder))
        assert [node["blocked"] for node in told["tree"]] == [None]

"""``replay``: a session as it went, or its state at a position."""

from pathlib import Path

import pytest

from tests.cli.commandline import events_of, json_lines, pi_actors, says, script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a session in it."""
    model = script(tmp_path, says("I look.", ("ls", {"path": "."})), "All there.")
    pi_actors("run", "look", "--model", model, cwd=tmp_path)
    return tmp_path


def test_a_session_is_played_as_it_was_shown(folder: Path) -> None:
    done = pi_actors("replay", "pi-actors.db", "--speed", "1000", cwd=folder)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    places = [
        lines.index(line) for line in ("> look", "I look.", "✓ ls (1 ms)", "All there.") if line in lines
    ]
    assert places == sorted(places)
    assert len(places) >= 3
    end = events_of("pi-actors.db", cwd=folder)[-1]["position"]
    assert lines[-1].startswith(f"· position {end} of {end}, 20")


def test_it_stops_at_the_position_that_is_named(folder: Path) -> None:
    events = events_of("pi-actors.db", cwd=folder)
    settled = next(event for event in events if event["topic"] == "ResponseSettled")
    shown = pi_actors("replay", "pi-actors.db", "--to", settled["end"], cwd=folder).stdout
    assert "I look." in shown
    assert "All there." not in shown
    assert f"· position {settled['end']} of " in shown
    assert pi_actors("replay", "pi-actors.db", "--to", 0, cwd=folder).stdout == "· nothing\n"


def test_the_state_at_a_position_is_printed_for_programs(folder: Path) -> None:
    (start,) = json_lines(pi_actors("replay", "pi-actors.db", "--to", 1, "--json", cwd=folder))
    assert start["position"] == 1
    assert start["value"]["entries"] == []
    (end,) = json_lines(pi_actors("replay", "pi-actors.db", "--json", cwd=folder))
    assert [entry["kind"] for entry in end["value"]["entries"]][-1] == "pi.assistant"
    assert [node["id"] for node in end["tree"]] == [1]
    wrong = pi_actors("replay", "pi-actors.db", "--json", "--agent", 5, cwd=folder)
    assert wrong.returncode == 2
    assert "no agent 5 at position" in wrong.stderr

"""``log`` and ``sessions``: looking at stores, also at one that another process is writing."""

import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
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
    topics_of,
    waits,
)

LINE = re.compile(r" *(\d+)  (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) +(\d+) +(-|<\d+)  (\w+) *(?:  (.*))?")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a test works; no command that it has started waits on after it."""
    yield tmp_path
    let_go(tmp_path)


def test_the_log_has_one_readable_line_for_each_event(folder: Path) -> None:
    model = script(folder, says("I look.", ("ls", {})), "Done,\nas it seems.")
    pi_actors("run", "look around", "--model", model, cwd=folder)
    done = pi_actors("log", "pi-actors.db", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = [LINE.fullmatch(line) for line in done.stdout.splitlines()]
    rows = [match.groups() for match in found if match is not None]
    assert len(rows) == len(found), done.stdout
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    words = {row[4]: row[5] for row in rows}
    assert words["EntryAppended"].startswith("pi.system")
    assert words["ToolResultSettled"].startswith("ls ok ")
    assert words["ResponseSettled"].startswith('answer "Done, as it seems."')


def test_the_log_as_json_has_every_field_under_its_name(folder: Path) -> None:
    pi_actors("run", "look", "--model", script(folder, says("I look.", ("ls", {})), "Done."), cwd=folder)
    events = events_of("pi-actors.db", cwd=folder)
    placed = next(event for event in events if event["topic"] == "SubmissionPlaced")
    position = placed["position"]
    assert placed["event"] == {
        "mode": "follow_up",
        "entry": position + 1,
        "submission": 0,
        "request_id": None,
    }
    assert placed["end"] >= position
    tool = next(event for event in events if event["event"].get("kind") == "pi.tool")
    assert tool["event"]["input"]["name"] == "ls"
    assert tool["actor"] == tool["position"]


def test_a_log_is_followed_while_another_process_writes_it(folder: Path) -> None:
    """Whole commits, in order, with no lock: the writer notices nothing."""
    model = script(folder, says("", waits()), "Done.")
    with running("run", "x", "--json", "--keep-progress", "--model", model, cwd=folder) as writer:
        read_until(writer, "ToolStarted")
        with running("log", "pi-actors.db", "--follow", "--json", cwd=folder) as reader:
            before = read_until(reader, "ToolStarted")
            let_go(folder)
            after = read_until(reader, "RunEnded")
            os.kill(reader.pid, signal.SIGINT)
            _, complaint = reader.communicate()
        writer.communicate()
    assert (reader.returncode, complaint) == (0, "")
    assert writer.returncode == 0
    assert before + after == events_of("pi-actors.db", cwd=folder)


def test_sessions_tells_what_each_one_is_about(folder: Path) -> None:
    model = script(folder, says("", waits()), "Done.")
    pi_actors("run", "x", "--session", "idle", "--model", script(folder, "Hi.", name="hi.json"), cwd=folder)
    with running("run", "x", "--session", "busy", "--json", "--model", model, cwd=folder) as writer:
        read_until(writer, "ToolStarted")
        listed = json_lines(pi_actors("sessions", "pi-actors.db", "--json", cwd=folder))
        table = pi_actors("sessions", "pi-actors.db", cwd=folder).stdout.splitlines()
    busy, idle = listed
    assert (busy["id"], busy["live"]) == ("busy", True)
    assert f"process {writer.pid} " in busy["held_by"]
    assert (idle["id"], idle["live"], idle["held_by"]) == ("idle", False, None)
    assert idle["position"] == len(events_of("pi-actors.db", cwd=folder, session="idle"))
    assert idle["size_bytes"] > 0
    assert table[0].split()[:3] == ["session", "position", "bytes"]
    assert "unfinished" in table[1]
    assert str(writer.pid) in table[1]
    assert "none" in table[2]
    assert "nobody" in table[2]


def test_sessions_tells_how_much_rows_and_the_file_take(folder: Path) -> None:
    """Also after what streamed was deleted: the rows that are left are counted."""
    text = "One sentence that takes a while to be said, in many small pieces."
    pi_actors("run", "x", "--model", script(folder, text, chunk_ms=20), cwd=folder)
    (told,) = json_lines(pi_actors("sessions", "pi-actors.db", "--json", cwd=folder))
    with closing(sqlite3.connect(folder / "pi-actors.db")) as connection:
        (rows,) = connection.execute("SELECT sum(length(state)) FROM stored_events").fetchone()
    assert len(events_of("pi-actors.db", cwd=folder)) < told["position"]
    assert (told["size_bytes"], told["store_bytes"]) == (rows, (folder / "pi-actors.db").stat().st_size)
    lines = pi_actors("sessions", "pi-actors.db", cwd=folder).stdout.splitlines()
    assert lines[-1] == f"pi-actors.db takes {told['store_bytes']:,} bytes on the disk"


def test_looking_changes_nothing_and_leaves_nothing_behind(folder: Path) -> None:
    pi_actors("run", "talk", "--model", script(folder, "Hello."), cwd=folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for arguments in (("log",), ("log", "--json"), ("sessions",), ("sessions", "--json")):
        assert pi_actors(*arguments, cwd=folder).returncode == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_damaged_log_is_printed_up_to_the_damage(folder: Path) -> None:
    pi_actors("run", "talk", "--model", script(folder, "Hello."), cwd=folder)
    whole = topics_of(events_of("pi-actors.db", cwd=folder))
    with closing(sqlite3.connect(folder / "pi-actors.db")) as connection:
        connection.execute("UPDATE stored_events SET state = x'00' WHERE originator_version = 3")
        connection.commit()
    done = pi_actors("log", "pi-actors.db", "--json", cwd=folder)
    assert done.returncode == 1
    assert [json.loads(line)["topic"] for line in done.stdout.splitlines()] == whole[:2]
    assert done.stderr.startswith("pi-actors: session 'main' is damaged at position 3: ")

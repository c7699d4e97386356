"""The command line as its users meet it: real processes, real files, nothing replaced."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

PROJECT: Final = Path(__file__).parents[2]
Finished: TypeAlias = "subprocess.CompletedProcess[str]"
Running: TypeAlias = "subprocess.Popen[str]"
Event: TypeAlias = dict[str, Any]


def command(*arguments: object) -> list[str]:
    """How to run ``pi-actors`` with *arguments*."""
    return [sys.executable, "-m", "pi_actors", *map(str, arguments)]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, from which the project is found in every directory."""
    return {**os.environ, "PYTHONPATH": str(PROJECT), **variables}


def pi_actors(*arguments: object, cwd: Path, input: str | None = None, **variables: str) -> Finished:
    """What came of ``pi-actors`` with *arguments*, in *cwd*."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**variables),
        input=input,
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def running(*arguments: object, cwd: Path) -> Generator[Running]:
    """``pi-actors`` in another process, which does not outlive the block."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        kill(process)
        process.communicate()


def kill(process: Running) -> None:
    """Kill it as ``kill -9`` does, and wait until it is gone."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def read_until(process: Running, topic: str) -> list[Event]:
    """The events that a ``--json`` command prints, up to the first of *topic*."""
    assert process.stdout is not None
    events: list[Event] = []
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1].get("topic") == topic:
            return events
    assert process.stderr is not None
    raise AssertionError(f"no {topic} came: {process.stderr.read()}")


def events_of(store: object, *, cwd: Path, session: str = "main") -> list[Event]:
    """All events of a session, as ``log --json`` prints them."""
    return json_lines(pi_actors("log", store, "--session", session, "--json", cwd=cwd))


def json_lines(finished: Finished) -> list[Event]:
    """The objects that a command has printed."""
    assert finished.returncode in (0, 1), finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


def topics_of(events: Sequence[Event]) -> list[str]:
    """The topics, without those of progress, which depend on the speed of the machine."""
    progress = ("PartialStreamed", "ToolOutputStreamed")
    return [event["topic"] for event in events if event["topic"] not in progress]


def script(folder: Path, *turns: object, name: str = "script.json", **settings: object) -> str:
    """A scripted model that says *turns*, as an argument of ``--model``."""
    file = folder / name
    file.write_bytes(msgspec.json.encode({"turns": turns, **settings}))
    return f"scripted:{file}"


def says(text: str, *calls: tuple[str, dict[str, object]]) -> dict[str, object]:
    """An answer of a script: *text*, and calls of (tool, arguments)."""
    return {"text": text, "calls": [{"name": name, "arguments": given} for name, given in calls]}


WAITS: Final = "echo begun; echo run >> runs; until [ -e go ]; do sleep 0.02; done; echo done"
"""A shell command that counts its runs and goes on until there is a file ``go``."""


def waits() -> tuple[str, dict[str, object]]:
    """A call that goes on until there is a file ``go``."""
    return "bash", {"command": WAITS}


def let_go(folder: Path) -> None:
    """End every call that waits in *folder*, also those that a killed process has left behind."""
    (folder / "go").touch()

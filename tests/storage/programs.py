"""Other processes for the tests: real ones, spoken to by lines on their pipes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest

FORKING: Final = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
"""From Python 3.12 on, for the threads that a test runner may have."""

PROJECT: Final = Path(__file__).parents[2]
Program: TypeAlias = subprocess.Popen[str]

HOLD: Final = """
import sys
from pi_actors.storage.opening import open_log
log = open_log(sys.argv[1])
held = log.acquire(sys.argv[2])
print("held", flush=True)
sys.stdin.readline()
held.close()
print("let go", flush=True)
sys.stdin.readline()
log.close()
"""

WRITE: Final = """
import sys
from pi_actors.storage.opening import open_log
from tests.storage.events import append, batch, claimed
log = open_log(sys.argv[1])
held = log.acquire(sys.argv[2])
after = claimed(log, sys.argv[2]).position
for commit in range(int(sys.argv[3])):
    append(log, batch(sys.argv[2], after, 3))
    after += 3
    print(after, flush=True)
held.close()
log.close()
"""
"""Store commits of three events and print where each ends, once it is stored."""


@contextmanager
def running(program: str, *arguments: object) -> Generator[Program]:
    """*program* in another process, which is killed at the end of the block."""
    process = subprocess.Popen(
        command(program, arguments),
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        kill(process)
        process.communicate()


def tell(process: Program) -> None:
    """Send the other process a line."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def line_of(process: Program) -> str:
    """The next line that the other process says; fails with what it complained about instead."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = process.stdout.readline()
    assert said, process.stderr.read()
    return said.strip()


def kill(process: Program) -> None:
    """Kill it as ``kill -9`` does, and wait until it is gone."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def finished(program: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """What came of *program* in another process."""
    return subprocess.run(
        command(program, arguments), cwd=PROJECT, capture_output=True, text=True, check=False
    )


def as_user(user: int, work: Callable[[Path], str], path: Path) -> str:
    """What *work* says as another user, in a forked child: a new program might be out of its reach."""
    answer, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.write(say, work(path).encode())
        finally:
            os._exit(0)
    os.close(say)
    with os.fdopen(answer, encoding="utf-8") as said:
        told = said.read()
    os.waitpid(child, 0)
    return told


def command(program: str, arguments: Sequence[object]) -> list[str]:
    """How to run *program*."""
    return [sys.executable, "-c", program, *map(str, arguments)]

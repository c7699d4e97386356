"""Servers as their users start them: real processes that can be killed, on ports of this machine."""

import os
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.commandline import command, environment


@dataclass
class Process:
    """A server and where it is."""

    process: "subprocess.Popen[str]"
    url: str

    def kill(self) -> None:
        """Kill it as ``kill -9`` does, and wait until it is gone."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def serving(*arguments: object, cwd: Path, port: int = 0, **variables: str) -> Generator[Process]:
    """``pi-actors serve`` with *arguments*, which does not outlive the block."""
    process = subprocess.Popen(
        command("serve", *arguments, "--port", port),
        cwd=cwd,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(process, _url_of(process))
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()


def free_port() -> int:
    """A port that nobody listens on, for a server that is to come back where it was."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _url_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line.startswith("serving "):
        raise AssertionError(f"the server did not start: {line}{process.stderr.read()}")
    return line.split()[-1]

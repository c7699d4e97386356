"""A terminal with a person at it: a pseudo-terminal whose screen is read and whose keys are pressed."""

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cli.commandline import command, environment

ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")
WHERE_IS_THE_CURSOR: Final = b"\x1b[6n"
"""A terminal answers this question as if keys were pressed."""

ESCAPE_KEY: Final = "\x1b"
INTERRUPT_KEY: Final = "\x03"
END_KEY: Final = "\x04"
ENTER: Final = "\r"


class Terminal:
    """What a program has written to its terminal, and keys for it."""

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self.raw = ""
        self._descriptor = descriptor
        self._read_to = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def press(self, keys: str) -> None:
        """Type *keys*."""
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> str:
        """What was written from the end of the last wait up to *text*, without escape sequences."""
        while True:
            seen = ESCAPES.sub("", self.raw).replace("\r", "")
            found = seen.find(text, self._read_to)
            if found >= 0:
                start, self._read_to = self._read_to, found + len(text)
                return seen[start : self._read_to]
            if not self._read():
                raise AssertionError(f"the program ended without {text!r}; it wrote:\n{seen}")

    def end(self) -> int:
        """Read to the end and return the program's exit status."""
        while self._read():
            pass
        return self.process.wait()

    @property
    def seen(self) -> str:
        """All that was written, without escape sequences."""
        return ESCAPES.sub("", self.raw).replace("\r", "")

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:  # how a pseudo-terminal tells that nobody has it open any more
            return False
        for _ in range(data.count(WHERE_IS_THE_CURSOR)):
            os.write(self._descriptor, b"\x1b[1;1R")
        self.raw += self._decoder.decode(data)
        return bool(data)


@contextmanager
def at_terminal(*arguments: object, cwd: Path, **variables: str) -> Generator[Terminal]:
    """``pi-actors`` with *arguments* in a terminal of 100 columns; it does not outlive the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(TERM="xterm-256color", **variables),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)

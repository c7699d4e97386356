"""Keys of a terminal, and the line that they make."""

import codecs
import os
import termios
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

import trio

Wish: TypeAlias = Literal["send", "stop", "leave"]
"""What the user wants now: the line sent, what runs stopped, or to leave."""

ESCAPE: Final = "\x1b"
LEAVING: Final = frozenset("\x03\x04")
RUBBING: Final = frozenset("\x08\x7f")
SENDING: Final = frozenset("\r\n")
CLEARING: Final = "\x15"
BYTES_AT_ONCE: Final = 1024


class Line:
    """What is being typed."""

    def __init__(self) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def press(self, keys: bytes) -> list[tuple[Wish, str]]:
        """Take *keys*, which came together, and tell what is wanted; with "send" comes the line.

        Escape stands for itself only where it comes alone: otherwise it begins a key such as an arrow.
        """
        typed = self._decoder.decode(keys)
        if typed == ESCAPE:
            return [("stop", "")]
        if typed.startswith(ESCAPE):
            return []
        wishes: list[tuple[Wish, str]] = []
        for key in typed:
            if key in LEAVING:
                wishes.append(("leave", ""))
            elif key in SENDING:
                wishes.append(("send", self.text.strip()))
                self.text = ""
            else:
                self._edit(key)
        return wishes

    def _edit(self, key: str) -> None:
        if key in RUBBING:
            self.text = self.text[:-1]
        elif key == CLEARING:
            self.text = ""
        elif key.isprintable():
            self.text += key


async def read_keys(descriptor: int) -> bytes:
    """The next keys; none where the terminal is gone."""
    await trio.lowlevel.wait_readable(descriptor)
    try:
        return os.read(descriptor, BYTES_AT_ONCE)
    except OSError:
        return b""


@contextmanager
def keys_of(descriptor: int) -> Generator[None]:
    """Have a terminal give each key at once and show none, also Ctrl-C, for the time of the body."""
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[0] &= ~(termios.IXON | termios.ICRNL)
    changed[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

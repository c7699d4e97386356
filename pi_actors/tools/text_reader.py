"""Reading a text file line by line, without holding more of it than one line and one block."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Final

import trio

from pi_actors.tools.environment import Line
from pi_actors.tools.files import check_regular, told, translated

BLOCK_BYTES: Final = 128 * 1024


@asynccontextmanager
async def open_text(path: Path, limiter: trio.CapacityLimiter) -> AsyncGenerator["FileReader", None]:
    """Open a text file for reading, in threads of *limiter*."""
    file = await trio.to_thread.run_sync(told, _opened, path, limiter=limiter)
    try:
        yield FileReader(file, path, limiter)
    finally:
        file.close()


class FileReader:
    """The TextReader of a local file.

    A thread that reads is never abandoned: either it did not start, or what it read is in
    ``_buffer``. Lines are taken from there without a pause, so a cancelled read consumes nothing.
    """

    def __init__(self, file: FileIO, path: Path, limiter: trio.CapacityLimiter) -> None:
        self._file = file
        self._path = path
        self._limiter = limiter
        self._buffer = b""
        self._start = 0
        self._at_end = False

    async def read_line(self, *, max_bytes: int | None = None) -> Line | None:
        """Return the next line, or of a line longer than *max_bytes* the next piece."""
        await trio.lowlevel.checkpoint_if_cancelled()
        searched = 0
        while (newline := self._buffer.find(b"\n", self._start + searched)) < 0:
            searched = len(self._buffer) - self._start
            if self._at_end or (max_bytes is not None and searched > max_bytes):
                break
            await self._fill()
        end = len(self._buffer) if newline < 0 else newline
        if max_bytes is not None and end - self._start > max_bytes:
            return self._taken(self._character_boundary(self._start + max_bytes), ended=False)
        if newline < 0 and end == self._start:
            return None
        return self._taken(end, ended=newline >= 0)

    async def skip_lines(self, count: int) -> int:
        """Pass over *count* lines and return how many there were, holding one block at a time.

        Cancelled, the reader may stand anywhere before that.
        """
        skipped, within = 0, False
        while skipped < count:
            newlines = self._buffer.count(b"\n", self._start)
            if newlines > 0:
                passed = min(newlines, count - skipped)
                skipped, within = skipped + passed, False
                self._pass_newlines(passed, newlines)
                continue
            within = within or self._start < len(self._buffer)
            self._start = len(self._buffer)
            if self._at_end:
                return skipped + within
            await self._fill()
        return skipped

    def _pass_newlines(self, passed: int, newlines: int) -> None:
        if passed == newlines:
            self._start = self._buffer.rfind(b"\n") + 1
            return
        for _ in range(passed):
            self._start = self._buffer.find(b"\n", self._start) + 1

    def _taken(self, end: int, *, ended: bool) -> Line:
        text = self._buffer[self._start : end].decode("utf-8", "replace")
        self._start = end + 1 if ended else end
        return Line(text=text, ended=ended)

    def _character_boundary(self, end: int) -> int:
        for back in range(4):
            if end - back > self._start and self._buffer[end - back] & 0b1100_0000 != 0b1000_0000:
                return end - back
        return end

    async def _fill(self) -> None:
        block = await trio.to_thread.run_sync(self._read, limiter=self._limiter)
        self._buffer = self._buffer[self._start :] + block
        self._start = 0
        self._at_end = not block

    def _read(self) -> bytes:
        try:
            return self._file.read(BLOCK_BYTES)
        except OSError as error:
            raise translated(error, self._path) from error


def _opened(path: Path) -> FileIO:
    check_regular(path)
    return FileIO(path)

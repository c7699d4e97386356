"""The complete output of a command, in a file as soon as it is too long to be shown."""

import os
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trio

from pi_actors.tools.environment import EnvError

_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Spill:
    """Holds raw output until it passes *after_bytes* or *after_lines*, then writes all of it to *path*.

    Writing happens in threads and is waited for, so a slow disk slows the command. Without a path
    nothing is held. ``path`` is the file once there is one.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        after_bytes: int,
        after_lines: int,
        bytes_max: int,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self.path: Path | None = None
        self._target = path
        self._after_bytes = after_bytes
        self._after_lines = after_lines
        self._bytes_max = bytes_max
        self._limiter = limiter
        self._held: list[bytes] = []
        self._file: FileIO | None = None
        self._size = 0
        self._newlines = 0
        self._ends_line = True

    async def add(self, data: bytes) -> bool:
        """Take the next bytes and return whether they made the output long enough for the file.

        Raises:
            EnvError: ``spill_error``: the file cannot be written, or the output is beyond bytes_max.
        """
        if self._target is None or not data:
            return False
        self._count(data)
        self._check_size(self._target)
        if self._file is not None:
            await self._in_thread(self._target, data)
            return False
        self._held.append(data)
        if self._size <= self._after_bytes and self._lines() <= self._after_lines:
            return False
        everything = b"".join(self._held)
        self._held.clear()
        await self._in_thread(self._target, everything)
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def _count(self, data: bytes) -> None:
        self._size += len(data)
        self._newlines += data.count(b"\n")
        self._ends_line = data.endswith(b"\n")

    def _lines(self) -> int:
        return self._newlines + (not self._ends_line)

    def _check_size(self, target: Path) -> None:
        if self._size > self._bytes_max:
            raise EnvError(
                "spill_error",
                f"the command wrote more than {self._bytes_max} bytes and was killed; "
                f"write less, or into a file of its own ({target} has the beginning).",
            )

    async def _in_thread(self, target: Path, data: bytes) -> None:
        await trio.to_thread.run_sync(self._write, target, data, limiter=self._limiter)

    def _write(self, target: Path, data: bytes) -> None:
        try:
            if self._file is None:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file = FileIO(os.open(target, _OPEN, 0o600), "w")
                os.fchmod(self._file.fileno(), 0o600)
                self.path = target
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            raise EnvError(
                "spill_error", f"the complete output cannot be kept in {target} ({error.strerror or error})."
            ) from error

"""The world that tools act on: files and commands, seen from one working directory.

``LocalEnv`` is this machine. Other worlds (a container, another host) implement ``Env``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from pi_actors.core.errors import PiActorsError

EnvErrorCode: TypeAlias = Literal[
    "invalid_argument",
    "spawn_error",
    "timeout",
    "callback_error",
    "spill_error",
    "not_found",
    "permission_denied",
    "not_a_directory",
    "is_a_directory",
    "not_a_file",
    "already_exists",
    "not_empty",
    "changed",
    "io_error",
]

SPILL_BYTES: Final = 50 * 1024
SPILL_LINES: Final = 2_000
SPILL_BYTES_MAX: Final = 1024 * 1024 * 1024


class EnvError(PiActorsError):
    """The environment could not do what was asked; ``code`` says why, for programs.

    ``spilled``: where a command's complete output is, if it was long enough for a file.
    """

    def __init__(self, code: EnvErrorCode, message: str, *, spilled: Path | None = None) -> None:
        super().__init__(message + (f" Its complete output is in {spilled}." if spilled else ""))
        self.code: EnvErrorCode = code
        self.spilled = spilled


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was when looked at. ``mode``: permission bits. ``modified``: UTC."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    size_bytes: int
    mode: int
    modified: datetime


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line without its newline. ``ended``: whether there was one; a carriage return stays."""

    text: str
    ended: bool


class TextReader(Protocol):
    """Reads a text file forwards. Bytes that are not UTF-8 become U+FFFD.

    A cancelled ``read_line`` consumes nothing.
    """

    async def read_line(self, *, max_bytes: int | None = None) -> Line | None:
        """Return the next line, None at the end of the file.

        A line longer than *max_bytes* comes in several pieces, of which only the last is ``ended``.
        """
        ...

    async def skip_lines(self, count: int) -> int:
        """Pass over *count* lines and return how many there were.

        Cancelled, it may stand anywhere before that.
        """
        ...


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: ``status`` is its exit status, 128 + n where signal n ended it.

    ``spilled``: the file with its complete raw output, None where the output was short.
    """

    status: int
    signal: int | None = None
    spilled: Path | None = None


Command: TypeAlias = str | Sequence[str]
"""Text is run by a shell, a list is run as it is."""


class Env(Protocol):
    """Files and commands. Relative paths start at ``cwd``; all failures are EnvError."""

    @property
    def cwd(self) -> Path:
        """The working directory, absolute."""
        ...

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Return up to *limit* bytes of a file, from *offset* on."""
        ...

    def open_text(self, path: str) -> AbstractAsyncContextManager[TextReader]:
        """Open a text file for reading."""
        ...

    async def write(self, path: str, data: bytes, *, instead_of: bytes | None = None) -> None:
        """Replace a file's content, or create the file: a crash leaves the old or the new content.

        An existing file keeps its mode. *instead_of*: what the file must hold.

        Raises:
            EnvError: ``changed`` where the file does not hold *instead_of*; then it is as it was.
        """
        ...

    async def list(self, path: str = ".") -> tuple[FileInfo, ...]:
        """Return what a directory holds, by name; links are not followed."""
        ...

    async def exists(self, path: str) -> bool:
        """Whether there is a file, or a directory. Not being allowed to know is an error."""
        ...

    async def stat(self, path: str) -> FileInfo:
        """Look at a file, through links."""
        ...

    async def remove(self, path: str, *, recursive: bool = False, force: bool = False) -> None:
        """Remove a file or an empty directory. *recursive*: a full one too. *force*: missing is fine."""
        ...

    async def makedir(self, path: str, *, recursive: bool = True) -> None:
        """Make a directory. *recursive*: with its parents, and one that exists is fine."""
        ...

    async def truncate(self, path: str, size_bytes: int) -> None:
        """Make a file exactly *size_bytes* long; never creates one."""
        ...

    async def exec(
        self,
        command: Command,
        *,
        timeout_ms: float | None = None,
        env: Mapping[str, str] | None = None,
        on_output: Callable[[str], None] | None = None,
        spill: Path | None = None,
        spill_bytes: int = SPILL_BYTES,
        spill_lines: int = SPILL_LINES,
        spill_bytes_max: int = SPILL_BYTES_MAX,
        on_spill: Callable[[Path], None] | None = None,
    ) -> ExecResult:
        """Run a command in a process group of its own and return how it ended; any status is a result.

        *env*: exactly the variables it has; by default a few of this process, never a key.
        *on_output* gets both streams as they come, each decoded on its own; never after the end.
        Past *spill_bytes* or *spill_lines* everything it wrote is put into the file *spill* (mode
        0600, replaced if it exists), and *on_spill* is told once. A command that wrote more than
        *spill_bytes_max* is killed. What processes left in the background write is not waited for.

        Cancellation and timeout end the whole group: SIGTERM, soon after SIGKILL. Cancelled before
        the start, nothing was started and no file made.

        Raises:
            EnvError: ``invalid_argument`` or ``spawn_error`` (nothing was started), ``timeout``,
                ``callback_error`` (a callback raised), ``spill_error`` (the group was killed).
        """
        ...


EnvFactory: TypeAlias = Callable[[str | None], Env | Awaitable[Env]]
"""Makes the environment of a tool call from the agent's working directory, None for the process's."""

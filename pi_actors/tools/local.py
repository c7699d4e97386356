"""The local machine as the environment of tools."""

import os
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio

from pi_actors.tools import files
from pi_actors.tools.environment import (
    SPILL_BYTES,
    SPILL_BYTES_MAX,
    SPILL_LINES,
    Command,
    EnvError,
    ExecResult,
    FileInfo,
    TextReader,
)
from pi_actors.tools.output import Outlet
from pi_actors.tools.processes import run_process
from pi_actors.tools.spill import Spill
from pi_actors.tools.text_reader import open_text

T = TypeVar("T")

THREADS_MAX: Final = 8
TIMEOUT_MS_MAX: Final = 2**31 - 1

PASSED_ON: Final = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "NO_COLOR",
        "PATH",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
    }
)
"""The variables of this process that a command gets, with all that start with LC_. None is a secret."""


class LocalEnv:
    """Files and commands of this machine. It keeps nothing open between calls.

    Files are touched in threads of its own limiter, at most THREADS_MAX at once.
    """

    def __init__(self, cwd: str | Path | None = None) -> None:
        self._cwd = Path.cwd() if cwd is None else Path(cwd).absolute()
        self._limiter = trio.CapacityLimiter(THREADS_MAX)

    @property
    def cwd(self) -> Path:
        return self._cwd

    async def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return await self._in_thread(path, partial(files.read_bytes, offset=offset, limit=limit))

    @asynccontextmanager
    async def open_text(self, path: str) -> AsyncGenerator[TextReader, None]:
        async with open_text(self._cwd / path, self._limiter) as reader:
            yield reader

    async def write(self, path: str, data: bytes, *, instead_of: bytes | None = None) -> None:
        await self._in_thread(path, partial(files.write, data=data, instead_of=instead_of))

    async def list(self, path: str = ".") -> tuple[FileInfo, ...]:
        return await self._in_thread(path, files.list_directory)

    async def exists(self, path: str) -> bool:
        return await self._in_thread(path, files.exists)

    async def stat(self, path: str) -> FileInfo:
        return await self._in_thread(path, files.stat)

    async def remove(self, path: str, *, recursive: bool = False, force: bool = False) -> None:
        await self._in_thread(path, partial(files.remove, recursive=recursive, force=force))

    async def makedir(self, path: str, *, recursive: bool = True) -> None:
        await self._in_thread(path, partial(files.makedir, recursive=recursive))

    async def truncate(self, path: str, size_bytes: int) -> None:
        await self._in_thread(path, partial(files.truncate, size_bytes=size_bytes))

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
        argv = _argv(command)
        _check_timeout(timeout_ms)
        await trio.lowlevel.checkpoint()
        await self._check_cwd()
        long_output = Spill(
            None if spill is None else self._cwd / spill,
            after_bytes=spill_bytes,
            after_lines=spill_lines,
            bytes_max=spill_bytes_max,
            limiter=self._limiter,
        )
        async with long_output:
            return await run_process(
                argv,
                cwd=self._cwd,
                variables=_passed_on() if env is None else dict(env),
                timeout_ms=timeout_ms,
                outlet=Outlet(on_output, long_output, on_spill),
                limiter=self._limiter,
            )

    async def _check_cwd(self) -> None:
        if not await trio.to_thread.run_sync(self._cwd.is_dir, limiter=self._limiter):
            raise EnvError("spawn_error", f"there is no directory {self._cwd} to work in; nothing was run.")

    async def _in_thread(self, path: str, act: Callable[[Path], T]) -> T:
        return await trio.to_thread.run_sync(files.told, act, self._cwd / path, limiter=self._limiter)


def _argv(command: Command) -> list[str]:
    if isinstance(command, str):
        return [shutil.which("bash") or "/bin/sh", "-c", command]
    if not command:
        raise EnvError("spawn_error", "the command is an empty list; nothing was run.")
    return list(command)


def _check_timeout(timeout_ms: float | None) -> None:
    if timeout_ms is not None and not 0 < timeout_ms <= TIMEOUT_MS_MAX:
        raise EnvError(
            "invalid_argument",
            f"the timeout is {timeout_ms} ms; give more than 0, up to {TIMEOUT_MS_MAX}. Nothing was run.",
        )


def _passed_on() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}

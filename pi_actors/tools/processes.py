"""Running one command in a process group of its own, and ending the whole group when it must end."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from pi_actors.tools.environment import EnvError, ExecResult
from pi_actors.tools.output import Outlet

TERM_SECONDS: Final = 2.0
"""From SIGTERM to SIGKILL."""

KILL_SECONDS: Final = 5.0
"""How long a killed process is waited for: one that the kernel cannot end must not stop a close."""

LINGER_SECONDS: Final = 0.25
"""After the command has ended, how long pipes that others still hold open are listened to."""

CHUNK_BYTES: Final = 64 * 1024
PIPE_BYTES: Final = 1024 * 1024
"""The most that a pipe may hold: what a command wrote before it ended is never more."""

Popen = subprocess.Popen[bytes]


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    variables: Mapping[str, str],
    timeout_ms: float | None,
    outlet: Outlet,
    limiter: trio.CapacityLimiter,
) -> ExecResult:
    """Run *argv* until it ends, hand its output to *outlet*, return how it ended.

    Cancelled, timed out or failed, the whole process group is ended before this returns. Once the
    command has ended by itself, what it left in the background goes on, and is no longer read.

    Raises:
        EnvError: ``spawn_error``, ``timeout``, or what *outlet* raised.
    """
    spawn = partial(_spawned, argv, cwd, variables)
    process = await trio.to_thread.run_sync(spawn, limiter=limiter)
    running = _Running(process, outlet)
    try:
        with trio.move_on_after(math.inf if timeout_ms is None else timeout_ms / 1000) as timeout:
            await running.follow()
        if timeout.cancelled_caught:
            raise EnvError("timeout", f"the command was ended after {timeout_ms} ms, with all it started.")
        if running.failure is not None:
            raise running.failure
    except EnvError as error:
        await running.end_group()
        raise _with_spill(error, outlet.spill.path) from error.__cause__
    except BaseException:
        await running.end_group()
        raise
    finally:
        running.close()
    return _result(process.wait(), outlet.spill.path)


class _Pipe:
    """One stream of a running command. ``number``: 1 for its output, 2 for its errors."""

    def __init__(self, number: int, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.number = number
        self.descriptor = descriptor
        self.waiting = trio.CancelScope()


class _Running:
    """A command that runs. It is reaped last, so its group's number cannot be another's meanwhile."""

    def __init__(self, process: Popen, outlet: Outlet) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.failure: EnvError | None = None
        self._process = process
        self._outlet = outlet
        self._pipes = (_Pipe(1, process.stdout.fileno()), _Pipe(2, process.stderr.fileno()))
        self._listen_until = math.inf

    async def follow(self) -> None:
        """Return when the command has ended and its output was taken, or taking it failed."""
        async with trio.open_nursery() as nursery:
            for pipe in self._pipes:
                nursery.start_soon(self._take_all, pipe, nursery.cancel_scope)
            await _exited(self._process)
            self._listen_until = trio.current_time() + LINGER_SECONDS
            for pipe in self._pipes:
                pipe.waiting.deadline = self._listen_until

    async def end_group(self) -> None:
        """End the command and all it started that is still in its group; cannot be cancelled."""
        with trio.CancelScope(shield=True):
            self._signal(signal.SIGTERM)
            with trio.move_on_after(TERM_SECONDS):
                async with trio.open_nursery() as nursery:
                    for pipe in self._pipes:  # a full pipe must not stop them from ending in order
                        nursery.start_soon(_discard, pipe.descriptor)
                    await _exited(self._process)
            self._signal(signal.SIGKILL)
            with trio.move_on_after(KILL_SECONDS):
                await _exited(self._process)
            self._process.poll()

    def close(self) -> None:
        """Close both pipes."""
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    async def _take_all(self, pipe: _Pipe, everything: trio.CancelScope) -> None:
        try:
            await self._take_until_end(pipe)
            await self._outlet.take(pipe.number, b"")
        except EnvError as error:
            self.failure = self.failure or error
            everything.cancel()

    async def _take_until_end(self, pipe: _Pipe) -> None:
        late = 0
        while late < PIPE_BYTES:
            with trio.CancelScope(deadline=self._listen_until) as pipe.waiting:
                await trio.lowlevel.wait_readable(pipe.descriptor)
            data = _read(pipe.descriptor)
            if data == b"" or (data is None and pipe.waiting.cancelled_caught):
                return
            if data is not None:
                await self._outlet.take(pipe.number, data)
                late += len(data) if pipe.waiting.cancelled_caught else 0

    def _signal(self, number: signal.Signals) -> None:
        # No process of the group is left (or, on macOS, only dead ones).
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _spawned(argv: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> Popen:
    try:
        return subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=variables,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise EnvError("spawn_error", f"cannot start {argv[0]!r}: {error}. Nothing was run.") from error


async def _exited(process: Popen) -> None:
    """Wait until *process* has ended, without reaping it."""
    descriptor = _watched(process.pid)
    if descriptor is None:
        wait = partial(os.waitid, os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        own_thread = trio.CapacityLimiter(1)  # it lasts as long as the command and must not hold up others
        await trio.to_thread.run_sync(wait, limiter=own_thread, abandon_on_cancel=True)
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


def _watched(process_id: int) -> int | None:
    """A descriptor that is readable once the process has ended, None where the system has none."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(process_id)
    except OSError:
        return None


async def _discard(descriptor: int) -> None:
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        if _read(descriptor) == b"":
            return


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return None


def _with_spill(error: EnvError, spilled: Path | None) -> EnvError:
    return EnvError(error.code, str(error), spilled=spilled) if spilled is not None else error


def _result(code: int, spilled: Path | None) -> ExecResult:
    if code < 0:
        return ExecResult(status=128 - code, signal=-code, spilled=spilled)
    return ExecResult(status=code, spilled=spilled)

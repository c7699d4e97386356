"""The door to the shell: how a command ended, as an exit status and at most one clear line.

What the package raises is told on standard error and never shown as a traceback. Only what nobody
foresaw, a bug, leaves one.
"""

import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import click
import trio

from pi_actors.core.errors import (
    CommandRefused,
    LogTooNew,
    NotSupported,
    PiActorsError,
    SessionInUse,
    StoreUnreadable,
    root_cause,
)
from pi_actors.core.window import clean_output
from pi_actors.runtime.scopes import background

ANSWERED: Final = 0
UNANSWERED: Final = 1
WRONG_USE: Final = 2
IN_USE: Final = 3
INTERRUPTED: Final = 128 + signal.SIGINT

Work: TypeAlias = Callable[[], int | None]

_NOT_AS_ASKED: Final = (CommandRefused, NotSupported, StoreUnreadable, LogTooNew)
"""What another option, another file or another version would cure."""


def status_of(work: Work) -> int:
    """Do *work* and return the exit status that it, or its failure, stands for."""
    try:
        status = _carried_out(work)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return UNANSWERED
    except OSError as error:
        _drop_output()
        return _told(f"cannot write the output: {error.strerror}", UNANSWERED)
    return status


def tell(text: str) -> None:
    """Say *text* on standard error, in one paragraph, without control characters."""
    click.echo(f"pi-actors: {' '.join(clean_output(text).split())}", err=True)


def goes_on(store: str, session: str) -> str:
    """How to take up a session that was left."""
    if store == "memory:":
        return "a store in memory is gone with its process"
    name = "" if session == "main" else f" --session {shlex.quote(session)}"
    return f"nothing stored is lost. Go on with: pi-actors resume {shlex.quote(store)}{name}"


def until_interrupted(main: Callable[[], Awaitable[int]], *, what_now: str) -> int:
    """Run *main* on trio and return its status.

    The first Ctrl-C (or SIGTERM) cancels it, sees what is open closed in order and says *what_now*;
    a second one leaves at once, which costs nothing that is stored.
    """
    return trio.run(_until_interrupted, main, what_now)


async def _until_interrupted(main: Callable[[], Awaitable[int]], what_now: str) -> int:
    body = trio.CancelScope()
    interrupted: list[int] = []
    status = UNANSWERED
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with background(partial(_watch, signals, interrupted, body)):
            with body:
                status = await main()
    if body.cancelled_caught:
        tell(f"interrupted; {what_now}")
        return 128 + interrupted[0]
    return status


async def _watch(signals: AsyncIterator[int], interrupted: list[int], body: trio.CancelScope) -> None:
    async for number in signals:
        if interrupted:
            os._exit(128 + number)
        interrupted.append(number)
        body.cancel()


def _carried_out(work: Work) -> int:
    try:
        return work() or ANSWERED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_USE
    except click.UsageError as error:
        command = "" if error.ctx is None else f" (see {error.ctx.command_path} --help)"
        return _told(error.format_message().rstrip(".") + command, WRONG_USE)
    except click.ClickException as error:
        return _told(error.format_message(), WRONG_USE)
    except click.exceptions.Abort:
        return INTERRUPTED
    except BaseExceptionGroup as group:
        return _failed(root_cause(group))
    except (PiActorsError, OSError, KeyboardInterrupt) as error:
        return _failed(error)


def _failed(error: BaseException) -> int:
    match error:
        case BrokenPipeError():
            raise error
        case KeyboardInterrupt():
            return _told("interrupted", INTERRUPTED)
        case SessionInUse():
            return _told(str(error), IN_USE)
        case PiActorsError():
            return _told(str(error), WRONG_USE if isinstance(error, _NOT_AS_ASKED) else UNANSWERED)
        case OSError():
            where = f" ({error.filename})" if error.filename else ""
            return _told(f"{error.strerror or error}{where}", UNANSWERED)
        case _:
            raise error


def _told(text: str, status: int) -> int:
    tell(text)
    return status


def _drop_output() -> None:
    """Nobody reads standard output any more: what is left of it must not fail at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())

"""Every error that crosses the public surface, in three families.

*Refused*: asked wrongly or too late; nothing was stored.
*Failed*: a submission ended without an answer; the log says why.
*Broken*: nobody knows the truth of the store; close and reopen.
"""

from typing import Literal, TypeAlias, cast

UnansweredReason: TypeAlias = Literal[
    "aborted", "reset", "stale", "no_model", "model_error", "faulted", "recovery_exhausted"
]


class PiActorsError(Exception):
    """The root of all errors of this package."""


# Refused: nothing was stored.


class CommandRefused(PiActorsError):
    """The command does not fit the state it met. Nothing was stored."""


class AgentBusy(CommandRefused):
    """The agent is busy and the input was submitted with ``when_busy="reject"``."""


class InvalidValue(CommandRefused):
    """A value cannot be stored: not JSON-able, not finite, too deep or too large."""


class NotFound(CommandRefused):
    """No such agent, actor or submission in this session."""


class NotLive(CommandRefused):
    """An actor that was to be waited for has ended; its outcome is in the log."""


class UnknownName(CommandRefused):
    """The process's catalog has no tool, model or kind of that name."""


class SessionClosed(CommandRefused):
    """The session's context manager has ended."""


class SessionInUse(PiActorsError):
    """Another opener holds the session; the message names it. Nothing was changed."""


class NotSupported(PiActorsError):
    """The store, the platform or this version cannot do what was asked."""


# Failed: the log says why.


class Unanswered(PiActorsError):
    """A submission settled without an answer, for a stored *reason*."""

    def __init__(self, reason: UnansweredReason, detail: str | None) -> None:
        super().__init__(f"unanswered ({reason})" + (f": {detail}" if detail else ""))
        self.reason: UnansweredReason = reason
        self.detail = detail


# Broken: reopen, or repair.


class StoreError(PiActorsError):
    """The store itself failed (disk full, I/O error, lost file). Nothing more is written."""


class StoreUnreadable(StoreError):
    """The store cannot be opened as what it is; the message says what is missing."""


class Fenced(StoreError):
    """Another writer has extended or taken over the session. Nothing was stored."""


class LogCorrupt(StoreError):
    """A stored row does not decode or fails its checksum."""

    def __init__(self, session: str, position: int, problem: str) -> None:
        super().__init__(
            f"session {session!r} is damaged at position {position}: {problem}. "
            "Restore the store from a backup, or keep this file and start a new session."
        )
        self.session = session
        self.position = position


class LogTooNew(StoreError):
    """The log was written by a newer version and this one must not extend it."""

    def __init__(self, session: str, position: int, topic: str, problem: str) -> None:
        super().__init__(
            f"session {session!r} has {problem} at position {position} (topic {topic!r}). "
            "Upgrade pi-actors to open it."
        )
        self.session = session
        self.position = position
        self.topic = topic


class SessionFailed(PiActorsError):
    """The open session stopped because its store failed; reopen it to learn what was stored."""


def root_cause(error: BaseException) -> BaseException:
    """What went wrong first, without the groups that nurseries wrap around it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error

"""What is answered instead: an HTTP status, a code for programs and a message for people."""

from collections.abc import Mapping

from pi_actors.core.errors import (
    AgentBusy,
    CommandRefused,
    InvalidValue,
    NotFound,
    PiActorsError,
    SessionClosed,
    SessionFailed,
    StoreError,
    UnknownName,
)


class Refused(Exception):
    """The request is answered with ``status`` and ``{"error": {"code", "message"}}``."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


def refusal_of(error: PiActorsError) -> Refused:
    """How *error* of a session or store is told to a client."""
    status, code = _meaning(error)
    return Refused(status, code, str(error))


def _meaning(error: PiActorsError) -> tuple[int, str]:
    match error:
        case NotFound():
            return 404, "not_found"
        case AgentBusy():
            return 409, "agent_busy"
        case InvalidValue():
            return 400, "invalid_value"
        case UnknownName():
            return 400, "unknown_name"
        case SessionClosed():
            return 503, "session_closed"
        case CommandRefused():
            return 409, "refused"
        case SessionFailed():
            return 503, "session_failed"
        case StoreError():
            return 503, "store_failed"
        case _:
            return 500, "failed"

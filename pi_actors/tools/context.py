"""What a tool function is given besides its arguments."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from pi_actors.core.errors import CommandRefused, InvalidValue
from pi_actors.core.ids import EntryId
from pi_actors.core.messages import Diagnostic
from pi_actors.core.text import Json, clean_json, clean_text
from pi_actors.core.window import clean_output
from pi_actors.tools.environment import Env

if TYPE_CHECKING:
    from pi_actors.session import Agent, Session

Level: TypeAlias = Literal["info", "warn", "error"]


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """Which call is running: the tool's name, the assistant entry and the place among its calls."""

    name: str
    entry: EntryId
    index: int


class ToolPort(Protocol):
    """Where the reports of a running tool go. The runtime implements it.

    ``output`` and ``diagnose`` are called from the event loop and from worker threads, also at the
    same time, so they must be safe for that; ``details`` is awaited on the event loop only. A
    report may arrive while its call is being settled: the port refuses it then (CommandRefused).
    """

    def output(self, text: str) -> None:
        """Take output, clean already. It is stored within the progress interval."""
        ...

    def diagnose(self, diagnostic: Diagnostic) -> None:
        """Take a remark on the result."""
        ...

    async def details(self, value: Json) -> None:
        """Replace the details; returns when that is stored."""
        ...


class ToolContext:
    """A running call, as its tool sees it. It is closed when the call has its result.

    ``idempotency_key`` is the same on every rerun of the call. ``env`` is the world to act on.
    ``spill_dir``: a folder for output that is too long to be shown, None where there is none.
    """

    def __init__(
        self,
        *,
        port: ToolPort,
        call: ToolCall,
        idempotency_key: str,
        env: Env,
        agent: "Agent",
        session: "Session",
        spill_dir: Path | None = None,
    ) -> None:
        self.call = call
        self.idempotency_key = idempotency_key
        self.env = env
        self.agent = agent
        self.session = session
        self.spill_dir = spill_dir
        self._port = port
        self._closed = False

    def output(self, text: str) -> None:
        """Show *text* as output of the running call, without control characters. Any thread.

        Raises:
            CommandRefused: the call has its result.
            InvalidValue: *text* is not text.
        """
        self._check_open("output")
        _check_text(text, "output")
        self._port.output(clean_output(text))

    def diagnose(self, level: Level, text: str) -> None:
        """Add a remark to the result, for people and for the model. Any thread.

        Raises:
            CommandRefused: the call has its result.
            InvalidValue: *text* is not text, or *level* is not "info", "warn" or "error".
        """
        self._check_open("a remark")
        _check_text(text, "a remark")
        if level not in ("info", "warn", "error"):
            raise InvalidValue(f"the level of a remark is {level!r}; it must be info, warn or error")
        self._port.diagnose(Diagnostic(level=level, code="note", text=clean_text(text, "a remark")))

    async def details(self, value: Json) -> None:
        """Replace the details that people see of the running call; returns when they are stored.

        Raises:
            CommandRefused: the call has its result.
            InvalidValue: *value* is not JSON.
        """
        self._check_open("details")
        await self._port.details(clean_json(value, "the details of a tool"))

    def close(self) -> None:
        """The call has its result: nothing is taken any more."""
        self._closed = True

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise CommandRefused(
                f"{what} of call {self.call.index} of entry {self.call.entry} ({self.call.name}) came after "
                "its result; report before the tool returns"
            )


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise InvalidValue(f"{what} is a {type(text).__name__}; it must be text")

"""A running call without a runtime: what its tool reports is kept in order."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio

from pi_actors.core.messages import Diagnostic
from pi_actors.core.text import Json
from pi_actors.tools import Env, LocalEnv, Tool, ToolCall, ToolContext, ToolResult
from pi_actors.tools.tool import run

if TYPE_CHECKING:
    from pi_actors.session import Agent, Session
    from pi_actors.tools.context import Ownership


class RecordingPort:
    """A ToolPort that keeps what it is told. Appending to a list is safe in every thread."""

    def __init__(self) -> None:
        self.outputs: list[str] = []
        self.diagnostics: list[Diagnostic] = []
        self.reported: list[Json] = []
        self.any_output = trio.Event()

    def output(self, text: str) -> None:
        self.outputs.append(text)
        self.any_output.set()

    def diagnose(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)

    async def details(self, value: Json) -> None:
        await trio.lowlevel.checkpoint()
        self.reported.append(value)


def context(port: RecordingPort, env: Env, *, spill_dir: Path | None = None) -> ToolContext:
    """A context of call 2 of entry 7, of the tool "probe"."""
    return ToolContext(
        port=port,
        call=ToolCall(name="probe", entry=7, index=2),
        idempotency_key="uuid:7:2",
        env=env,
        # No tool that is tested here asks for them.
        agent=cast("Agent", None),
        session=cast("Session", None),
        owning=cast("Ownership", None),
        spill_dir=spill_dir,
    )


async def called(tool: Tool, folder: Path, arguments: str) -> ToolResult:
    """The result of an async tool that works in *folder*, called as a model does."""
    return await run(tool, context(RecordingPort(), LocalEnv(folder)), tool.parse(arguments))


def text_of(result: ToolResult) -> str:
    """The text of a result."""
    return "".join(getattr(part, "text", "") for part in result.parts)

"""The tool that runs commands: bash."""

from pathlib import Path
from typing import Annotated, Final

import msgspec

from pi_actors.core.window import OutputWindow, append, clean_output, truncated
from pi_actors.tools.context import ToolContext
from pi_actors.tools.environment import EnvError, ExecResult
from pi_actors.tools.refusals import told_to_the_model
from pi_actors.tools.result import ToolResult
from pi_actors.tools.tool import tool

SHOWN_BYTES: Final = 48 * 1024
"""A little less than the usual window, so that the closing remarks still fit."""

SHOWN_LINES: Final = 1_900
TIMEOUT_S_MAX: Final = 3_600


@tool
@told_to_the_model
async def bash(
    ctx: ToolContext,
    command: Annotated[str, msgspec.Meta(description="what the shell runs")],
    timeout: Annotated[  # noqa: ASYNC109 - the model's argument, not a way to cancel
        float, msgspec.Meta(gt=0, description=f"seconds until it is ended, {TIMEOUT_S_MAX} at most")
    ] = 120,
) -> ToolResult:
    """Run a shell command in the working directory and return its output and exit status.

    Output and errors are shown as they come; of long output the end. Nothing can be typed into it.
    """
    window = OutputWindow(max_bytes=SHOWN_BYTES, max_lines=SHOWN_LINES)

    def show(text: str) -> None:
        nonlocal window
        window = append(window, clean_output(text))
        ctx.output(text)

    seconds = min(timeout, TIMEOUT_S_MAX)
    try:
        ended = await ctx.env.exec(
            command,
            timeout_ms=seconds * 1000,
            on_output=show,
            spill=_spill_file(ctx),
            spill_bytes=SHOWN_BYTES,
            spill_lines=SHOWN_LINES,
            on_spill=lambda path: ctx.diagnose("info", f"The complete output is in {path}."),
        )
    except EnvError as error:
        if error.code != "timeout":
            raise
        return _shown(window, f"[Ended after {seconds:g} s, with all that it started.]", is_error=True)
    return _shown(window, _remark(ended), is_error=ended.status != 0)


def _spill_file(ctx: ToolContext) -> Path | None:
    if ctx.spill_dir is None:
        return None
    return ctx.spill_dir / f"bash-{ctx.call.entry}-{ctx.call.index}.log"


def _remark(ended: ExecResult) -> str:
    if ended.signal is not None:
        return f"[Ended by signal {ended.signal}, exit status {ended.status}.]"
    return f"[Exit status {ended.status}.]" if ended.status != 0 else ""


def _shown(window: OutputWindow, remark: str, *, is_error: bool) -> ToolResult:
    left_out = truncated(window)
    start = f"[{left_out.text}]\n" if left_out is not None else ""
    text = start + (window.text() or "[No output.]")
    if remark:
        text += remark if text.endswith("\n") else f"\n{remark}"
    return ToolResult(text, is_error=is_error)

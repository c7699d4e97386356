"""What a running tool reports on its way, from any thread, and how its result is made."""

import threading

import msgspec
import trio

from pi_actors.actors.tool.decider import Started
from pi_actors.actors.tool.messages import ReportDetails, SettleTool, StreamOutput
from pi_actors.core.decider import Send
from pi_actors.core.messages import Blob, Diagnostic, Text
from pi_actors.core.text import Json
from pi_actors.core.window import OutputWindow, append, clean_output, cut_window, truncated_remark
from pi_actors.runtime.errands import Errand
from pi_actors.runtime.progress import Pacer
from pi_actors.tools.result import ToolResult


class Reports:
    """The port of one running tool. Output is buffered in a window, so a flood costs no memory."""

    def __init__(self, errand: Errand, started: Started, interval_ms: int) -> None:
        self._errand = errand
        self._window = msgspec.structs.replace(started.output, pieces=(), size=0, newlines=0)
        self._all = self._window
        self._buffer = self._window
        self._remarks: tuple[Diagnostic, ...] = ()
        self._unstored_remarks: tuple[Diagnostic, ...] = ()
        self._lock = threading.Lock()
        self._token = trio.lowlevel.current_trio_token()
        self.pacer = Pacer(self._flush, interval_ms, first_waits=False)

    def output(self, text: str) -> None:
        with self._lock:
            self._buffer = append(self._buffer, text)
            self._all = append(self._all, text)
        self._touch()

    def diagnose(self, diagnostic: Diagnostic) -> None:
        with self._lock:
            self._remarks += (diagnostic,)
            self._unstored_remarks += (diagnostic,)
        self._touch()

    async def details(self, value: Json) -> None:
        await self._errand.report(ReportDetails(details=value))

    def rest(self) -> tuple[Send, ...]:
        """What was buffered and is not stored yet, to go with the result's commit."""
        stream = self._taken()
        return () if stream is None else (Send(self._errand.actor, stream),)

    def settled(self, result: ToolResult, *, duration_ms: int | None) -> SettleTool:
        """*result* within the window; a tool that returned nothing has shown its output as its result."""
        content, cut = _windowed(result.parts, self._window)
        if not content:
            content, cut = _windowed(_parts(self._all.text()), self._window)
            cut = cut or _cut_remark(self._all.skipped_bytes, self._window)
        return SettleTool(
            content=content,
            is_error=result.is_error,
            diagnostics=(*self._remarks, *cut),
            details=result.details,
            usage=result.usage,
            terminate=result.terminate,
            add_tools=tuple(result.add_tools),
            duration_ms=duration_ms,
        )

    def threw(self, text: str, *, duration_ms: int | None) -> SettleTool:
        """The result of a tool that raised: what it had shown, and the error."""
        content, cut = _windowed(_parts(self._all.text()), self._window)
        error = Diagnostic(level="error", code="tool_error", text=clean_output(text))
        return SettleTool(
            content=content,
            is_error=True,
            threw=True,
            diagnostics=(*self._remarks, *cut, error),
            duration_ms=duration_ms,
        )

    def _touch(self) -> None:
        self._token.run_sync_soon(self.pacer.touch)

    def _taken(self) -> StreamOutput | None:
        with self._lock:
            buffer, self._buffer = self._buffer, self._window
            remarks, self._unstored_remarks = self._unstored_remarks, ()
        if buffer.size == 0 and not remarks:
            return None
        return StreamOutput(text=buffer.text(), skipped_bytes=buffer.skipped_bytes, diagnostics=remarks)

    async def _flush(self) -> None:
        stream = self._taken()
        if stream is not None:
            await self._errand.report(stream)


def _parts(text: str) -> tuple[Text, ...]:
    return (Text(text=text),) if text else ()


def _windowed(
    parts: tuple[Text | Blob, ...], window: OutputWindow
) -> tuple[tuple[Text | Blob, ...], tuple[Diagnostic, ...]]:
    """*parts* with each text within the window, and the remark on what was left out."""
    kept: list[Text | Blob] = []
    skipped = 0
    for part in parts:
        if isinstance(part, Text):
            cut = cut_window(
                clean_output(part.text),
                max_bytes=window.max_bytes,
                max_lines=window.max_lines,
                keep_head=window.keep_head,
            )
            skipped += cut.skipped_bytes
            part = Text(text=cut.text, opaque=part.opaque)
        kept.append(part)
    return tuple(kept), _cut_remark(skipped, window)


def _cut_remark(skipped_bytes: int, window: OutputWindow) -> tuple[Diagnostic, ...]:
    remark = truncated_remark(
        skipped_bytes, max_bytes=window.max_bytes, max_lines=window.max_lines, keep_head=window.keep_head
    )
    return () if remark is None else (remark,)

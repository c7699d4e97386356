"""The bounded window onto a tool's output: what of it is kept, and how much was left out.

Only whole lines are kept. Sizes are bytes of UTF-8; a line without a newline at the end counts as
a line. Text that comes in must be normalised (see ``clean_output``).
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from pi_actors.core.messages import Diagnostic
from pi_actors.core.text import normalise

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_SLACK: Final = 4
"""More bytes than one character can be long: a line cut to the limit plus this is still too long."""


class Windowed(msgspec.Struct, frozen=True, kw_only=True):
    """What a window shows. A line of which a part is shown does not count as skipped."""

    text: str
    skipped_bytes: int = 0
    skipped_lines: int = 0


def cut_window(text: str, *, max_bytes: int, max_lines: int, keep_head: bool) -> Windowed:
    """Return the start (``keep_head``) or the end of *text* that fits, in whole lines.

    Where not even one line fits, it is cut at the byte limit on a character boundary.
    """
    size = _size(text)
    if size <= max_bytes and text.count("\n") < max_lines:
        return Windowed(text=text)
    lines = _lines(text)
    kept = _fitting(lines if keep_head else reversed(lines), max_bytes, max_lines)
    if kept == 0:
        shown, kept = _cut_line(lines[0 if keep_head else -1], max_bytes, keep_head), 1
    else:
        shown = "".join(lines[:kept] if keep_head else lines[-kept:])
    return Windowed(text=shown, skipped_bytes=size - _size(shown), skipped_lines=len(lines) - kept)


class OutputWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window that grows by ``append``, as a value. It holds at most about twice its limits.

    ``pieces`` shrink from each to the next, so that growing costs little more than what is added.
    ``dropped_bytes`` are gone for good; ``full``: a window that keeps the head takes nothing more.
    """

    max_bytes: int
    max_lines: int
    keep_head: bool = False
    pieces: tuple[str, ...] = ()
    size: int = 0
    newlines: int = 0
    dropped_bytes: int = 0
    full: bool = False

    def shown(self) -> Windowed:
        """What of everything appended is to be seen. Lines dropped earlier are not counted."""
        windowed = _cut(self, self.max_bytes)
        return msgspec.structs.replace(windowed, skipped_bytes=windowed.skipped_bytes + self.dropped_bytes)

    def text(self) -> str:
        """The text to be seen."""
        return self.shown().text

    @property
    def skipped_bytes(self) -> int:
        """How many bytes were appended (or reported as skipped) and are not to be seen."""
        return self.shown().skipped_bytes


def append(window: OutputWindow, text: str, skipped_bytes: int = 0) -> OutputWindow:
    """Return *window* with *text* added, of which *skipped_bytes* have been left out before.

    A window of the end takes them as standing between what it holds and *text*, so what it holds
    is dropped too; a window of the head takes them as following *text*, and is full.
    """
    size = _size(text)
    if window.full:
        return msgspec.structs.replace(window, dropped_bytes=window.dropped_bytes + size + skipped_bytes)
    if window.keep_head:
        grown = _bounded(_grown(window, text, size))
        dropped = grown.dropped_bytes + skipped_bytes
        return msgspec.structs.replace(grown, dropped_bytes=dropped, full=grown.full or skipped_bytes > 0)
    return _bounded(_grown(_after_gap(window, skipped_bytes), text, size))


def truncated(window: OutputWindow) -> Diagnostic | None:
    """The remark that a window leaves something out, None where it shows everything."""
    return truncated_remark(
        window.skipped_bytes,
        max_bytes=window.max_bytes,
        max_lines=window.max_lines,
        keep_head=window.keep_head,
    )


def truncated_remark(
    skipped_bytes: int, *, max_bytes: int, max_lines: int, keep_head: bool
) -> Diagnostic | None:
    """The remark that *skipped_bytes* of an output were left out, None where it is 0."""
    if skipped_bytes == 0:
        return None
    kept, left_out = ("start", "after") if keep_head else ("end", "before")
    text = (
        f"Output truncated: only its {kept} is shown, {skipped_bytes} bytes {left_out} it were left out "
        f"(the limit is {max_bytes} bytes and {max_lines} lines)."
    )
    return Diagnostic(level="warn", code="truncated", text=text)


def clean_output(text: str) -> str:
    """Return *text* normalised and without control characters, but for tab and newline."""
    return _CONTROL.sub("", normalise(text))


def _after_gap(window: OutputWindow, skipped_bytes: int) -> OutputWindow:
    if skipped_bytes == 0:
        return window
    dropped = window.dropped_bytes + window.size + skipped_bytes
    return msgspec.structs.replace(window, pieces=(), size=0, newlines=0, dropped_bytes=dropped)


def _grown(window: OutputWindow, text: str, size: int) -> OutputWindow:
    """Join *text* with the pieces that are not longer than it: each byte moves a few times only."""
    if not text:
        return window
    pieces = window.pieces
    joined = text
    while pieces and len(pieces[-1]) <= len(joined):
        joined = pieces[-1] + joined
        pieces = pieces[:-1]
    return msgspec.structs.replace(
        window,
        pieces=(*pieces, joined),
        size=window.size + size,
        newlines=window.newlines + text.count("\n"),
    )


def _bounded(window: OutputWindow) -> OutputWindow:
    """Drop what can never be seen again: at once past the head, now and then before the end."""
    if window.keep_head:
        if window.size <= window.max_bytes and window.newlines < window.max_lines:
            return window
        cut = _cut(window, window.max_bytes)
        return _holding(window, cut, full=cut.skipped_bytes > 0)
    if window.size <= 2 * window.max_bytes + _SLACK and window.newlines <= 2 * window.max_lines:
        return window
    return _holding(window, _cut(window, window.max_bytes + _SLACK), full=False)


def _holding(window: OutputWindow, cut: Windowed, *, full: bool) -> OutputWindow:
    return msgspec.structs.replace(
        window,
        pieces=(cut.text,) if cut.text else (),
        size=_size(cut.text),
        newlines=cut.text.count("\n"),
        dropped_bytes=window.dropped_bytes + cut.skipped_bytes,
        full=full,
    )


def _cut(window: OutputWindow, max_bytes: int) -> Windowed:
    return cut_window(
        "".join(window.pieces), max_bytes=max_bytes, max_lines=window.max_lines, keep_head=window.keep_head
    )


def _fitting(lines: Iterable[str], max_bytes: int, max_lines: int) -> int:
    left, count = max_bytes, 0
    for line in lines:
        left -= _size(line)
        if left < 0 or count == max_lines:
            break
        count += 1
    return count


def _cut_line(line: str, max_bytes: int, keep_head: bool) -> str:
    encoded = line.encode()
    part = encoded[:max_bytes] if keep_head else encoded[max(0, len(encoded) - max_bytes) :]
    return part.decode("utf-8", "ignore")


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())

"""The tools that look at one place: read a file, list a directory."""

from typing import Annotated, Final

import msgspec

from pi_actors.tools.context import ToolContext
from pi_actors.tools.environment import FileInfo, TextReader
from pi_actors.tools.refusals import Answer, Refused, told_to_the_model
from pi_actors.tools.tool import tool

SHOWN_BYTES: Final = 48 * 1024
"""A little less than the usual window, so that the closing remark still fits."""

SHOWN_LINES: Final = 1_900
SNIFFED_BYTES: Final = 8 * 1024
COUNTED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Larger files are not read to their end only to tell how many lines they have."""

COUNTLESS: Final = 2**62


@tool(replay="safe", keep="head")
@told_to_the_model
async def read(
    ctx: ToolContext,
    path: Annotated[str, msgspec.Meta(description="file, absolute or relative to the working directory")],
    offset: Annotated[int, msgspec.Meta(ge=1, description="number of the first line to show")] = 1,
    limit: Annotated[int, msgspec.Meta(ge=1, description="how many lines to show at most")] = SHOWN_LINES,
) -> Answer:
    """Read a text file. Long files are shown in parts: go on with offset where the last part ended."""
    size = await _check_text(ctx, path)
    async with ctx.env.open_text(path) as reader:
        passed = await reader.skip_lines(offset - 1)
        part = await _next_part(reader, min(limit, SHOWN_LINES))
        if not part.lines:
            return _nothing_there(path, offset, passed)
        return "".join(part.lines) + await _remark(reader, part, offset, size)


@tool(replay="safe", keep="head")
@told_to_the_model
async def ls(
    ctx: ToolContext,
    path: Annotated[str, msgspec.Meta(description="directory, by default the working directory")] = ".",
    limit: Annotated[int, msgspec.Meta(ge=1, description="how many names to show at most")] = 500,
) -> Answer:
    """List a directory by name. Directories end with "/", links with "@"."""
    found = await ctx.env.list(path)
    if not found:
        return f"{path} is empty."
    shown = [_marked(info) for info in found[:limit]]
    if len(found) > limit:
        shown.append(f"[{len(found) - limit} more; raise limit to see them]")
    return "\n".join(shown)


async def _check_text(ctx: ToolContext, path: str) -> int:
    info = await ctx.env.stat(path)
    if info.kind == "directory":
        raise Refused(f"{path} is a directory; use ls to see what it holds.")
    if b"\0" in await ctx.env.read_bytes(path, limit=SNIFFED_BYTES):
        raise Refused(f"{path} is a binary file of {info.size_bytes} bytes; read shows text only.")
    return info.size_bytes


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that are shown. ``cut``: only the start of the one line. ``left_out``: one more was passed."""

    lines: tuple[str, ...]
    cut: bool = False
    left_out: bool = False


async def _next_part(reader: TextReader, limit: int) -> _Part:
    """Read up to *limit* whole lines that fit together, or the start of one that is too long alone."""
    lines: list[str] = []
    left = SHOWN_BYTES
    while len(lines) < limit and left > 0:
        line = await reader.read_line(max_bytes=left)
        if line is None:
            break
        if not line.ended and await _passes_rest(reader):
            return _Part(lines=tuple(lines), left_out=True) if lines else _Part(lines=(line.text,), cut=True)
        lines.append(line.text + "\n" if line.ended else line.text)
        left -= len(lines[-1].encode())
    return _Part(lines=tuple(lines))


async def _passes_rest(reader: TextReader) -> bool:
    """Pass over the rest of the line of which a piece was read; False where that was all of it."""
    rest = await reader.read_line(max_bytes=1)
    if rest is not None and not rest.ended:
        await reader.skip_lines(1)
    return rest is not None


async def _remark(reader: TextReader, part: _Part, offset: int, size: int) -> str:
    """Say what is missing and where to go on; nothing where the file ends here."""
    last = offset + len(part.lines) - 1
    cut = f"\n[Line {last} is longer than {SHOWN_BYTES} bytes; its rest is not shown.]" if part.cut else ""
    go_on = f"Go on with offset={last + 1}.]"
    if size > COUNTED_BYTES_MAX:
        more = part.left_out or await reader.skip_lines(1) > 0
        return cut + (f"\n[Lines {offset}-{last}; more follow. {go_on}" if more else "")
    following = part.left_out + await reader.skip_lines(COUNTLESS)
    return cut + (f"\n[Lines {offset}-{last} of {last + following}. {go_on}" if following else "")


def _nothing_there(path: str, offset: int, passed: int) -> Answer:
    if offset == 1:
        return f"{path} is empty."
    raise Refused(f"{path} has only {passed} lines; offset={offset} is past its end.")


def _marked(info: FileInfo) -> str:
    return info.name + {"directory": "/", "link": "@"}.get(info.kind, "")

"""The tools that change files: write a whole file, replace one place of it."""

from pathlib import Path
from typing import Annotated, Final

import msgspec

from pi_actors.tools.context import ToolContext
from pi_actors.tools.environment import EnvError
from pi_actors.tools.refusals import Answer, Refused, told_to_the_model
from pi_actors.tools.result import ToolResult
from pi_actors.tools.tool import tool

EDITED_BYTES_MAX: Final = 32 * 1024 * 1024
PLACES_NAMED: Final = 10
TRIES: Final = 100
"""How often an edit starts again because another one changed the file under it."""


@tool
@told_to_the_model
async def write(
    ctx: ToolContext,
    path: Annotated[str, msgspec.Meta(description="file, absolute or relative to the working directory")],
    content: Annotated[str, msgspec.Meta(description="the whole new content")],
) -> Answer:
    """Write a file: create it, with its directories, or replace all of its content."""
    parent = str(Path(path).parent)
    if not await ctx.env.exists(parent):
        await ctx.env.makedir(parent)
    data = content.encode()
    await ctx.env.write(path, data)
    return f"Wrote {len(data)} bytes to {path}."


@tool
@told_to_the_model
async def edit(
    ctx: ToolContext,
    path: Annotated[str, msgspec.Meta(description="file, absolute or relative to the working directory")],
    old_text: Annotated[str, msgspec.Meta(description="text that stands exactly once in the file")],
    new_text: Annotated[str, msgspec.Meta(description="what replaces it")],
) -> Answer:
    """Replace one exact piece of a text file. Give enough of what surrounds it to make it unique."""
    if not old_text:
        raise Refused("old_text is empty; give the text to be replaced, or use write for a whole file.")
    if old_text == new_text:
        raise Refused("old_text and new_text are the same; nothing was changed.")
    for _ in range(TRIES):
        before = await _content(ctx, path)
        after, line = _replaced(before, path, old_text, new_text)
        try:
            await ctx.env.write(path, after, instead_of=before)
        except EnvError as error:
            if error.code != "changed":
                raise
            continue
        return ToolResult(
            f"Replaced the text at line {line} of {path}.", details={"path": path, "line": line}
        )
    raise Refused(f"{path} keeps changing; nothing was written. Try again.")


async def _content(ctx: ToolContext, path: str) -> bytes:
    data = await ctx.env.read_bytes(path, limit=EDITED_BYTES_MAX + 1)
    if len(data) > EDITED_BYTES_MAX:
        raise Refused(f"{path} is larger than {EDITED_BYTES_MAX} bytes, too large for edit.")
    return data


def _replaced(before: bytes, path: str, old_text: str, new_text: str) -> tuple[bytes, int]:
    """Return the new content and the number of the line where the change starts."""
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 text; edit cannot change it.") from error
    if "\r\n" in text and "\r" not in old_text:
        old_text, new_text = _with_carriage_returns(old_text), _with_carriage_returns(new_text)
    places = _places(text, old_text)
    if len(places) != 1:
        raise Refused(_not_unique(text, path, places))
    start = places[0]
    after = text[:start] + new_text + text[start + len(old_text) :]
    return after.encode(), _line_number(text, start)


def _places(text: str, wanted: str) -> list[int]:
    """Where *wanted* starts in *text*, overlapping ones too."""
    places: list[int] = []
    start = text.find(wanted)
    while start >= 0:
        places.append(start)
        start = text.find(wanted, start + 1)
    return places


def _not_unique(text: str, path: str, places: list[int]) -> str:
    if not places:
        return (
            f"old_text does not stand in {path}; it must match exactly, spaces and line breaks included. "
            "Read the file and copy the text."
        )
    lines = ", ".join(str(_line_number(text, place)) for place in places[:PLACES_NAMED])
    more = ", …" if len(places) > PLACES_NAMED else ""
    return (
        f"old_text stands {len(places)} times in {path} (lines {lines}{more}); nothing was changed. "
        "Add surrounding lines until it is unique."
    )


def _line_number(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _with_carriage_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")

"""The tools that look through a tree of files: grep and find.

They run ``search_script`` as a command of the environment. A regular expression of a model may take
for ever, and Python gives no other thread a turn meanwhile: in a process of its own it can be ended.
"""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec

from pi_actors.core.text import Json
from pi_actors.tools.context import ToolContext
from pi_actors.tools.environment import EnvError
from pi_actors.tools.refusals import Answer, Refused, told_to_the_model
from pi_actors.tools.result import ToolResult
from pi_actors.tools.tool import tool

SEARCH_MS: Final = 30_000
SHOWN_BYTES: Final = 48 * 1024
SCRIPT: Final = Path(__file__).with_name("search_script.py")

Where: TypeAlias = Annotated[
    str, msgspec.Meta(description="file or directory, by default the working directory")
]
Limit: TypeAlias = Annotated[
    int, msgspec.Meta(ge=1, le=10_000, description="how many results to show at most")
]


@tool(replay="safe", keep="head")
@told_to_the_model
async def grep(
    ctx: ToolContext,
    pattern: Annotated[str, msgspec.Meta(description="Python regular expression, searched line by line")],
    path: Where = ".",
    glob: Annotated[
        str | None, msgspec.Meta(description="only files like this, such as *.py or src/**/*.{ts,tsx}")
    ] = None,
    ignore_case: Annotated[bool, msgspec.Meta(description="whether A and a are the same")] = False,
    limit: Limit = 100,
) -> Answer:
    """Search files for a regular expression; answers path:line:text. Binary files and .git are skipped."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(f"{pattern!r} is no regular expression: {error}.") from error
    asked = {"pattern": pattern, "glob": glob, "ignore_case": ignore_case}
    return await _searched(ctx, "grep", path, limit, asked)


@tool(replay="safe", keep="head")
@told_to_the_model
async def find(
    ctx: ToolContext,
    pattern: Annotated[
        str, msgspec.Meta(description="glob such as *.py (any depth), src/*.py or **/tests/*.{js,ts}")
    ],
    path: Where = ".",
    limit: Limit = 1_000,
) -> Answer:
    """Find files and directories by a glob pattern; directories end with "/". .git is skipped."""
    return await _searched(ctx, "find", path, limit, {"glob": pattern})


async def _searched(ctx: ToolContext, what: str, path: str, limit: int, asked: dict[str, Json]) -> Answer:
    if not await ctx.env.exists(path):
        raise Refused(f"{path} does not exist; the working directory is {ctx.env.cwd}.")
    request = asked | {"what": what, "path": path, "limit": limit, "bytes_max": SHOWN_BYTES}
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(SCRIPT), json.dumps(request)]
    output: list[str] = []
    try:
        ended = await ctx.env.exec(command, timeout_ms=SEARCH_MS, on_output=output.append)
    except EnvError as error:
        if error.code != "timeout":
            raise
        return _too_slow("".join(output))
    return ToolResult("".join(output), is_error=ended.status != 0)


def _too_slow(found: str) -> ToolResult:
    advice = (
        f"The search was ended after {SEARCH_MS // 1000} s. Use a simpler pattern or a smaller directory."
    )
    return ToolResult(f"{found}{advice}", is_error=True)

"""The demo's agent as a process of its own: the one that is killed, and the one that goes on.

Both run this same program. It opens the session and asks for the task under one request id; whether
that starts the work, takes it up or only waits for its answer is for the log to say. The one that
is to die stops at its moment, says so on standard output, and waits there for the SIGKILL.
"""

import os
import sys
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

import msgspec
import trio

from pi_actors.actors.agent.messages import ToolResultSettled
from pi_actors.actors.tool.messages import KIND as TOOL_KIND
from pi_actors.actors.tool.messages import ToolInput
from pi_actors.cli.demo.project import times_wanted
from pi_actors.cli.demo.story import REQUEST_ID, TASK
from pi_actors.cli.failures import status_of
from pi_actors.cli.opening import Opening, opened, work_in
from pi_actors.core.errors import Unanswered
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.record import Commit
from pi_actors.core.state import SessionState
from pi_actors.tools import Tool, coding_tools

Moment: TypeAlias = Literal["before the start", "before the result", "before the request"]

CHANGING: Final = frozenset({"edit", "write", "bash"})
"""The tools that are never repeated by themselves."""

ABANDONED: Final = 70


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to do. ``stop``: the moment at which it waits for its end, if any."""

    store: str
    session: str
    project: str
    model: str
    base_url: str | None = None
    stop: Moment | None = None


async def work(order: Order) -> int:
    """Ask for the task and return once it is answered, or not. Stops for ever where it was told to."""
    project = Path(order.project)
    tools = coding_tools()
    if order.stop == "before the result":
        tools = tuple(stopping_after_change(tool, project) for tool in tools)
    opening = Opening(
        store=order.store,
        session=order.session,
        model=order.model,
        base_url=order.base_url,
        tools=tools,
    )
    async with opened(opening, asks=True) as session:
        await work_in(session, project)
        session.live.line.listen(partial(stop_in_time, order.stop, project))
        session.resume()
        try:
            await session.root.ask(TASK, request_id=REQUEST_ID)
        except Unanswered:
            return 1
    return 0


def stop_in_time(stop: Moment | None, project: Path, commit: Commit, _: SessionState) -> None:
    """Stop where the moment has come.

    A listener runs between the acknowledgement of a commit and the effects that it leads to, and
    while it waits the process does nothing else.
    """
    events = [recorded.event for recorded in commit]
    match stop:
        case "before the start":
            born = [event for event in events if isinstance(event, WorkSpawned) and event.kind == TOOL_KIND]
            calls = [msgspec.msgpack.decode(event.input, type=ToolInput) for event in born]
            if any(call.name in CHANGING for call in calls):
                wait_for_the_end(stop)
        case "before the request":
            results = [event for event in events if isinstance(event, ToolResultSettled) and event.own]
            if results and times_wanted(project) > 0:
                wait_for_the_end(stop)
        case "before the result" | None:
            pass


def stopping_after_change(tool: Tool, project: Path) -> Tool:
    """*tool* with a stop between what it does and its result, once the line is in the file."""

    async def watched(*context: object, **arguments: object) -> object:
        result = await cast("Awaitable[object]", tool.function(*context, **arguments))
        if times_wanted(project) > 0:
            wait_for_the_end("before the result")
        return result

    return msgspec.structs.replace(tool, function=watched)


def wait_for_the_end(moment: Moment) -> None:
    """Say that *moment* has come and do nothing more, until SIGKILL or until the parent is gone."""
    sys.stdout.write(f"{moment}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(ABANDONED)


if __name__ == "__main__":
    sys.exit(status_of(lambda: trio.run(work, msgspec.json.decode(sys.argv[1], type=Order))))

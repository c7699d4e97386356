"""``tree``: who lives in a session, in which state, and what waits for what."""

import sys
from functools import partial

import click
from rich.live import Live

from pi_actors.cli.drawing import tree_of
from pi_actors.cli.failures import ANSWERED, until_interrupted
from pi_actors.cli.json_lines import json_line
from pi_actors.cli.paper import console_of
from pi_actors.cli.watching import Watched, watching
from pi_actors.core.ids import SessionId
from pi_actors.runtime.threads import in_thread
from projections.fold import as_json as plain


def tree(
    where: str, session: SessionId | None, token: str | None, *, follow: bool | None, as_json: bool
) -> int:
    """Show the tree, and with *follow* each change, until interrupted. None: on a terminal only."""
    follows = (sys.stdout.isatty() and not as_json) if follow is None else follow

    async def main() -> int:
        async with watching(where, session, None, token) as watched:
            if as_json:
                await _print(watched, follows)
            else:
                await _draw(watched, follows)
        return ANSWERED

    return until_interrupted(main, what_now="nothing was changed")


async def _print(watched: Watched, follows: bool) -> None:
    """A line of JSON for each tree."""
    told: object = None
    while True:
        seen = watched.seen
        if seen.tree != told:
            told = seen.tree
            click.echo(json_line({"position": seen.position, "at": seen.at, "tree": plain(seen.tree)}))
        if not follows:
            return
        await watched.change()


async def _draw(watched: Watched, follows: bool) -> None:
    console = console_of()
    if not follows:
        console.print(tree_of(watched.seen.tree, _title(watched)))
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            drawn = tree_of(watched.seen.tree, _title(watched))
            await in_thread(partial(live.update, drawn, refresh=True))
            await watched.change()


def _title(watched: Watched) -> str:
    trouble = "" if watched.trouble is None else f" · {watched.trouble}"
    return f"{watched.name} · position {watched.seen.position} · {watched.seen.at}{trouble}"

"""``attach``: a live session in the terminal, in a file or on a server, and commands where they are taken."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import msgspec
import trio
from rich.console import Console
from rich.live import Live
from rich.text import Text as Styled

from pi_actors.cli.drawing import screen_of
from pi_actors.cli.failures import ANSWERED, until_interrupted
from pi_actors.cli.json_lines import json_line
from pi_actors.cli.keys import Line, Wish, keys_of, read_keys
from pi_actors.cli.paper import FAULT, QUIET, WARNING
from pi_actors.cli.summaries import compact_wish
from pi_actors.cli.watching import Watched, is_address, named_remote, watching
from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.runtime.scopes import background
from pi_actors.runtime.threads import in_thread
from projections import Frame, View, attach, fold, follow
from projections.attach import client_for
from projections.fold import Document

if TYPE_CHECKING:
    from pi_actors.cli.remote_control import RemoteControl

DRAW_EVERY_S: Final = 0.05
WHAT_NOW: Final = "the session goes on without you"

COMMANDS_HINT: Final = "Enter sends, and steers while the agent works · Esc stops it · Ctrl-D leaves"
READING_HINT: Final = "only watching: no commands are taken here · Ctrl-D leaves"


class Attaching(msgspec.Struct, frozen=True, kw_only=True):
    """What to attach to. ``where``: a file or a server's address."""

    where: str
    session: SessionId | None
    agent: ActorId
    token: str | None


def attach_here(attaching: Attaching, *, as_json: bool) -> int:
    """Show the agent until the user leaves; return the exit status. Changes nothing by itself."""
    if as_json:
        return until_interrupted(partial(_print_frames, attaching), what_now=WHAT_NOW)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("attach needs a terminal; --json prints frames without one")
    return until_interrupted(partial(_show, attaching), what_now=WHAT_NOW)


async def _print_frames(attaching: Attaching) -> int:
    """A line for each frame, the first one a snapshot."""
    async with _view(attaching) as view:
        first = {"position": view.position, "snapshot": view.value}
        click.echo(json_line({"type": "frame", **first}))
        async for frame in view:
            click.echo(json_line({"type": "frame", **_named(frame)}))
    return ANSWERED


def _named(frame: Frame) -> dict[str, object]:
    named: dict[str, object] = fold.as_json(frame)
    return named


@asynccontextmanager
async def _view(attaching: Attaching) -> AsyncGenerator[View]:
    where, session, agent = attaching.where, attaching.session, attaching.agent
    if is_address(where):
        remote = named_remote(where, session, agent)
        async with attach(remote.agent_url, token=attaching.token) as view:
            yield view
    else:
        async with follow(where, session or "main", agent=agent) as view:
            yield view


async def _show(attaching: Attaching) -> int:
    watch = watching(attaching.where, attaching.session, attaching.agent, attaching.token)
    async with watch as watched, _control(attaching) as control:
        await _Terminal(watched, attaching.agent, control).run()
    return ANSWERED


@asynccontextmanager
async def _control(attaching: Attaching) -> AsyncGenerator["RemoteControl | None"]:
    """What takes commands, if anything does."""
    if not is_address(attaching.where):
        yield None
        return
    from pi_actors.cli.remote_control import RemoteControl

    remote = named_remote(attaching.where, attaching.session, attaching.agent)
    async with client_for(remote, attaching.token) as client:
        control = RemoteControl(client, remote)
        yield control if await control.takes_commands() else None


class _Terminal:
    """Draws what is there as often as it changes, and takes keys."""

    def __init__(self, watched: Watched, agent: ActorId, control: "RemoteControl | None") -> None:
        self._watched = watched
        self._title = f"{watched.name} · agent {agent}"
        self._control = control
        self._line = Line()
        self._note: str | None = None
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._sending = trio.Lock()

    async def run(self) -> None:
        """Until the user leaves. The terminal is left as it was."""
        descriptor = sys.stdin.fileno()
        with keys_of(descriptor), Live(console=self._console, screen=True, auto_refresh=False) as live:
            async with trio.open_nursery() as nursery:
                await self._draw(live)
                async with background(partial(self._redraw, live)):
                    while (keys := await read_keys(descriptor)) and self._pressed(keys, nursery):
                        self._watched.wake()
                nursery.cancel_scope.cancel()

    async def _redraw(self, live: Live) -> None:
        while True:
            await self._watched.change()
            await self._draw(live)
            await trio.sleep(DRAW_EVERY_S)

    async def _draw(self, live: Live) -> None:
        """A terminal may be slow, and nothing else waits for it."""
        group = screen_of(self._watched.seen, self._title, self._below(), self._console)
        await in_thread(partial(live.update, group, refresh=True))

    def _below(self) -> Sequence[Styled]:
        lines: list[Styled] = []
        if self._watched.trouble is not None:
            lines.append(Styled(f"✗ {self._watched.trouble}", WARNING))
        if self._note is not None:
            lines.append(Styled(f"✗ {self._note}", FAULT))
        if self._control is None:
            return [*lines, Styled(READING_HINT, QUIET)]
        return [*lines, Styled(COMMANDS_HINT, QUIET), Styled(f"> {self._line.text}█", "bold")]

    def _pressed(self, keys: bytes, nursery: trio.Nursery) -> bool:
        """Do what is wanted; False: leave."""
        for wish, text in self._line.press(keys):
            if wish == "leave":
                return False
            if self._control is not None:
                self._note = None
                nursery.start_soon(self._carry_out, self._control, wish, text)
        return True

    async def _carry_out(self, control: "RemoteControl", wish: Wish, text: str) -> None:
        """One wish after the other, in the order of the keys."""
        try:
            async with self._sending:
                if wish == "send" and (minding := compact_wish(text)) is not None:
                    self._note = await control.compact(minding or None)
                    self._watched.wake()
                elif wish == "send" and text:
                    await control.submit(text)
                elif wish == "stop" and self._works():
                    await control.abort(self._run())
        except PiActorsError as error:
            self._note = str(error)
            self._watched.wake()

    def _works(self) -> bool:
        """Whether there is something to stop: a run, or a summary that is being written beside none."""
        return self._run() is not None or bool(self._live()["compactions"])

    def _run(self) -> Position | None:
        run = self._live()["run"]
        return None if run is None else run["id"]

    def _live(self) -> Document:
        value = self._watched.seen.value
        assert value is not None, "an agent is watched"
        live: Document = value["docs"]["pi.live"]
        return live

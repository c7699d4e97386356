"""``chat``: a conversation in the terminal. What is typed while the agent works steers it."""

import sys
from typing import Final, TypeAlias

import click

from pi_actors.cli.failures import ANSWERED, goes_on, tell, until_interrupted
from pi_actors.cli.feed import showing
from pi_actors.cli.opening import Opening, opened, work_in
from pi_actors.cli.paper import FAULT, QUIET, Slate, console_of
from pi_actors.cli.prompt import Prompt, Typed, terminal_above
from pi_actors.cli.running import RECALLED, running_compactions, running_tools
from pi_actors.cli.screen import Screen
from pi_actors.cli.summaries import compact_wish
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import ROOT
from pi_actors.core.record import Commit
from pi_actors.runtime.scopes import background
from pi_actors.session import Session

HELP: Final = """\
Enter sends what you typed; while the agent works, it steers it.
Esc or Ctrl-C stops what the agent does. Ctrl-D or /quit leaves.
/compact summarises the older part of the context; what follows it says what the summary should mind.
All of it is stored: a session that is left goes on when it is opened again."""

LEAVE: Final = frozenset({"/quit", "/exit"})

Leaves: TypeAlias = bool


def chat(opening: Opening) -> int:
    """Talk with the session's root agent until the user leaves; return the exit status."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("chat needs a terminal; use run to give an agent a task without one")

    async def main() -> int:
        async with opened(opening, asks=True) as session:
            cwd = await work_in(session, opening.cwd)
            await _talk(session, f"session {session.id} of {opening.store}, working in {cwd}")
            works = _works(session)
        if works:
            tell(f"the agent was not done; {goes_on(opening.store, opening.session)}")
        return ANSWERED

    return until_interrupted(main, what_now=goes_on(opening.store, opening.session))


async def _talk(session: Session, title: str) -> None:
    prompt = Prompt(above=lambda: paper.begun, working=lambda: _works(session))
    paper = Slate(console_of(file=terminal_above(prompt)))
    screen = Screen(paper)

    def show(commit: Commit) -> None:
        screen.show(commit)
        prompt.redraw()

    entries = await session.root.entries()
    paper.line(f"· {title}", QUIET)
    screen.learn(ROOT, entries, running_tools(session.live.line.shown))
    screen.recall(entries[-RECALLED:])
    screen.go_on(running_compactions(session.live.line.shown))
    async with showing(session, show), background(prompt.run):
        await prompt.begun.wait()
        session.resume()
        async for typed in prompt.typed:
            if await _answer(session, paper, typed):
                return


async def _answer(session: Session, paper: Slate, typed: Typed) -> Leaves:
    """Do what was typed; whether it was to leave."""
    match typed:
        case None:
            return True
        case False if _works(session):
            await session.root.abort()
        case False:
            paper.line("· nothing to stop; Ctrl-D leaves", QUIET)
        case str() as text if text.strip() in LEAVE:
            return True
        case str() as text if text.strip() == "/help":
            paper.line(HELP, QUIET)
        case str() as text if text.strip():
            await _say(session, paper, text)
        case _:
            pass
    return False


async def _say(session: Session, paper: Slate, text: str) -> None:
    minding = compact_wish(text)
    try:
        if minding is None:
            await session.root.submit(text, when_busy="steer")
        else:
            await session.root.compact(minding or None)
    except CommandRefused as refused:
        paper.line(f"✗ {refused}", FAULT)


def _works(session: Session) -> bool:
    return session.live.line.shown.busy_agents > 0

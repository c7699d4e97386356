"""``replay``: a session as it went, or its state at a position."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Final

import click
import trio

from pi_actors.cli.failures import ANSWERED
from pi_actors.cli.json_lines import json_line
from pi_actors.cli.opening import head_of
from pi_actors.cli.paper import QUIET, Roll, console_of
from pi_actors.cli.screen import Screen
from pi_actors.core.ids import ActorId, Position, SessionId
from pi_actors.core.record import Commit
from pi_actors.runtime.store import TOPICS
from pi_actors.storage.log import LogReader
from pi_actors.storage.opening import open_reader
from projections import replay
from projections.fold import as_json, iso
from projections.tail import Tail
from projections.view import value_of

SILENCE_MAX_S: Final = 2.0
"""Longer silences are shortened to this."""


def play(store: str, session: SessionId, *, to: Position | None, speed: float | None) -> int:
    """Show what happened up to *to*, *speed* times as fast; 0 is at once, None as suits the output."""
    if speed is None:
        speed = 1.0 if sys.stdout.isatty() else 0.0
    with closing(open_reader(store)) as reader:
        head = head_of(reader, store, session)
        paper = Roll(console_of())
        screen = Screen(paper)
        last: Commit | None = None
        for commit in _commits(reader, session, head.position if to is None else to):
            _wait(last, commit, speed)
            screen.show(commit)
            last = commit
        shown = (
            "nothing"
            if last is None
            else f"position {last[-1].end} of {head.position}, {iso(last[-1].at_us)}"
        )
        paper.line(f"· {shown}", QUIET)
    return ANSWERED


def show_state(store: str, session: SessionId, agent: ActorId, *, to: Position | None) -> int:
    """Print the agent's view and the tree at a position, as a line of JSON."""
    state = trio.run(partial(replay, store, session, to=to))
    value = {"value": value_of(state, agent), "tree": as_json(state.tree())}
    click.echo(json_line({"position": state.position, "at": iso(state.at_us), **value}))
    return ANSWERED


def _commits(reader: LogReader, session: SessionId, to: Position) -> Iterator[Commit]:
    tail = Tail(reader, TOPICS, session)
    while commits := tail.read(to=to):
        yield from commits


def _wait(last: Commit | None, commit: Commit, speed: float) -> None:
    if last is not None and speed > 0:
        passed_s = (commit[-1].at_us - last[-1].at_us) / 1_000_000
        time.sleep(min(max(passed_s, 0.0), SILENCE_MAX_S) / speed)

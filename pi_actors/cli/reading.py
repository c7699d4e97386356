"""``log`` and ``sessions``: looking at a store without owning anything of it, also while others write."""

import signal
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Final

import click
from rich.table import Table
from rich.text import Text as Styled

from pi_actors.actors.topics import PROGRESS
from pi_actors.cli.failures import ANSWERED
from pi_actors.cli.json_lines import event_json, json_line
from pi_actors.cli.opening import head_of
from pi_actors.cli.paper import console_of
from pi_actors.cli.wording import line_of
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.instants import instant
from pi_actors.core.record import Commit, Recorded
from pi_actors.runtime.store import TOPICS
from pi_actors.storage.codec import decode_rows, published
from pi_actors.storage.log import Head, LogReader
from pi_actors.storage.opening import open_reader, store_bytes

LOOK_EVERY_S: Final = 0.1


def log(store: str, session: SessionId, *, follow: bool, as_json: bool) -> int:
    """Print the session's events, and with *follow* those that are yet to come, until interrupted."""
    console = console_of(wide=True)
    with closing(open_reader(store)) as reader, _interrupts() if follow else nullcontext() as interrupts:
        head_of(reader, store, session)
        for recorded in _events(reader, session, interrupts):
            if interrupts:
                break
            if as_json:
                click.echo(event_json(recorded))
            else:
                styled = Styled(line_of(recorded), style_of(recorded))
                console.print(styled, no_wrap=True, overflow="ellipsis", crop=True, soft_wrap=False)
    return ANSWERED


def sessions(store: str, *, as_json: bool) -> int:
    """Print the sessions of the store: how long, how large, whether they have work, who holds them.

    The bytes of a session are those of its rows; the store's file also holds indexes and free room.
    """
    with closing(open_reader(store)) as reader:
        heads = reader.heads()
        if as_json:
            for head in heads:
                click.echo(_session_json(reader, head, store_bytes(store)))
        elif not heads:
            click.echo(f"{store} has no sessions yet")
        else:
            console_of(wide=True).print(_table(reader, heads))
            click.echo(f"{store} takes {store_bytes(store):,} bytes on the disk")
    return ANSWERED


def style_of(recorded: Recorded) -> str:
    """How a line of the log looks on a terminal."""
    if recorded.topic in PROGRESS:
        return "dim"
    return _STYLES.get(recorded.topic, "")


_STYLES: Final = {
    "EntryAppended": "cyan",
    "ResponseSettled": "cyan",
    "ToolStarted": "blue",
    "ToolResultSettled": "blue",
    "RetryScheduled": "yellow",
    "AbortMarked": "yellow",
    "RunRecovered": "yellow",
    "RunGivenUp": "red",
    "RunStarted": "green",
    "RunEnded": "green",
}


@contextmanager
def _interrupts() -> Generator[list[int]]:
    """The interrupts of the body's time. An exception could be lost where it happens to be raised."""
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


def _events(reader: LogReader, session: SessionId, interrupts: list[int] | None) -> Iterator[Recorded]:
    for commit in published(_stored(reader, session, interrupts)):
        yield from commit


def _stored(reader: LogReader, session: SessionId, interrupts: list[int] | None) -> Iterator[Recorded]:
    """The stored events in order; with *interrupts*, waits for more until there is one."""
    after: Position = 0
    while not interrupts:
        head = reader.head(session)
        end = 0 if head is None else head.position
        while after < end:
            rows = reader.read(session, after=after, through=end)
            yield from decode_rows(session, rows, TOPICS)
            after = rows[-1].position if rows else end
        if interrupts is None:
            return
        time.sleep(LOOK_EVERY_S)


def read_commits(store: str, session: SessionId) -> list[Commit]:
    """All that is stored of a session now; nothing where there is no such session yet."""
    with closing(open_reader(store)) as reader:
        return list(published(_stored(reader, session, None)))


def stored_sessions(store: Path) -> set[SessionId]:
    """The names of the sessions in *store*, none where it does not exist yet."""
    if not store.exists():
        return set()
    with closing(open_reader(store)) as reader:
        return {head.session for head in reader.heads()}


def _session_json(reader: LogReader, head: Head, stored: int) -> str:
    return json_line(
        {
            "id": head.session,
            "position": head.position,
            "live": head.live,
            "size_bytes": reader.size_bytes(head.session),
            "updated_at": instant(head.updated_us).isoformat().replace("+00:00", "Z"),
            "held_by": reader.holder(head.session),
            "store_bytes": stored,
        }
    )


def _table(reader: LogReader, heads: list[Head]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("session", "position", "bytes", "updated (UTC)", "work", "held by"):
        table.add_column(title, justify="right" if title in ("position", "bytes") else "left", no_wrap=True)
    for head in heads:
        table.add_row(
            Styled(head.session),
            f"{head.position:,}",
            f"{reader.size_bytes(head.session):,}",
            f"{instant(head.updated_us):%Y-%m-%d %H:%M:%S}",
            "unfinished" if head.live else "none",
            Styled(reader.holder(head.session) or "nobody"),
        )
    return table

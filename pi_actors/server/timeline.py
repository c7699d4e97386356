"""Where one can stop in a session's history: the ends of its commits and when they were made."""

from typing import Final

from pi_actors.actors.topics import PROGRESS
from pi_actors.core.ids import Position
from pi_actors.core.record import Commit
from pi_actors.core.text import Json
from pi_actors.server.served import Served
from projections.fold import iso

PAGE_MAX: Final = 1_000


def positions_page(served: Served, end: Position, *, after: Position, limit: int) -> Json:
    """Up to *limit* commits that end after *after*, of those up to *end*, oldest first. Blocks.

    ``{"positions": [{"position", "at", "topics"}, ...], "next": N | None, "end": N}``. ``topics``:
    what happened, progress left out. ``next``: what to ask for as *after* to get the next page.
    """
    tail = served.tail(after=after)
    found: list[Commit] = []
    while len(found) <= limit and (commits := tail.read(to=end)):
        found += commits
    page = found[:limit]
    more = len(found) > limit
    return {
        "positions": [_line(commit) for commit in page],
        "next": page[-1][-1].end if more else None,
        "end": end,
    }


def _line(commit: Commit) -> Json:
    topics = dict.fromkeys(event.topic for event in commit if event.topic not in PROGRESS)
    return {"position": commit[-1].end, "at": iso(commit[-1].at_us), "topics": list(topics)}

"""What the responses and tools of one run have used together."""

from typing import Final

from pi_actors.actors.agent.messages import RunEnded
from pi_actors.core.ids import EntryId
from pi_actors.core.messages import Usage
from pi_actors.core.record import Recorded
from pi_actors.runtime.live import LiveSession
from projections.usage import USAGE, combine

PAGE: Final = 200


async def run_usage(live: LiveSession, ended: Recorded) -> Usage:
    """The usage of the run that *ended* closes, failed attempts included."""
    assert isinstance(ended.event, RunEnded), ended
    state = USAGE.initial
    for recorded in await _entries_of_run(live, ended, ended.event.run):
        state = USAGE.evolve(state, recorded)
    return combine([state])


async def _entries_of_run(live: LiveSession, ended: Recorded, start: EntryId) -> list[Recorded]:
    """The events of the agent's entries between the run's start and its end."""
    found: list[EntryId] = []
    before = ended.position
    while True:
        page = await live.entry_ids(ended.actor, before=before, limit=PAGE)
        found = [id for id in page if id > start] + found
        if len(page) < PAGE or page[0] <= start:
            return await live.recorded_at(found)
        before = page[0]

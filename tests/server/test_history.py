"""States of the past, and what is kept for the next who asks."""

import random
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
import trio
import trio.testing

from pi_actors import LogCorrupt, open_session
from pi_actors.models import ScriptedModel, reply
from pi_actors.server import history
from pi_actors.server.feed import Feeds
from pi_actors.server.history import KEPT_MAX, KEPT_SECONDS, History
from pi_actors.server.served import Served, Sessions
from projections import replay
from tests.projections.story import ROOT
from tests.projections.test_folding import damage

TALKS = ScriptedModel(lambda _: reply("Hello."))


async def test_going_back_and_forth_gives_the_same_states_as_reading_from_the_beginning(
    tmp_path: Path,
) -> None:
    async with open_session(tmp_path / "work.db", model=TALKS) as session:
        for _ in range(6):
            await session.root.ask("Hello?")
        served = await Sessions([session], []).find("main")
        past, chance = History(), random.Random(1)
        for _ in range(40):
            to = chance.randrange(1, session.position + 1)
            state = await past.state_at(served, to)
            known = await replay(tmp_path / "work.db", to=to)
            assert (state.position, state.documents(ROOT)) == (known.position, known.documents(ROOT))
            assert served.entries(state, ROOT) == known.entries(ROOT)
        assert 0 < len(past._kept) <= KEPT_MAX


async def test_a_snapshot_that_spares_more_than_a_page_is_begun_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it covers is not read again, but for the entries in context; the past is read from the log."""
    file = tmp_path / "work.db"
    async with open_session(file, model=TALKS) as session:
        await session.root.ask("Hello?")
    covered = session.position
    async with open_session(file, model=TALKS) as session:
        await session.root.ask("Hello?")
        end = session.position
        monkeypatch.setattr(history, "PAGE_ROWS", 0)
        known = [await replay(file, to=to) for to in range(covered, end + 1)]
        damage(file, position=4, topic="RunStarted")
        served = await Sessions([session], []).find("main")
        for state in known:
            found = await History().state_at(served, state.position)
            assert (found.position, found.documents(ROOT)) == (state.position, state.documents(ROOT))
            assert served.entries(found, ROOT) == state.entries(ROOT)
        with pytest.raises(LogCorrupt):
            await History().state_at(served, covered - 1)
        mark_scavenged(file, end + 1)
        with pytest.raises(LogCorrupt):
            await History().state_at(served, end)


def mark_scavenged(file: Path, to: int) -> None:
    """From now on the head says that progress up to *to* may be missing."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE sessions SET scavenged_to=?", (to,))


async def test_what_nobody_asks_for_any_more_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with open_session("memory:") as session, trio.open_nursery() as nursery:
        served = await Sessions([session], []).find("main")
        past = History()
        nursery.start_soon(past.run)
        await past.state_at(served, session.position)
        assert len(past._kept) == 1
        await trio.sleep(2 * KEPT_SECONDS + 1)
        assert len(past._kept) == 0
        nursery.cancel_scope.cancel()


async def test_the_last_viewer_takes_the_feed_with_it_and_the_next_one_reads_again() -> None:
    """O255."""
    async with open_session("memory:", model=TALKS) as session:
        served = await Sessions([session], []).find("main")
        feeds = Feeds(History())
        async with AsyncExitStack() as first:
            feed = await first.enter_async_context(feeds.watching(served, ROOT))
            async with feeds.watching(served, None) as other:
                assert other is feed
                await feed.next(ROOT, None)
            assert (await frames_of(feeds, served)) == (1, 0), "nothing is new to one who has seen all"
        assert not feeds._feeds
        await session.root.ask("Hello?")
        async with feeds.watching(served, ROOT) as again:
            assert again is not feed
            (snapshot,) = (await again.next(ROOT, None)).events
            assert b'"snapshot"' in snapshot


async def frames_of(feeds: Feeds, served: Served) -> tuple[int, int]:
    """How many feeds there are, and how many events for one who is up to date."""
    async with feeds.watching(served, ROOT) as feed:
        end = await served.news.position()
        return len(feeds._feeds), len((await feed.next(ROOT, end)).events)

"""A conversation of 300 turns through a context window of 4,000 tokens."""

import pytest

from pi_actors import Session, tool
from pi_actors.models import ModelRequest, call, overflow, reply
from pi_actors.models.plays import Item
from pi_actors.testing import check_log, check_session
from tests.session.opened import WAYS, opened
from tests.session.recording import WINDOW, Recording, tokens_of

TURNS = 300
EARLY, LATE, SPAN = 30, TURNS, 24
LARGEST = 1_800
"""What a turn may say at most, in characters; so some answers are long and most are short."""


@tool(replay="safe")
async def look(number: int) -> str:
    """Look something up."""
    return f"found {number} " + "r" * (number * 311 % LARGEST)


def answer(request: ModelRequest) -> Item:
    """A call now and then, and answers of many sizes."""
    last = request.messages[-1]
    number = request.turn
    if last.role == "user" and number % 4 == 1:
        return reply("", call("look", number=number), call("look", number=number + 1))
    return reply(f"answer {number} " + "a" * (number * 173 % LARGEST))


def answer_what_fits(request: ModelRequest) -> Item:
    """The same of a provider that says too late how much it takes."""
    return overflow() if tokens_of(request) > WINDOW else answer(request)


@pytest.mark.parametrize("way", WAYS)
async def test_it_stays_answerable_every_request_fits_and_the_log_grows_linearly(way: str) -> None:
    """X90: the bytes of a turn do not grow with the number of turns before it."""
    model = Recording(answer)
    async with opened(model, look, instructions=WAYS[way]) as session:
        positions = await _talk(session)
        rows = session.live.store.log.read(session.id, after=0, through=session.position, limit=100_000)
        size = [len(row.state) for row in rows]
        early, late = (sum(size[positions[end - SPAN] : positions[end]]) / SPAN for end in (EARLY, LATE))
        assert late <= 1.2 * early
        assert max(tokens_of(request) for request in model.requests) <= WINDOW
        assert len(model.summaries) < TURNS / 2
        assert len(await session.root.entries()) < 60
        await check_session(session)
        check_log(session.live.store.log, finished=True)


async def test_it_stays_answerable_where_only_refusals_tell_how_much_fits() -> None:
    model = Recording(answer_what_fits, window=None)
    async with opened(model, look) as session:
        await _talk(session)
        assert len(model.summaries) < TURNS / 2
        check_log(session.live.store.log, finished=True)


async def _talk(session: Session) -> list[int]:
    """Ask all the questions; the position after each."""
    positions = [session.position]
    for number in range(TURNS):
        said = await session.root.ask(f"question {number} " + "q" * (number * 97 % LARGEST))
        assert said.text.startswith("answer"), said
        positions.append(session.position)
    await session.wait_idle()
    return positions

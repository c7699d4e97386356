"""The feed: acknowledged commits reach the screen in order, and a slow screen holds nobody up."""

import threading

import trio

from pi_actors import open_session
from pi_actors.cli.feed import showing
from pi_actors.core.record import Commit
from pi_actors.models import ScriptedModel, reply


async def test_everything_that_was_acknowledged_is_shown_in_order_by_the_end() -> None:
    shown: list[int] = []

    def show(commit: Commit) -> None:
        shown.extend(recorded.position for recorded in commit)

    async with open_session("memory:", model=ScriptedModel([reply("Hi.")]), resume=False) as session:
        before = session.position
        async with showing(session, show):
            session.resume()
            await session.root.ask("hello")
            last = session.position
    assert shown == list(range(before + 1, last + 1))


async def test_a_screen_that_stands_still_does_not_hold_the_session_up() -> None:
    go_on = threading.Event()

    def show(_: Commit) -> None:
        go_on.wait()

    model = ScriptedModel([reply("Hi.")])
    async with open_session("memory:", model=model, resume=False) as session, showing(session, show):
        session.resume()
        answer = await session.root.ask("hello")
        go_on.set()
    assert answer.text == "Hi."


async def test_what_showing_raises_ends_the_body() -> None:
    def show(_: Commit) -> None:
        raise BrokenPipeError

    ended = False
    model = ScriptedModel([reply("Hi.")])
    try:
        async with open_session("memory:", model=model, resume=False) as session, showing(session, show):
            await session.root.submit("hello")
            await trio.sleep_forever()
    except* BrokenPipeError:
        ended = True
    assert ended

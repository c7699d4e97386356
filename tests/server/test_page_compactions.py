"""Compactions, summaries and forks on the page, in a real browser."""

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio

from pi_actors import Settings, open_session
from pi_actors.core.settings import CompactionSettings
from pi_actors.models import ScriptedModel, fail, reply, stall
from pi_actors.models.plays import Item
from pi_actors.server import open_server
from tests.server.browser import ENTER, Browser, browsing


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as browser:
        yield browser


UNASKED: Final = Settings(compaction=CompactionSettings(enabled=False))
"""Nothing is summarised that nobody has asked for."""

LONG: Final = "word " * 180


async def test_a_context_is_summarised_at_a_click_and_the_summary_says_what_it_replaced(
    browser: Browser, tmp_path: Path
) -> None:
    failing: list[Item] = [
        [fail("overloaded", retry_after_ms=2_000), reply("They talked.")],
        fail("no credit", False),
    ]
    talking = ScriptedModel([reply(LONG)] * 6, summaries=failing, context_window=800)

    def look(url: str) -> None:
        browser.open(url)
        browser.until_text("#doing", "Idle")
        browser.click("#compact")
        browser.until_text("#next", "The summary failed (overloaded). Trying again")
        assert browser.run("return document.querySelector('#compact').disabled") is True
        browser.until_text("#tree", "summary")
        browser.until_text(".compaction", "Context summarised")
        browser.until_text(".compaction", "tokens before · the newest entry kept · as asked")
        assert "They talked." not in browser.run("return document.querySelector('.compaction').innerText")
        browser.click(".compaction summary")
        browser.until_text(".compaction .text", "They talked.")
        browser.until("return !document.querySelector('#compact').disabled")
        browser.click("#compact")
        browser.until_text("#alert", "Not summarised: the context is too small to leave anything out")
        browser.type("#input", "More" + ENTER)
        browser.until_text(".user", "More")
        browser.until_text("#doing", "Idle")
        browser.type("#input", "/compact the words" + ENTER)
        browser.until_text("#alert", "Not summarised: no credit")
        assert browser.run("return document.querySelector('#input').value") == ""

    async with (
        open_session(tmp_path / "work.db", model=talking, settings=UNASKED) as session,
        open_server(session, port=0) as server,
    ):
        for question in ("one", "two"):
            await session.root.ask(question)
        await trio.to_thread.run_sync(partial(look, server.url))


async def test_a_live_summary_is_shown_and_stopped_and_readers_cannot_begin_one(
    browser: Browser, tmp_path: Path
) -> None:
    talking = ScriptedModel([reply(LONG)] * 3, summaries=[stall()], context_window=800)

    def look(url: str, read_only: str) -> None:
        browser.open(url)
        browser.until_text("#doing", "Idle")
        browser.click("#compact")
        browser.until_text("#next", "Summarising the older context, as asked: scripted")
        browser.until_text("#doing", "Working in the background")
        browser.click("#stop")
        browser.until_text("#alert", "Not summarised: it was stopped")
        browser.until_text("#doing", "Idle")
        browser.open(read_only)
        browser.until_text("#read-only", "takes no commands")
        button = "document.querySelector('#compact')"
        assert browser.run(f"return [{button}.disabled, {button}.checkVisibility()]") == [True, False]

    async with (
        open_session(tmp_path / "work.db", model=talking, settings=UNASKED) as session,
        open_server(session, port=0) as server,
        open_server(tmp_path / "work.db", port=0) as follower,
    ):
        for question in ("one", "two"):
            await session.root.ask(question)
        await trio.to_thread.run_sync(partial(look, server.url, follower.url))


async def test_a_fork_says_in_the_tree_what_it_was_forked_from(browser: Browser, tmp_path: Path) -> None:
    def look(url: str, fork: int, at: int) -> None:
        browser.open(url)
        browser.until_text("#tree", f"forked from agent 1 at entry {at}")
        browser.click("#tree > ul > li:last-child > a")
        browser.until_text("#trail", f"Agent {fork}")
        browser.until_text("#entries", "Hello.")

    async with (
        open_session(tmp_path / "work.db", model=ScriptedModel([reply("Hello.")])) as session,
        open_server(session, port=0) as server,
    ):
        answer = await session.root.ask("Hello?")
        fork = await session.root.fork(answer.entry.id)
        await trio.to_thread.run_sync(partial(look, server.url, fork.id, answer.entry.id))

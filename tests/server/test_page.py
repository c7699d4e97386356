"""The page in a real browser, at a real server."""

from collections.abc import Generator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
import trio

from pi_actors import open_session
from pi_actors.models import ModelRequest, ScriptedModel, call, reply
from pi_actors.models.plays import Item
from pi_actors.server import open_server
from pi_actors.tools import subagent_tool
from tests.cli.commandline import let_go, pi_actors, says, script, waits
from tests.server.browser import ENTER, Browser, browsing
from tests.server.processes import free_port, serving

WORDS: Final = "".join(f"word{number} " for number in range(60)).strip()
NO_EVENT_MISSED: Final = """
window.seen = [];
new MutationObserver(() => {
  const row = document.querySelector("#entries > .writing .text");
  if (row) { window.row = row.closest("li"); window.seen.push(row.textContent); }
}).observe(document.getElementById("entries"), {subtree: true, childList: true, characterData: true});
"""
WIDE: Final = """
return [...document.querySelectorAll("body *")]
  .filter(node => node.checkVisibility() && node.getBoundingClientRect().right > innerWidth + 1)
  .map(node => node.id || node.className || node.localName).join()
"""
SMALL: Final = """
return [...document.querySelectorAll("button, header a, a.node, #scrubber, textarea")]
  .filter(node => node.checkVisibility() && node.getBoundingClientRect().height < 39)
  .map(node => node.id || node.textContent).join()
"""
SCRUB: Final = "scrubber.value = %s; scrubber.dispatchEvent(new Event('input'))"
AT_END: Final = """
const {scrollHeight, scrollTop, clientHeight} = document.getElementById("scroll");
return scrollHeight - scrollTop - clientHeight < 5
"""


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as browser:
        yield browser


def send(browser: Browser, text: str) -> None:
    browser.type("#input", text + ENTER)


def test_an_answer_grows_in_place_and_stays_where_it_is(browser: Browser, tmp_path: Path) -> None:
    model = script(tmp_path, WORDS, chunk_ms=20)
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        browser.until_text("#empty", "Nothing has been said yet")
        browser.run(NO_EVENT_MISSED)
        send(browser, "Say many words")
        browser.until_text("#entries > .assistant:not(.writing)", "word59")
        seen: list[str] = browser.run("return window.seen")
        assert len(set(seen)) > 2
        assert all(later.startswith(earlier) for earlier, later in pairwise(seen))
        assert browser.run("return row.isConnected && row.innerText.includes('word59')"), "another row came"
        browser.until_text("#doing", "Idle")
        assert browser.run("return document.querySelector('#input').value") == ""
        assert browser.run("return document.querySelector('.user').innerText") == "Say many words"


def test_a_tools_output_is_seen_and_a_steer_waits_arrives_or_is_withdrawn(
    browser: Browser, tmp_path: Path
) -> None:
    model = script(tmp_path, says("Let me see.", waits()), "Done, briefly.")
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        send(browser, "Look")
        browser.until_text(".call[data-state=running] .output", "begun")
        browser.until_text("#tree", "bash")
        browser.until_text("#send", "Steer")
        send(browser, "Be brief")
        browser.until_text(".queue", "Be brief")
        browser.type("#input", "Not this")
        browser.click("#queue")
        browser.until_text(".queue li:nth-child(2)", "comes when it is done")
        browser.click(".queue li:nth-child(2) button")
        browser.until("return document.querySelectorAll('.queue li').length === 1")
        let_go(tmp_path)
        browser.until_text(".call[data-state=done] .output", "begun\ndone")
        browser.until_text(".assistant:last-child", "Done, briefly.")
        assert browser.run("return document.querySelector('.queue')") is None
        shown: list[str] = browser.run(
            "return [...document.querySelectorAll('.user')].map(row => row.innerText)"
        )
        assert shown == ["Look", "Be brief"]


def test_stop_ends_what_the_agent_does(browser: Browser, tmp_path: Path) -> None:
    model = script(tmp_path, {"stall": "I think that"})
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        send(browser, "Think")
        browser.until_text(".writing", "I think that")
        browser.click("#stop")
        browser.until_text(".assistant:not(.writing)", "Stopped")
        browser.until_text("#doing", "Idle")
        browser.until("return document.querySelector('#stop').hidden")
        assert "I think that" in browser.run("return document.querySelector('.assistant').innerText")


def test_the_page_goes_on_where_it_was_when_a_killed_server_is_back(browser: Browser, tmp_path: Path) -> None:
    model, port = script(tmp_path, says("Let me see.", waits()), "All seen."), free_port()
    with serving("work.db", "--model", model, cwd=tmp_path, port=port) as first:
        browser.open(first.url)
        send(browser, "Look")
        browser.until_text(".call[data-state=running] .output", "begun")
        browser.run("window.row = document.querySelector('.user')")
        first.kill()
        browser.until_text("#connection", "Reconnecting")
        browser.until_text("#alert", "cannot be reached")
        send(browser, "Once only")
        browser.until_text("#alert", "Not sent")
        let_go(tmp_path)
    with serving("work.db", "--model", model, cwd=tmp_path, port=port):
        browser.until_text("#connection", "Connected")
        browser.until_text(".assistant:last-child", "All seen.")
        assert browser.run("return window.row.isConnected"), "the transcript was built anew"
        assert browser.run(
            "return performance.getEntriesByType('resource').some(e => /after=\\d/.test(e.name))"
        )
        browser.until("return document.querySelector('#send').disabled === false")
        assert browser.run("return document.querySelector('#input').value") == "Once only"
        browser.click("#send")
        browser.until_text(".user:nth-last-child(-n+2)", "Once only")


def test_a_store_that_was_replaced_is_shown_as_what_it_is(browser: Browser, tmp_path: Path) -> None:
    model, port = script(tmp_path, "Done."), free_port()
    for store in ("one.db", "two.db"):
        run = ("run", f"I am {store}", "--model", model, "--store", store)
        assert pi_actors(*run, cwd=tmp_path).returncode == 0
    with serving("one.db", cwd=tmp_path, port=port) as first:
        browser.open(first.url)
        browser.until_text(".user", "I am one.db")
        browser.click("#earlier")
        browser.until_text("#when", "Position")
    with serving("two.db", cwd=tmp_path, port=port):
        browser.until_text(".user", "I am two.db")
        browser.until_text("#when", "Live")
        assert browser.run("return document.querySelectorAll('.user').length") == 1


def test_a_draft_stays_with_its_agent(browser: Browser, tmp_path: Path) -> None:
    for name in ("first", "second"):
        run = ("run", "Hello", "--model", script(tmp_path, "Done."), "--store", "work.db", "--session", name)
        assert pi_actors(*run, cwd=tmp_path).returncode == 0
    with serving("work.db", cwd=tmp_path) as server:
        browser.open(f"{server.url}/#/first/1")
        browser.until_text(".assistant", "Done.")
        browser.type("#input", "for the first")
        browser.click(".home")
        browser.until_text("#session-list", "second")
        browser.click("#session-list li:nth-child(2) a")
        browser.until_text("#trail", "second")
        browser.until("return document.querySelector('#input').checkVisibility()")
        assert browser.run("return document.querySelector('#input').value") == ""
        browser.run("history.go(-2)")
        browser.until_text("#trail", "first")
        browser.until("return document.querySelector('#input').value === 'for the first'")


def test_the_scrubber_shows_any_moment_of_the_past_and_goes_back_to_live(
    browser: Browser, tmp_path: Path
) -> None:
    model = script(tmp_path, says("Now I write.", ("bash", {"command": "echo written"})), "It is done.")
    assert pi_actors("run", "Do it", "--model", model, "--store", "work.db", cwd=tmp_path).returncode == 0
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        browser.until_text("#entries", "It is done.")
        browser.click("#earlier")
        browser.until("return !document.querySelector('#entries').innerText.includes('It is done.')")
        browser.until_text("#when", "Position")
        browser.until_text(".call", "written")
        assert browser.run("return document.querySelector('#composer').checkVisibility()") is False
        browser.until_text("#doing", "Looking back")
        for _ in range(20):
            browser.click("#earlier")
        browser.until_text("#when", "Position 1 of")
        browser.until_text("#empty", "Nothing has been said yet")
        browser.run(SCRUB % "scrubber.max - 3")
        browser.until_text(".call", "written")
        browser.click("#to-live")
        browser.until_text("#entries", "It is done.")
        browser.until_text("#when", "Live")
        assert browser.run("return document.querySelector('#composer').checkVisibility()") is True


def test_a_phone_shows_one_column_with_targets_that_a_thumb_can_hit(browser: Browser, tmp_path: Path) -> None:
    model = script(tmp_path, says("x" * 500, ("bash", {"command": "echo " + "y" * 500})), "Done.")
    assert pi_actors("run", "Do it", "--model", model, "--store", "work.db", cwd=tmp_path).returncode == 0
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.devtools(
            "Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=2, mobile=True
        )
        try:
            browser.open(server.url)
            browser.until_text("#entries", "Done.")
            assert (browser.run(WIDE), browser.run(SMALL)) == ("", "")
            assert browser.run("return document.querySelector('#panel').checkVisibility()") is False
            browser.click("#more")
            browser.until_text("#panel", "Agent 1")
            assert (browser.run(WIDE), browser.run(SMALL)) == ("", "")
            browser.click("#more")
            browser.click("#earlier")
            browser.until_text("#when", "Position")
            assert (browser.run(WIDE), browser.run(SMALL)) == ("", "")
        finally:
            browser.devtools("Emulation.clearDeviceMetricsOverride")


def test_what_a_session_says_is_text_and_never_markup(browser: Browser, tmp_path: Path) -> None:
    evil = '<img src=x onerror="window.harm=1"><script>window.harm=1</script>'
    model = script(tmp_path, says(evil, ("bash", {"command": f"echo '{evil}'"})), f"```{evil}\n{evil}\n```")
    assert pi_actors("run", evil, "--model", model, "--store", "work.db", cwd=tmp_path).returncode == 0
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        browser.until_text(".assistant:last-child pre", evil)
        browser.until_text(".output", evil)
        browser.until_text(".user", evil)
        assert (
            browser.run(
                "return window.harm ?? document.querySelectorAll('#session img, #session script').length"
            )
            == 0
        )


def test_a_token_is_asked_for_and_forgotten_with_the_tab(browser: Browser, tmp_path: Path) -> None:
    with serving("work.db", cwd=tmp_path, PI_ACTORS_TOKEN="open-sesame") as server:
        browser.open(server.url)
        browser.until_text("#token", "wants a token")
        browser.type("#token input", "open-barley" + ENTER)
        browser.until_text("#token-wrong", "That was not the token")
        browser.type("#token input", "open-sesame" + ENTER)
        browser.until_text("#connection", "Connected")
        kept = "return [localStorage.length, document.cookie.length, sessionStorage.length]"
        assert browser.run(kept) == [0, 0, 1]
        browser.run("sessionStorage.clear()")


def test_several_sessions_are_listed_and_those_of_others_are_only_read(
    browser: Browser, tmp_path: Path
) -> None:
    model = script(tmp_path, "Done.")
    for name in ("first", "odd/name ?#"):
        run = ("run", f"I am {name}", "--model", model, "--store", "work.db", "--session", name)
        assert pi_actors(*run, cwd=tmp_path).returncode == 0
    with serving("work.db", "--follow", cwd=tmp_path) as server:
        browser.open(server.url)
        browser.until_text("#session-list li:nth-child(2)", "read only")
        browser.click("#session-list li:nth-child(2) a")
        browser.until_text(".user", "I am odd/name ?#")
        browser.until_text("#read-only", "takes no commands")
        assert browser.run("return document.querySelector('#composer').checkVisibility()") is False
        browser.click(".home")
        browser.until_text("#session-list li:nth-child(1)", "first")
        browser.open(f"{server.url}/#/nowhere/1")
        browser.until_text("#next", "has no session 'nowhere'")


def test_a_retry_is_counted_down_and_the_spend_says_what_it_does_not_know(
    browser: Browser, tmp_path: Path
) -> None:
    model = script(tmp_path, [{"fail": "overloaded", "retry_after_ms": 50_000}, "Done."])
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        send(browser, "Try")
        browser.until_text("#next", "Trying again in")
        first = browser.until("return document.querySelector('[data-due]')?.textContent")
        browser.until(f"return document.querySelector('[data-due]').textContent !== {first!r}")
        browser.until_text("#entries", "The model failed: overloaded")
        browser.until_text("#spend", "Cost unknown")
        browser.until_text("#spend", "1 response without reported tokens")
        browser.click("#stop")
        browser.until("return !document.querySelector('[data-due]')")


def test_a_failed_run_says_why_and_what_sets_the_agent_going_again(browser: Browser, tmp_path: Path) -> None:
    model = script(tmp_path, {"fail": "no credit", "retryable": False})
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        send(browser, "Try")
        browser.until_text("#next", "It has stopped: the model failed (no credit)")
        browser.until_text("#doing", "Idle")


def test_whoever_has_scrolled_up_is_left_in_peace_until_they_want_the_end(
    browser: Browser, tmp_path: Path
) -> None:
    lines = "\n".join(f"line {number}" for number in range(100))
    model = script(tmp_path, lines, "More.\n" + lines, "The end.\n" + lines)
    with serving("work.db", "--model", model, cwd=tmp_path) as server:
        browser.open(server.url)
        send(browser, "One")
        browser.until_text("#entries", "line 99")
        browser.until(AT_END)
        browser.run("document.querySelector('#scroll').scrollTop = 100")
        browser.until("return !document.querySelector('#latest').hidden")
        send(browser, "Two")
        browser.until_text("#entries", "More.")
        browser.until_text("#doing", "Idle")
        assert browser.run("return document.querySelector('#scroll').scrollTop") == 100
        browser.click("#latest")
        browser.until(AT_END)
        send(browser, "Three")
        browser.until_text("#entries", "The end.")
        browser.until(AT_END)


def delegating(request: ModelRequest) -> Item:
    """The parent delegates; the child answers."""
    said = [getattr(part, "text", "") for message in request.messages for part in message.parts]
    if "dig" in said:
        return reply("a bone")
    return reply("It found one.") if request.turn else reply("", call("task", prompt="dig"))


async def test_a_click_in_the_tree_leads_to_a_subagent(browser: Browser, tmp_path: Path) -> None:
    def look(url: str) -> None:
        browser.open(url)
        browser.until_text("#entries", "It found one.")
        browser.until_text("#tree li:last-child > a", "idle")
        browser.click("#tree li:last-child > a")
        browser.until_text("#entries", "a bone")
        browser.until_text("#trail", "Agent")
        browser.until("return document.querySelectorAll('a.node')[1].ariaCurrent === 'page'")
        browser.click("#earlier")
        browser.until_text("#when", "Position")
        browser.run(SCRUB % "2")
        browser.until_text("#alert", "was not there yet at position 2")

    async with (
        open_session(
            tmp_path / "work.db", model=ScriptedModel(delegating), tools=[subagent_tool()]
        ) as session,
        open_server(session, port=0) as server,
    ):
        await session.root.ask("go")
        await trio.to_thread.run_sync(partial(look, server.url))

"""A real browser: Chromium without a window, driven over the WebDriver protocol."""

import base64
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from pi_actors.core.text import Json

PATIENCE_S: Final = 60
ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--window-size=1280,860",
)
STARTED: Final = "was started successfully on port "
ENTER: Final = "\ue007"
UNTIL: Final = """
const done = arguments[arguments.length - 1];
const found = () => { %s };
const look = () => { const value = found(); if (value) done(value); else setTimeout(look, 10); };
look();
"""


class Browser:
    """One tab. What is waited for is waited for by the page itself."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._session = session

    def open(self, url: str) -> None:
        """Load *url*."""
        self._post("url", url=url)

    def run(self, script: str, *arguments: Json) -> Json:
        """What *script* returns, run in the page."""
        return self._post("execute/sync", script=script, args=[*arguments])

    def run_async(self, script: str, *arguments: Json) -> Json:
        """What *script* hands to its last argument, run in the page."""
        return self._post("execute/async", script=script, args=[*arguments])

    def until(self, script: str) -> Json:
        """What *script* returns as soon as that is not nothing."""
        try:
            return self.run_async(UNTIL % script)
        except AssertionError as error:
            page = self.run("return document.body.innerText")
            raise AssertionError(f"never came: {script}\n{error}\nThe page says:\n{page}") from None

    def until_text(self, selector: str, text: str) -> None:
        """Wait until an element that can be seen says *text*."""
        seen = f"[...document.querySelectorAll({selector!r})].some(node => node.checkVisibility()"
        self.until(f"return {seen} && node.innerText.includes({text!r}))")

    def click(self, selector: str) -> None:
        """Click the element, once it can be seen."""
        self._post(f"element/{self._element(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        """Type into the element, once it can be seen, key by key."""
        self._post(f"element/{self._element(selector)}/value", text=text)

    def devtools(self, command: str, **parameters: Json) -> Json:
        """A command of the browser's own protocol."""
        return self._post("goog/cdp/execute", cmd=command, params=parameters)

    def screenshot(self, file: Path) -> None:
        """Write what is seen as a PNG."""
        answer = self._client.get(f"/session/{self._session}/screenshot")
        file.write_bytes(base64.b64decode(answer.json()["value"]))

    def _element(self, selector: str) -> str:
        self.until(f"return document.querySelector({selector!r})?.checkVisibility()")
        found: dict[str, str] = self._post("element", using="css selector", value=selector)
        return next(iter(found.values()))

    def _post(self, path: str, **body: Json) -> Json:
        answer = self._client.post(f"/session/{self._session}/{path}", json=body)
        value = answer.json()["value"]
        assert answer.status_code == 200, f"{value['error']}: {value['message']}"
        return value


@contextmanager
def browsing() -> Generator[Browser]:
    """A browser with a profile of its own, which does not outlive the block."""
    driver = shutil.which("chromedriver")
    assert driver is not None, "the page is tested in Chromium: apt-get install chromium chromium-driver"
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        _driving(driver) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=2 * PATIENCE_S, trust_env=False) as client,
    ):
        options = {"args": [*ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "timeouts": {"script": PATIENCE_S * 1000}}}
        answer = client.post("/session", json={"capabilities": wanted}).json()["value"]
        assert "sessionId" in answer, answer
        try:
            yield Browser(client, answer["sessionId"])
        finally:
            client.delete(f"/session/{answer['sessionId']}")


@contextmanager
def _driving(driver: str) -> Generator[int]:
    """The driver's port. Its browsers are in its process group, and end with it."""
    process = subprocess.Popen(
        [driver, "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if STARTED in line), "")
        yield int(line.partition(STARTED)[2].strip().rstrip("."))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

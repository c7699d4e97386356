"""Servers that stand for a provider."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest

from pi_actors.core.text import Json
from tests.models.playback import Playback, open_playback

START_SECONDS_MAX = 60


@pytest.fixture
async def playback() -> AsyncIterator[Playback]:
    """A server that plays what a test gives it."""
    async with open_playback() as server:
        yield server


class Llmock:
    """A running llmock server. Behaviours and journal are kept apart by the model's name."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def behave(self, model: str, *behaviours: dict[str, Json]) -> None:
        """What the next requests for *model* meet."""
        matched = [{**behaviour, "match": {"model": model}} for behaviour in behaviours]
        self._ask("POST", "/_llmock/scenario", {"behaviors": matched})

    def journal(self, model: str) -> list[dict[str, Json]]:
        """The requests for *model* that have ended, oldest first."""
        return [
            record for record in self._ask("GET", "/_llmock/requests")["requests"] if record["model"] == model
        ]

    def is_up(self) -> bool:
        try:
            self._ask("GET", "/health")
        except OSError:
            return False
        return True

    def _ask(self, method: str, path: str, body: Json = None) -> Json:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())


@pytest.fixture(scope="session")
def llmock_server() -> Iterator[Llmock]:
    """llmock in a process of its own."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-c", "from llmock.cli import app; app()", "serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        server = Llmock(port)
        give_up = time.monotonic() + START_SECONDS_MAX
        while not server.is_up():
            assert process.poll() is None, "llmock ended before it served"
            assert time.monotonic() < give_up, "llmock does not answer"
            time.sleep(0.05)
        yield server
        # An orderly end would wait for the stalls that tests have left behind.
        process.kill()

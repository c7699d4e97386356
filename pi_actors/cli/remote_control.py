"""Commands to an agent on a server, each with a request id, so that sending it again does no harm."""

from typing import Final
from uuid import uuid4

import httpx
import msgspec
import trio

from pi_actors.core.errors import PiActorsError
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.text import Json
from projections.attach import AttachFailed, Remote, refused

TRIES: Final = 3
PAUSE_S: Final = 0.3


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    id: SessionId
    commands: bool


class _Listed(msgspec.Struct, frozen=True, kw_only=True):
    sessions: list[_Line]


class _Begun(msgspec.Struct, frozen=True, kw_only=True):
    status: str
    reason: str | None
    detail: str | None


class RemoteControl:
    """Hands over what a person wants of an agent."""

    def __init__(self, client: httpx.AsyncClient, remote: Remote) -> None:
        self._client = client
        self._remote = remote

    async def takes_commands(self) -> bool:
        """Whether the other side takes commands for the session."""
        response = await self._client.get(f"{self._remote.base}/sessions")
        if response.status_code != 200:
            raise refused(self._remote, response)
        listed = msgspec.json.decode(response.content, type=_Listed).sessions
        return any(line.id == self._remote.session and line.commands for line in listed)

    async def submit(self, text: str) -> None:
        """Hand over an input; a busy agent is steered by it. Raises as ``abort``."""
        await self._post("steer", {"content": text})

    async def compact(self, instructions: str | None) -> str | None:
        """Have the older part of the context summarised. Raises as ``abort``.

        Returns why it was not, where that is known at once.
        """
        answer = await self._post("compact", {"instructions": instructions})
        begun = msgspec.json.decode(answer, type=_Begun)
        return begun.detail or begun.reason if begun.reason is not None else None

    async def abort(self, run: Position | None) -> None:
        """Stop that run, or whatever is done without one.

        Raises:
            AttachFailed, NotFound: it was refused, or the server could not be reached.
        """
        await self._post("abort", {} if run is None else {"run": run})

    async def _post(self, command: str, body: dict[str, Json]) -> bytes:
        body = {**body, "request_id": uuid4().hex}
        problem: PiActorsError = AttachFailed(f"{self._remote.base} cannot be reached")
        for _ in range(TRIES):
            try:
                response = await self._client.post(f"{self._remote.agent_url}/{command}", json=body)
            except httpx.TransportError as error:
                problem = AttachFailed(f"{self._remote.base} cannot be reached: {error}")
                await trio.sleep(PAUSE_S)
                continue
            if response.status_code == 200:
                return response.content
            raise refused(self._remote, response)
        raise problem

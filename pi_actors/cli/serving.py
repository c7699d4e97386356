"""``serve``: the sessions of a store over HTTP, as their owner or as somebody who only reads them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click
import msgspec
import trio

from pi_actors.cli.failures import goes_on, until_interrupted
from pi_actors.cli.opening import Opening, opened, work_in
from pi_actors.cli.reading import stored_sessions
from pi_actors.core.errors import NotSupported
from pi_actors.core.ids import SessionId
from pi_actors.session import Session
from pi_actors.storage.opening import file_of

try:
    from pi_actors.server import Server, open_server
except ModuleNotFoundError as missing:
    raise NotSupported(f"serving needs {missing.name}: pip install 'pi-actors[server]'") from None


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where to serve, and for whom: ``token`` is asked for, ``names`` are answered for."""

    host: str
    port: int
    token: str | None
    names: tuple[str, ...] = ()


def serve(opening: Opening, sessions: Sequence[SessionId], address: Address, *, follow: bool) -> int:
    """Serve until interrupted and return the exit status.

    *sessions* of the opening's store, all of them where none is named; with *follow* all are only read.
    """

    async def main() -> int:
        serving = _following(opening.store, address) if follow else _owning(opening, sessions, address)
        async with serving as server:
            click.echo(f"serving {opening.store} at {server.url}")
            await trio.sleep_forever()

    what_now = "it was only read" if follow else goes_on(opening.store, opening.session)
    return until_interrupted(main, what_now=what_now)


@asynccontextmanager
async def _owning(opening: Opening, names: Sequence[SessionId], address: Address) -> AsyncGenerator[Server]:
    """The server runs before any session goes on, so that nothing is missed."""
    async with AsyncExitStack() as stack:
        sessions: list[Session] = []
        for name in names or _all_sessions(opening):
            options = msgspec.structs.replace(opening, session=name)
            session = await stack.enter_async_context(opened(options, asks=False))
            await work_in(session, opening.cwd)
            sessions.append(session)
        server = await stack.enter_async_context(
            open_server(
                *sessions, host=address.host, port=address.port, token=address.token, names=address.names
            )
        )
        for session in sessions:
            session.resume()
        yield server


@asynccontextmanager
async def _following(store: str, address: Address) -> AsyncGenerator[Server]:
    async with open_server(
        store, host=address.host, port=address.port, token=address.token, names=address.names
    ) as server:
        yield server


def _all_sessions(opening: Opening) -> list[SessionId]:
    """Those in the store; in a new one the session that was opened by default."""
    if opening.store == "memory:":
        return [opening.session]
    return sorted(stored_sessions(Path(file_of(opening.store)))) or [opening.session]

"""A server: listens, lets HTTP be spoken on each connection, and ends all of it with its body."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, cast

import msgspec
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState

from pi_actors.core.errors import NotSupported
from pi_actors.runtime.scopes import background
from pi_actors.runtime.threads import in_thread
from pi_actors.server.connections import Connection, Connections, Converse, Limits
from pi_actors.server.door import Door
from pi_actors.server.guard import Guard, is_address, is_loopback
from pi_actors.server.history import History
from pi_actors.server.page_files import page_files
from pi_actors.server.routes import Routes
from pi_actors.server.served import Sessions
from pi_actors.session import Session, Store
from projections.replay import opened

PORT: Final = 8765
TOKEN_VARIABLE: Final = "PI_ACTORS_TOKEN"  # noqa: S105 - the name of the variable

Source = Session | Store | str | Path
"""A session of this process, which takes commands; or a store, whose sessions are only read."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server that listens. ``url`` has no slash at its end."""

    url: str
    host: str
    port: int


async def serve(
    *sources: Source,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    names: Sequence[str] = (),
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; as :func:`open_server`, for a nursery of one's own."""
    async with open_server(*sources, host=host, port=port, token=token, names=names) as server:
        task_status.started(server)
        await trio.sleep_forever()


@asynccontextmanager
async def open_server(
    *sources: Source,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    names: Sequence[str] = (),
    limits: Limits = Limits(),
) -> AsyncGenerator[Server]:
    """Serve *sources* over HTTP for the time of the body. Port 0 takes one that is free.

    Sessions take commands, from whoever may ask; stores are only read, also while others write them.
    Without a *token* everybody who can reach *host* may ask, so only this machine's own addresses
    do without. *names*: host names under which the server may be asked, beside addresses and localhost.

    Open it within the sessions: it has to end before they do.

    Raises:
        NotSupported: *host* can be reached from elsewhere and there is no token.
        InvalidValue: two sessions have one name.
        StoreUnreadable: a store cannot be read.
        OSError: the address is in use, or not this machine's.
    """
    _require_safe(host, token)
    known_as = {
        "localhost",
        *(name.lower() for name in names),
        *(() if is_address(host) else (host.lower(),)),
    }
    guard = Guard(token=token, names=frozenset(known_as))
    history = History()
    async with AsyncExitStack() as stack:
        owned = [source for source in sources if isinstance(source, Session)]
        others = [source for source in sources if not isinstance(source, Session)]
        stores = [await stack.enter_async_context(opened(source)) for source in others]
        sessions = Sessions(owned, stores)
        stack.callback(sessions.close)
        routes = Routes(sessions, history)
        door = Door(guard, await in_thread(page_files), routes.all())
        connections = Connections(_conversing(door, limits), limits)
        listeners = await trio.open_tcp_listeners(port, host=host)
        async with background(partial(connections.accept_all, listeners), history.run):
            try:
                yield _server(host, listeners[0])
            finally:
                connections.cut_all()


def _conversing(door: Door, limits: Limits) -> Converse:
    """How HTTP is spoken on a connection: by hypercorn, without its own listening and logs."""
    config = Config()
    config.errorlog = None
    config.include_server_header = False
    config.keep_alive_timeout = limits.idle_s
    config.max_app_queue_size = 2
    app = ASGIWrapper(cast(ASGIFramework, door))
    context = WorkerContext(None)

    async def converse(connection: Connection) -> None:
        state = ConnectionState({"connection": connection})
        stream = cast("trio.SSLStream[trio.SocketStream]", connection)
        await TCPServer(app, config, context, state, stream)

    return converse


def _require_safe(host: str, token: str | None) -> None:
    if token is not None and not token.strip():
        raise NotSupported("the token is empty; give one that nobody can guess, or none at all")
    if token is None and not is_loopback(host):
        raise NotSupported(
            f"{host!r} can be reached from other machines, so a token is needed: set {TOKEN_VARIABLE}, "
            "or serve on 127.0.0.1 and come through a tunnel"
        )


def _server(host: str, listener: trio.SocketListener) -> Server:
    port: int = listener.socket.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    return Server(url=f"http://{shown}:{port}", host=host, port=port)

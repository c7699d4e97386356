"""The processes of the viewers benchmark: a writer, a server and a crowd of viewers.

``python -m benchmarks.viewer_programs write|write-and-serve STORE``, ``… serve|profile STORE`` and
``… watch URL VIEWERS STUCK``. Each tells its parent one line of JSON when it is ready (an address where
it serves), answers each line of JSON with another, and ends with its input; a profile is told then.
"""

import cProfile
import socket
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
import trio

from benchmarks.profiling import largest_costs
from pi_actors import Session, open_session, open_store
from pi_actors.core.ids import Position
from pi_actors.server import open_server

NOTE: Final = {"text": "x" * 100}
EVENTS: Final = "/sessions/main/agents/1/events"
RECEIVE_BYTES: Final = 256 * 1024
STUCK_BYTES: Final = 4 * 1024
"""What the system takes for a viewer that reads nothing."""

CATCH_UP_S_MAX: Final = 60

T = TypeVar("T")


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How a writer is to write. ``rate``: commits a second, None for as many as there can be."""

    seconds: float
    rate: float | None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What it wrote. ``late_ms``: when each commit was acknowledged, after it was due, if it was due."""

    seconds: float
    commits: int
    late_ms: list[float]
    position: Position


class Until(msgspec.Struct, frozen=True, kw_only=True):
    """How far viewers are to watch."""

    position: Position


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What the viewers that read were sent after their first snapshot, all of them together.

    ``delays_ms``: from a commit's own instant to when a viewer has its frame. ``behind``: viewers that
    did not get to the end.
    """

    delays_ms: list[float]
    frames: int
    snapshots: int
    received_bytes: int
    behind: int


def main(arguments: Sequence[str]) -> None:
    """Be the process that *arguments* ask for."""
    match arguments:
        case ["write" | "write-and-serve" as how, path]:
            trio.run(write, Path(path), how == "write-and-serve")
        case ["serve", path]:
            trio.run(serve, Path(path))
        case ["profile", path]:
            with cProfile.Profile() as profile:
                trio.run(serve, Path(path))
            _say(largest_costs("The thread that serves:", profile))
        case ["watch", url, viewers, stuck]:
            trio.run(watch, url, int(viewers), int(stuck))
        case _:
            raise SystemExit(f"unknown arguments {arguments}; {__doc__}")


async def write(path: Path, serving: bool) -> None:
    """Write as each line asks; with *serving* the session is served from here."""
    async with open_store(path) as store, open_session(store) as session, AsyncExitStack() as stack:
        url = (await stack.enter_async_context(open_server(session, port=0))).url if serving else ""
        await session.root.submit_write("note", data=NOTE)
        _say(url)
        await _answer(Pace, partial(_written, session))


async def serve(path: Path) -> None:
    """Serve a store that somebody else writes."""
    async with open_server(path, port=0) as server:
        _say(server.url)
        await trio.to_thread.run_sync(sys.stdin.read)


async def watch(url: str, viewers: int, stuck: int) -> None:
    """Have *viewers* watch, *stuck* of which read nothing; tell what the others saw."""
    crowd = [Viewer() for _ in range(viewers - stuck)]
    address = urlsplit(url)
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        for _ in range(stuck):
            await stack.enter_async_context(_asking(address.hostname or "", address.port or 0, stuck=True))
        for viewer in crowd:
            nursery.start_soon(viewer.watch, address.hostname or "", address.port or 0)
        for viewer in crowd:
            await viewer.reach(1)
        _say("watching")
        await _answer(Until, partial(_watched, crowd))
        nursery.cancel_scope.cancel()


class Viewer:
    """Reads the events of one stream as they come; ``position`` is the last one's."""

    def __init__(self) -> None:
        self.position: Position = 0
        self.snapshots = -1
        self.delays_ms: list[float] = []
        self.received_bytes = 0
        self._moved = trio.Event()

    async def watch(self, host: str, port: int) -> None:
        """Read until the stream ends."""
        async with _asking(host, port) as stream:
            pending = bytearray()
            while piece := await stream.receive_some(RECEIVE_BYTES):
                received_at = time.time()
                self.received_bytes += len(piece)
                pending += piece
                if not pending.endswith(b"\n\n"):
                    continue  # a large event is looked at once it is whole
                *events, rest = bytes(pending).split(b"\n\n")
                pending[:] = rest
                for event in events:
                    self._take(event, received_at)

    async def reach(self, position: Position) -> None:
        """Return once all up to *position* was seen."""
        while self.position < position:
            await self._moved.wait()

    def _take(self, event: bytes, received_at: float) -> None:
        _, told, data = event.partition(b"\ndata: ")
        if not told or not event.startswith(b"id: "):
            return
        frame = msgspec.json.decode(data, type=_Seen)
        self.position = frame.position
        if frame.snapshot is not msgspec.UNSET:
            self.snapshots += 1
        if self.snapshots or frame.snapshot is msgspec.UNSET:
            self.delays_ms.append(1_000 * (received_at - frame.at.timestamp()))
        self._moved.set()
        self._moved = trio.Event()


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a viewer looks at of a frame."""

    position: Position
    at: datetime
    snapshot: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


async def _written(session: Session, pace: Pace) -> Written:
    start = trio.current_time()
    late_ms: list[float] = []
    commits = 0
    while (passed := trio.current_time() - start) < pace.seconds:
        due = start + (passed if pace.rate is None else commits / pace.rate)
        await trio.sleep_until(due)
        await session.root.submit_write("note", data=NOTE)
        commits += 1
        if pace.rate is not None:
            late_ms.append(1_000 * (trio.current_time() - due))
    return Written(
        seconds=trio.current_time() - start,
        commits=commits,
        late_ms=late_ms,
        position=session.position,
    )


async def _watched(crowd: Sequence[Viewer], until: Until) -> Watched:
    with trio.move_on_after(CATCH_UP_S_MAX):
        for viewer in crowd:
            await viewer.reach(until.position)
    snapshots = sum(viewer.snapshots for viewer in crowd)
    delays_ms = [delay for viewer in crowd for delay in viewer.delays_ms]
    return Watched(
        delays_ms=delays_ms,
        frames=len(delays_ms) - snapshots,
        snapshots=snapshots,
        received_bytes=sum(viewer.received_bytes for viewer in crowd),
        behind=sum(viewer.position < until.position for viewer in crowd),
    )


@asynccontextmanager
async def _asking(host: str, port: int, *, stuck: bool = False) -> AsyncGenerator[trio.SocketStream]:
    """A connection on which the events were asked for; HTTP/1.0, so that they come as they are."""
    asking = trio.socket.socket()
    if stuck:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STUCK_BYTES)
    await asking.connect((host, port))
    async with trio.SocketStream(asking) as stream:
        await stream.send_all(f"GET {EVENTS} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        yield stream


async def _answer(kind: type[T], answer: Callable[[T], Awaitable[object]]) -> None:
    """Answer each line of the parent with what *answer* makes of it."""
    while line := await trio.to_thread.run_sync(sys.stdin.readline):
        _say(await answer(msgspec.json.decode(line, type=kind)))


def _say(what: object) -> None:
    print(msgspec.json.encode(what).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

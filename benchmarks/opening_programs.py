"""The processes of the opening benchmark.

``python -m benchmarks.opening_programs open|close|compare|idle STORE``. Each tells its parent one line
of JSON.
"""

import gc
import os
import resource
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from benchmarks.long_logs import SESSION, WAITING
from pi_actors import ActorKind, Done, Session, Settings, Work, open_session
from pi_actors.runtime.live import kept_of
from pi_actors.runtime.opening import fold_log, fold_to
from pi_actors.runtime.store import LiveStore
from pi_actors.storage.opening import open_log


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """From asking for the session until it was open. ``peak_mb``: of the whole process, by then."""

    seconds: float
    peak_mb: float


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Python's memory for one idle agent: with what it remembers, without it, and opened without it."""

    resident: float
    passive: float
    reopened: float


class Nothing(msgspec.Struct, frozen=True):
    """A state without anything in it."""


async def _never(_: Work[Nothing]) -> Done:
    await trio.sleep_forever()


KIND: Final = ActorKind(WAITING, Nothing, step=_never)


def main(arguments: Sequence[str]) -> None:
    """Be the process that *arguments* ask for."""
    match arguments:
        case ["open", store]:
            trio.run(open_and_die, Path(store))
        case ["close", store]:
            trio.run(open_and_close, Path(store))
            _say("closed")
        case ["compare", store]:
            _say(compare(Path(store)))
        case ["idle", store]:
            _say(trio.run(idle, Path(store)))
        case _:
            raise SystemExit(f"unknown arguments {arguments}; {__doc__}")


async def open_and_die(store: Path) -> None:
    """Open the session, say how long that took, and end as if killed."""
    start = time.perf_counter()
    async with open_session(store, SESSION, actors=[KIND]):
        seconds = time.perf_counter() - start
        _say(Opened(seconds=seconds, peak_mb=_peak_mb()))
        os._exit(0)


async def open_and_close(store: Path) -> None:
    """Open the session, close it in order."""
    async with open_session(store, SESSION, actors=[KIND]):
        pass


def compare(store: Path) -> bool:
    """Whether the newest snapshot and its tail give the state that the whole log gives."""
    log = open_log(store)
    kept, head = kept_of(LiveStore(log), SESSION), log.head(SESSION)
    assert head is not None, "the session is there"
    folded = fold_log(head, kept)
    return folded.snapshot > 0 and kept.awake(folded.state) == fold_to(kept, head.position)


async def idle(store: Path) -> Idle:
    """Let all agents of a session give up their memory, and open it once more."""
    tracemalloc.start()
    before = _traced()
    async with open_session(store, SESSION, settings=Settings()) as session:
        agents = len(await session.agents())
        resident = _traced()
        for _ in range(2):
            await session.live.passivation.look()
        passive = _traced()
    del session
    between = _traced()
    async with open_session(store, SESSION) as session:
        reopened = _traced()
        await _require_all_there(session)
    return Idle(
        resident=(resident - before) / agents,
        passive=(passive - before) / agents,
        reopened=(reopened - between) / agents,
    )


async def _require_all_there(session: Session) -> None:
    newest = (await session.agents())[-1]
    assert await newest.entries(), f"agent {newest.id} has lost its context"


def _peak_mb() -> float:
    """The largest that the process has been. On Linux getrusage would also count its parent's size."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (peak_kb,) = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(peak_kb) / 1024


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _say(what: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Writes the golden log of this version's format: ``python -m tests.golden.write``.

``format-<n>.rows`` is the log, a line for each row: position, topic, bytes in hex.
``format-<n>.json`` is what it says. A released one is never written again; every later version
replays it.
"""

import tempfile
from pathlib import Path
from typing import Final

import msgspec
import trio
from trio.testing import MockClock

from pi_actors import open_store
from pi_actors.actors.topics import index_of
from pi_actors.core.text import Json
from pi_actors.runtime.store import TOPICS
from pi_actors.storage.codec import decode_rows, published
from pi_actors.storage.log import FORMAT, Batch, Log, Row
from pi_actors.storage.memory import MemoryLog
from projections import replay
from tests.golden.story import tell

FOLDER: Final = Path(__file__).parent
SESSION: Final = "main"


def main() -> None:
    """Live the story and write down what was stored."""
    log = MemoryLog()
    with tempfile.TemporaryDirectory() as folder:
        trio.run(tell, log, Path(folder), clock=MockClock(autojump_threshold=0))
    rows = log.read(SESSION, after=0, through=10_000, limit=10_000)
    lines = (f"{row.position} {row.topic} {row.state.hex()}\n" for row in rows)
    path = FOLDER / f"format-{FORMAT}.rows"
    path.write_text("".join(lines))
    said = msgspec.json.format(msgspec.json.encode(trio.run(summary, log)), indent=1)
    path.with_suffix(".json").write_bytes(said + b"\n")


def load(path: Path) -> MemoryLog:
    """The log that was written to *path*, stored commit by commit."""
    log = MemoryLog()
    epoch = log.claim(SESSION, now_us=0).epoch
    parts = (line.split(" ") for line in path.read_text().splitlines())
    rows = [Row(int(position), topic, bytes.fromhex(state)) for position, topic, state in parts]
    for commit in published(decode_rows(SESSION, rows, TOPICS)):
        first, end = commit[0].position, commit[-1].position
        batch = Batch(
            session=SESSION,
            epoch=epoch,
            after=first - 1,
            rows=rows[first - 1 : end],
            index=index_of(commit),
            live=False,
            at_us=commit[-1].at_us,
        )
        assert log.append([batch]) == [None]
    return log


async def summary(log: Log) -> Json:
    """What the log says: entries, submissions, what lives, what was used."""
    async with open_store(log) as store:
        state = await replay(store)
    entries = {
        str(agent): [[entry.id, entry.kind, entry.text] for entry in state.entries(agent)]
        for agent in state.agents
    }
    return {
        "position": state.position,
        "entries": entries,
        "tree": [[node.id, node.kind, node.agent, node.owner, node.state] for node in state.tree()],
        "usage": msgspec.to_builtins(state.usage()),
    }


if __name__ == "__main__":
    main()

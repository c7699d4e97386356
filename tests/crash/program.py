"""The work that crash tests kill, and the process of its own that it runs in.

    python -m tests.crash.program STORE EFFECTS [COMMIT SIDE]

works until done, or until the process kills itself before or after the given commit.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Final

import trio

from pi_actors import Settled, Store, open_session, open_store
from pi_actors.models import ScriptedModel, call, reply
from pi_actors.storage.opening import open_log
from pi_actors.testing import (
    CrashingLog,
    CrashPoint,
    EffectsFile,
    Witness,
    check_session,
    effect_tools,
    kill_this_process,
    read_log,
)

PROJECT: Final = Path(__file__).parents[2]
ANSWER: Final = "All done."
CALLS: Final = 6
SCRIPT: Final = (
    reply("First.", call("look", what="a"), call("push", what="a"), call("pay", what="a")),
    reply("Then.", call("look", what="b"), call("push", what="b"), call("pay", what="b")),
    reply(ANSWER),
)
"""Two rounds of three parallel tools (one safe, one never, one reconciled), and an answer."""


async def work(store: Store, file: EffectsFile) -> Settled:
    """Do the work, or whatever of it is left, and return how it ended; the promises are checked."""
    tools = effect_tools(file)
    async with open_session(store, model=ScriptedModel(SCRIPT), tools=tools) as session:
        witness = Witness(session)
        submission = await session.root.submit("Work.", request_id="work")
        settled = await submission.wait()
        await check_session(session)
    witness.check(read_log(store.log))
    return settled


async def work_in_a_process(folder: Path, *points: CrashPoint) -> int:
    """Work in a child process, killed at the point if there is one, and return its exit status."""
    words = [word for point in points for word in (str(point.commit), point.side)]
    program = [sys.executable, "-m", "tests.crash.program", str(folder / "work.db"), str(folder / "effects")]
    ended = await trio.run_process([*program, *words], cwd=PROJECT, check=False)
    return ended.returncode


async def main(store: str, effects: str, *words: str) -> None:
    """Work in this process."""
    point = CrashPoint(int(words[0]), "after" if words[1] == "after" else "before") if words else None
    log = CrashingLog(open_log(store), point, crash=kill_this_process)
    async with open_store(log) as opened:
        assert (await work(opened, EffectsFile(Path(effects)))).text == ANSWER
    log.log.close()


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))

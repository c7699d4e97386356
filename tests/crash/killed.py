"""Sessions whose process dies, in appearance: nothing of their end is stored."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import trio

from pi_actors import Clock, RetrySettings, Session, SessionFailed, Settings, Tool, open_session, open_store
from pi_actors.actors.agent.messages import ToolResultSettled
from pi_actors.models import Model, ModelRequest, ScriptedModel
from pi_actors.models.plays import Script
from pi_actors.storage.log import Log
from pi_actors.testing import CrashingLog, read_log
from tests.models.watched import Watched

QUICK = Settings(retry=RetrySettings(first_ms=1, cap_ms=1))


class Observed(Watched):
    """A scripted model that keeps the requests it was sent. ``asked`` is set with the first."""

    def __init__(self, script: Script, *, name: str = "scripted", chunk_ms: int = 0) -> None:
        super().__init__(ScriptedModel(script, name=name, chunk_ms=chunk_ms))
        self.requests: list[ModelRequest] = []
        self.asked = trio.Event()

    async def meet(self, request: ModelRequest) -> None:
        self.requests.append(request)
        self.asked.set()


@asynccontextmanager
async def reopened(
    log: Log,
    script: Script | Model,
    *tools: Tool,
    settings: Settings = QUICK,
    clock: Clock | None = None,
    resume: bool = True,
) -> AsyncGenerator[Session]:
    """An open session on *log*, with a model that plays *script*."""
    model = script if isinstance(script, Model) else ScriptedModel(script)
    async with (
        open_store(log) as store,
        open_session(
            store, model=model, tools=tools, settings=settings, clock=clock, resume=resume
        ) as session,
    ):
        yield session


@asynccontextmanager
async def killed(
    log: Log,
    script: Script | Model,
    *tools: Tool,
    settings: Settings = QUICK,
    clock: Clock | None = None,
) -> AsyncGenerator[Session]:
    """The same, but its process dies at the end of the block."""
    crashing = CrashingLog(log, None)
    try:
        async with reopened(crashing, script, *tools, settings=settings, clock=clock) as session:
            yield session
            crashing.crash_now()
    except SessionFailed:
        if not crashing.crashed:
            raise


async def stored(session: Session, topic: str, *, times: int = 1, after: int = 0) -> None:
    """Return once *times* events of the topic are stored and shown, after a position."""
    log = session.live.store.log
    await session.live.waits.until(lambda _: topics(log, after=after).count(topic) >= times)


def topics(log: Log, *, after: int = 0) -> list[str]:
    """The topics stored after a position."""
    return [each.topic for each in read_log(log) if each.position > after]


def results(log: Log) -> Sequence[ToolResultSettled]:
    """The results of calls, in the order they were stored."""
    return [each.event for each in read_log(log) if isinstance(each.event, ToolResultSettled)]


def codes(result: ToolResultSettled) -> list[str]:
    """The codes of a result's remarks."""
    return [remark.code for remark in result.diagnostics]

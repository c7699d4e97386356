"""Sessions for tests: a scripted model, a private store in memory, retries without waiting."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from pi_actors import RetrySettings, Session, Settings, Store, open_session
from pi_actors.models import Model, ScriptedModel
from pi_actors.models.plays import Item
from pi_actors.runtime.registry import Instructions, PromptContext
from pi_actors.tools import Tool

QUICK = Settings(retry=RetrySettings(first_ms=1, cap_ms=1))


async def computed(_: PromptContext) -> str:
    """Instructions that must be awaited, so every request is prepared by a second command."""
    return "Be brief."


WAYS: dict[str, Instructions | None] = {"at once": "Be brief.", "computed": computed}
"""Every rule holds with and without an asynchronous step before the request."""


@asynccontextmanager
async def opened(
    script: Sequence[Item] | Model,
    *tools: Tool,
    store: Store | str = "memory:",
    instructions: Instructions | None = None,
    settings: Settings = QUICK,
    resume: bool = True,
) -> AsyncGenerator[Session]:
    """An open session with a model that plays *script*."""
    model = script if isinstance(script, Model) else ScriptedModel(script)
    async with open_session(
        store, model=model, tools=tools, instructions=instructions, settings=settings, resume=resume
    ) as session:
        yield session

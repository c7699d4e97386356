"""A nursery for background tasks around a body whose exceptions leave as they are."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def nursery_around_body() -> AsyncGenerator[trio.Nursery]:
    """Run background tasks for the time of the body and cancel them after it.

    What the body raises is raised unchanged, not in an exception group.
    """
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except (trio.Cancelled, GeneratorExit):
            raise
        except BaseException as error:  # raised again below, outside the nursery
            raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised

"""Background tasks around a body whose exceptions leave as they are; code of others kept within."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import trio


@asynccontextmanager
async def background(*tasks: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Run *tasks* for the time of the body, and cancel them after it.

    Cancelling the body does not reach them: what the body does on its way out still finds them
    running. What the body raises is raised unchanged, not in an exception group.
    """
    raised: BaseException | None = None
    scope = trio.CancelScope(shield=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_within, scope, tasks)
        try:
            yield
        except (trio.Cancelled, GeneratorExit):
            raise
        except BaseException as error:  # raised again below, outside the nursery
            raised = error
        finally:
            scope.cancel()
    if raised is not None:
        raise raised


async def _run_within(scope: trio.CancelScope, tasks: tuple[Callable[[], Awaitable[None]], ...]) -> None:
    with scope:
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task)


class Escaped(Exception):
    """Code of a user raised what is meant to end a process or a foreign task, such as SystemExit."""


@contextmanager
def contained() -> Generator[None]:
    """Run code of users: what it raises is an Exception, a cancellation, or a person's interrupt.

    Raises:
        Escaped: it raised something else that no handler of exceptions would meet.
    """
    try:
        yield
    except (Exception, trio.Cancelled, KeyboardInterrupt, GeneratorExit, BaseExceptionGroup):
        raise
    except BaseException as error:
        raise Escaped(f"{type(error).__name__}: {error}") from error

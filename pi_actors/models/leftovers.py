"""Closing what a provider's SDK leaves open.

An SDK that stops reading a stream early (at its end marker, or at an error) drops suspended async
generators, which trio then finds in the garbage and warns about. Here they are closed at a known
moment instead, before the request returns.
"""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import TypeAlias

import trio

from pi_actors.core.text import Json

Generator: TypeAlias = AsyncGenerator[Json, Json]

_begun: ContextVar[list[Generator] | None] = ContextVar("_begun", default=None)


@asynccontextmanager
async def generators_closed() -> AsyncGenerator[None, None]:
    """Close, on leaving, every async generator that the body began and did not exhaust.

    Cancellation: closing is short and is not interrupted.
    """
    _notice_generators()
    begun: list[Generator] = []
    token = _begun.set(begun)
    try:
        yield
    finally:
        _begun.reset(token)
        with trio.CancelScope(shield=True):
            for generator in begun:
                # How the request ended is already decided; a connection that fails to close is closed.
                with suppress(Exception):
                    await generator.aclose()


class _Noticing:
    """Python's hook for a generator that begins; it passes on to trio's own."""

    def __init__(self, before: Callable[[Generator], None] | None) -> None:
        self._before = before

    def __call__(self, generator: Generator) -> None:
        if self._before is not None:
            self._before(generator)
        if (begun := _begun.get()) is not None:
            begun.append(generator)


def _notice_generators() -> None:
    """Install the hook in this thread. trio takes it away when its run ends."""
    hooks = sys.get_asyncgen_hooks()
    if not isinstance(hooks.firstiter, _Noticing):
        sys.set_asyncgen_hooks(firstiter=_Noticing(hooks.firstiter))

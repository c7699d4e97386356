"""Where the output of a command goes: to its caller as text, and to the spill file as it is."""

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import trio

from pi_actors.tools.environment import EnvError
from pi_actors.tools.spill import Spill

T = TypeVar("T")


class Outlet:
    """Takes the raw output of both streams, in the order in which it was read.

    Every stream is decoded on its own, so a character split over chunks is whole again even when
    the other stream wrote in between.
    """

    def __init__(
        self,
        on_output: Callable[[str], None] | None,
        spill: Spill,
        on_spill: Callable[[Path], None] | None,
    ) -> None:
        self.spill = spill
        self._on_output = on_output
        self._on_spill = on_spill
        self._one_at_a_time = trio.Lock()
        self._decoders: dict[int, codecs.IncrementalDecoder] = {}

    async def take(self, stream: int, data: bytes) -> None:
        """Take the next bytes of *stream*; empty bytes end it.

        Raises:
            EnvError: ``callback_error`` or ``spill_error``.
        """
        async with self._one_at_a_time:
            if await self.spill.add(data) and self._on_spill is not None and self.spill.path is not None:
                _called(self._on_spill, self.spill.path)
            text = self._decoder(stream).decode(data, final=not data)
            if text and self._on_output is not None:
                _called(self._on_output, text)

    def _decoder(self, stream: int) -> codecs.IncrementalDecoder:
        if stream not in self._decoders:
            self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return self._decoders[stream]


def _called(callback: Callable[[T], None], value: T) -> None:
    try:
        callback(value)
    except Exception as error:
        raise EnvError(
            "callback_error", f"the caller's callback failed ({error}); the command was killed."
        ) from error

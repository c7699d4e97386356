"""The prompt of ``chat``: a line to type in, below what is being written.

prompt_toolkit runs in a thread of its own. What is typed and pressed comes out of it as messages,
and what is to be seen goes in as text. The terminal stays in raw mode all the time: a Ctrl-C that
is pressed while something is being written is a key, too, and no key is lost.
"""

import asyncio
import io
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, TextIO, TypeAlias, cast

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

Typed: TypeAlias = str | Literal[False] | None
"""A line; False: stop what is being done; None: leave."""

MARK: Final = "> "
TYPED_MAX: Final = 1_000
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse", "mark": "bold"})


class Prompt:
    """Asks for lines, which come out of ``typed``; ``begun`` is set as soon as it does.

    ``above``: the text over the line. ``working``: whether there is something to stop. Both are
    asked at each drawing, in the prompt's thread.
    """

    def __init__(self, *, above: Callable[[], str], working: Callable[[], bool]) -> None:
        self._above = above
        self._working = working
        self._send, self.typed = trio.open_memory_channel[Typed](TYPED_MAX)
        self.begun = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._limiter = trio.CapacityLimiter(1)
        self._session = PromptSession[str](
            message=self._message,
            bottom_toolbar=self._toolbar,
            key_bindings=self._keys(),
            style=_STYLE,
            erase_when_done=True,
        )
        self._ended = False
        self._asking: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._unwritten: list[str] = []
        self._lock = threading.Lock()

    async def run(self) -> None:
        """Ask for lines until the user leaves, or until cancelled. The terminal is left as it was."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_cancelled)
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._ask_in_thread, limiter=self._limiter)
            nursery.cancel_scope.cancel()

    def write(self, text: str) -> None:
        """Write whole lines over the prompt. Any thread."""
        with self._lock:
            self._unwritten.append(text)
        if not self._in_thread(self._write):
            self._write()

    def redraw(self) -> None:
        """Draw again, as what stands above has changed. Any thread."""
        self._session.app.invalidate()

    # In the prompt's thread.

    def _ask_in_thread(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._ask())
        self._asking = None
        self._write()

    async def _ask(self) -> None:
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        self._asking = asyncio.get_running_loop(), task
        if self._ended:
            return
        with suppress(EOFError):
            await self._session.prompt_async(handle_sigint=False, pre_run=self._tell_begun)
        self._post(None)

    def _write(self) -> None:
        with self._lock:
            text, self._unwritten = "".join(self._unwritten), []
        if not text:
            return
        app = self._session.app
        if app.is_running:
            app.renderer.erase()
        app.output.write_raw(text.replace("\n", "\r\n"))
        app.output.flush()
        if app.is_running:
            app.renderer.request_absolute_cursor_position()
            app.invalidate()

    def _message(self) -> StyleAndTextTuples:
        above = self._above()
        return [("", f"{above}\n" if above else ""), ("class:mark", MARK)]

    def _toolbar(self) -> str:
        if self._working():
            return "working · Enter steers · Esc stops · Ctrl-D leaves"
        return "Enter sends · Ctrl-D leaves · /help"

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            self._post(buffer.text)
            buffer.reset(append_to_history=True)

        def stop(_: KeyPressEvent) -> None:
            self._post(False)

        def stop_or_clear(event: KeyPressEvent) -> None:
            if event.current_buffer.text and not self._working():
                event.current_buffer.reset()
            else:
                self._post(False)

        keys.add("enter")(send)
        keys.add("escape", eager=True)(stop)
        keys.add("c-c", eager=True)(stop_or_clear)
        return keys

    # Between the threads.

    def _in_thread(self, function: Callable[[], object]) -> bool:
        """Have *function* called in the prompt's thread; whether there is one."""
        asking = self._asking
        if asking is None:
            return False
        try:
            asking[0].call_soon_threadsafe(function)
        except RuntimeError:  # the loop has just been closed
            return False
        return True

    async def _end_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            # Whichever of the two threads comes second sees what the other one has set.
            self._ended = True
            if self._asking is not None:
                self._in_thread(self._asking[1].cancel)

    def _tell_begun(self) -> None:
        self._token.run_sync_soon(self.begun.set)

    def _post(self, typed: Typed) -> None:
        self._token.run_sync_soon(self._deliver, typed)

    def _deliver(self, typed: Typed) -> None:
        with suppress(trio.WouldBlock, trio.BrokenResourceError):
            self._send.send_nowait(typed)


def terminal_above(prompt: Prompt) -> TextIO:
    """The terminal over *prompt*, as a file to write whole lines to. Any thread."""
    return cast("TextIO", _Above(prompt))


class _Above(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, prompt: Prompt) -> None:
        super().__init__()
        self._prompt = prompt

    def write(self, text: str) -> int:
        self._prompt.write(text)
        return len(text)

    def isatty(self) -> bool:
        return True

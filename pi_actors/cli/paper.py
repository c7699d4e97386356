"""Where a screen writes: whole lines, and text that arrives in pieces.

Colours appear on a terminal only, and not where NO_COLOR is set; rich sees to both.
"""

from typing import Final, Protocol, TextIO

from rich.console import Console
from rich.text import Text as Styled

from pi_actors.core.window import clean_output

TAB_COLUMNS = 4

QUIET: Final = "dim"
GOOD: Final = "green"
WARNING: Final = "yellow"
FAULT: Final = "red"
USER: Final = "bold cyan"
SUMMARY: Final = "magenta"


class Paper(Protocol):
    """Takes what is to be seen, in order. Control characters are left out."""

    def line(self, text: str, style: str = "") -> None:
        """Write *text* as lines of its own."""
        ...

    def piece(self, text: str, style: str = "") -> None:
        """Go on with the line that pieces have begun; *text* may contain line breaks."""
        ...

    def end_line(self) -> None:
        """End the line that pieces have begun, if there is one."""
        ...


class Roll:
    """Paper that cannot be taken back: pieces are written as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = False

    def line(self, text: str, style: str = "") -> None:
        self.end_line()
        self._write(text + "\n", style)

    def piece(self, text: str, style: str = "") -> None:
        if text:
            self._write(text, style)
            self._begun = not text.endswith("\n")

    def end_line(self) -> None:
        if self._begun:
            self._write("\n", "")
            self._begun = False

    def _write(self, text: str, style: str) -> None:
        styled = Styled(clean_output(text), style, tab_size=TAB_COLUMNS)
        self._console.print(styled, end="", soft_wrap=True)
        self._console.file.flush()


class Slate:
    """Paper under which something else stands, such as a prompt: only whole lines are written.

    ``begun`` is the line that is still growing, to be shown where the rest of the screen is drawn.
    """

    def __init__(self, console: Console) -> None:
        self._roll = Roll(console)
        self._style = ""
        self.begun = ""

    def line(self, text: str, style: str = "") -> None:
        self.end_line()
        self._roll.line(text, style)

    def piece(self, text: str, style: str = "") -> None:
        *whole, rest = (self.begun + clean_output(text)).split("\n")
        for line in whole:
            self._roll.line(line, style)
        self.begun, self._style = rest, style

    def end_line(self) -> None:
        if self.begun:
            begun, self.begun = self.begun, ""
            self._roll.line(begun, self._style)


def console_of(*, wide: bool = False, file: TextIO | None = None) -> Console:
    """A console on standard output (or *file*) that adds nothing by itself.

    ``wide``: lines are as long as they are, also where output goes to a file.
    """
    console = Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if wide and not console.is_terminal:
        console.width = 10_000
    return console

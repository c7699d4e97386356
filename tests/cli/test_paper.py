"""Paper: lines and pieces in order, no control characters, and never half a line under a prompt."""

import io

from rich.console import Console

from pi_actors.cli.paper import Roll, Slate


def written(*, width: int = 20) -> tuple[Console, io.StringIO]:
    """A narrow console and what is written on it."""
    file = io.StringIO()
    return Console(file=file, width=width, highlight=False, markup=False), file


def test_pieces_are_written_as_they_come_and_ended_before_a_line() -> None:
    console, file = written()
    roll = Roll(console)
    roll.piece("Hel")
    assert file.getvalue() == "Hel"
    roll.piece("lo")
    roll.line("next")
    roll.piece("whole\n")
    roll.line("last")
    assert file.getvalue() == "Hello\nnext\nwhole\nlast\n"


def test_long_lines_are_not_broken_and_markup_is_text() -> None:
    console, file = written()
    text = "a [bold]line[/bold] that is much longer than the terminal is wide"
    Roll(console).line(text)
    assert file.getvalue() == text + "\n"


def test_control_characters_are_left_out() -> None:
    console, file = written()
    Roll(console).line("a\x1b[2Jb\x07c")
    assert file.getvalue() == "a[2Jbc\n"


def test_a_slate_writes_whole_lines_and_keeps_the_one_that_grows() -> None:
    console, file = written()
    slate = Slate(console)
    slate.piece("one\ntw")
    assert (file.getvalue(), slate.begun) == ("one\n", "tw")
    slate.piece("o")
    assert (file.getvalue(), slate.begun) == ("one\n", "two")
    slate.line("three")
    assert (file.getvalue(), slate.begun) == ("one\ntwo\nthree\n", "")
    slate.end_line()
    assert file.getvalue() == "one\ntwo\nthree\n"

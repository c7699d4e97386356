"""Reading text line by line."""

from pathlib import Path

import pytest
import trio

from pi_actors.tools import EnvError, Line, LocalEnv, TextReader
from pi_actors.tools.text_reader import BLOCK_BYTES


async def all_lines(reader: TextReader) -> list[Line]:
    lines: list[Line] = []
    while (line := await reader.read_line()) is not None:
        lines.append(line)
    return lines


async def test_each_line_tells_whether_a_newline_ended_it(tmp_path: Path) -> None:
    """S307."""
    (tmp_path / "file").write_bytes(b"one\r\n\ntwo\rtwo\xff\nlast")
    async with LocalEnv(tmp_path).open_text("file") as reader:
        assert await all_lines(reader) == [
            Line(text="one\r", ended=True),
            Line(text="", ended=True),
            Line(text="two\rtwo\ufffd", ended=True),
            Line(text="last", ended=False),
        ]


async def test_an_empty_file_has_no_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with LocalEnv(tmp_path).open_text("file") as reader:
        assert await reader.read_line() is None
        assert await reader.skip_lines(5) == 0


async def test_a_cancelled_read_consumes_nothing(tmp_path: Path) -> None:
    """S307."""
    (tmp_path / "file").write_bytes(b"one\ntwo\n")
    async with LocalEnv(tmp_path).open_text("file") as reader:
        for expected in ("one", "two"):
            with trio.CancelScope() as scope:
                scope.cancel()
                await reader.read_line()
            assert scope.cancelled_caught
            assert await reader.read_line() == Line(text=expected, ended=True)


async def test_a_long_line_comes_in_pieces_of_whole_characters(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("ääää🙂\nb\n")
    async with LocalEnv(tmp_path).open_text("file") as reader:
        pieces = [await reader.read_line(max_bytes=5) for _ in range(5)]
    assert pieces == [
        Line(text="ää", ended=False),
        Line(text="ää", ended=False),
        Line(text="🙂", ended=True),
        Line(text="b", ended=True),
        None,
    ]


async def test_lines_across_blocks_are_whole(tmp_path: Path) -> None:
    lines = ["x" * (BLOCK_BYTES - 3), "ä" * BLOCK_BYTES, "", "end"]
    (tmp_path / "file").write_text("\n".join(lines))
    async with LocalEnv(tmp_path).open_text("file") as reader:
        assert [line.text for line in await all_lines(reader)] == lines


@pytest.mark.parametrize(
    ("count", "skipped", "following"), [(0, 0, "0"), (3, 3, "3"), (60_000, 60_000, "60000")]
)
async def test_lines_are_passed_over(tmp_path: Path, count: int, skipped: int, following: str) -> None:
    (tmp_path / "file").write_text("\n".join(str(number) for number in range(100_000)))
    async with LocalEnv(tmp_path).open_text("file") as reader:
        assert await reader.skip_lines(count) == skipped
        line = await reader.read_line()
        assert line is not None
        assert line.text == following


async def test_passing_over_the_end_counts_the_last_line_with_and_without_newline(tmp_path: Path) -> None:
    (tmp_path / "ended").write_text("1\n2\n")
    (tmp_path / "open").write_text("1\n2\n" + "3" * 3 * BLOCK_BYTES)
    for name, lines in (("ended", 2), ("open", 3)):
        async with LocalEnv(tmp_path).open_text(name) as reader:
            assert await reader.skip_lines(100) == lines
            assert await reader.read_line() is None


async def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="gone: No such file") as caught:
        async with LocalEnv(tmp_path).open_text("gone"):
            pass
    assert caught.value.code == "not_found"

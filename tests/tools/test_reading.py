"""The tools read and ls."""

import os
from pathlib import Path

import pytest

from pi_actors.tools.reading import COUNTED_BYTES_MAX, SHOWN_BYTES, SHOWN_LINES, ls, read
from tests.tools.recording import called, text_of


async def test_a_short_file_is_shown_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one\n  two\nthree")
    result = await called(read, tmp_path, '{"path": "file"}')
    assert (text_of(result), result.is_error) == ("one\n  two\nthree", False)


async def test_a_part_of_a_file_says_where_it_stands_and_where_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("".join(f"{number}\n" for number in range(1, 11)))
    result = await called(read, tmp_path, '{"path": "file", "offset": 3, "limit": 2}')
    assert text_of(result) == "3\n4\n\n[Lines 3-4 of 10. Go on with offset=5.]"
    result = await called(read, tmp_path, '{"path": "file", "offset": 9}')
    assert text_of(result) == "9\n10\n"


async def test_a_long_file_is_shown_up_to_a_number_of_lines(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x\n" * 5_000)
    text = text_of(await called(read, tmp_path, '{"path": "file", "limit": 4000}'))
    assert text.count("x\n") == SHOWN_LINES
    assert f"[Lines 1-{SHOWN_LINES} of 5000. Go on with offset={SHOWN_LINES + 1}.]" in text


async def test_a_wide_file_is_shown_up_to_a_number_of_bytes_in_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(("ä" * 499 + "\n") * 100)
    text = text_of(await called(read, tmp_path, '{"path": "file"}'))
    shown = SHOWN_BYTES // 999
    assert text.startswith(("ä" * 499 + "\n") * shown + "\n[")
    assert text.endswith(f"\n[Lines 1-{shown} of 100. Go on with offset={shown + 1}.]")


async def test_the_start_of_a_line_that_is_too_long_is_shown_and_the_next_can_be_reached(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("x" * 200_000 + "\nnext\n")
    text = text_of(await called(read, tmp_path, '{"path": "file"}'))
    assert text == (
        "x" * SHOWN_BYTES
        + f"\n[Line 1 is longer than {SHOWN_BYTES} bytes; its rest is not shown.]"
        + "\n[Lines 1-1 of 2. Go on with offset=2.]"
    )
    assert text_of(await called(read, tmp_path, '{"path": "file", "offset": 2}')) == "next\n"


async def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"first\nsecond\nthird\n")
        file.truncate(100 * COUNTED_BYTES_MAX)  # a hole, no real bytes
    result = await called(read, tmp_path, '{"path": "file", "limit": 2}')
    assert result.is_error  # the hole reads as NUL bytes
    with (tmp_path / "file").open("r+b") as file:
        file.write(b"first\nsecond\n" + b"x" * 10_000 + b"\n")
    result = await called(read, tmp_path, '{"path": "file", "limit": 2}')
    assert text_of(result) == "first\nsecond\n\n[Lines 1-2; more follow. Go on with offset=3.]"


async def test_a_binary_file_is_refused_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x89PNG\r\n\0")
    result = await called(read, tmp_path, '{"path": "file"}')
    assert result.is_error
    assert text_of(result) == "file is a binary file of 7 bytes; read shows text only."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"path": "gone"}', "gone: No such file or directory"),
        ('{"path": "folder"}', "folder is a directory; use ls"),
        ('{"path": "pipe"}', "pipe is no ordinary file"),
        ('{"path": "three", "offset": 5}', "three has only 3 lines; offset=5 is past its end."),
    ],
)
async def test_what_cannot_be_read_is_an_error_for_the_model(
    tmp_path: Path, arguments: str, words: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "three").write_text("1\n2\n3\n")
    os.mkfifo(tmp_path / "pipe")
    result = await called(read, tmp_path, arguments)
    assert result.is_error
    assert words in text_of(result)


async def test_an_empty_file_and_an_empty_directory_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    assert text_of(await called(read, tmp_path, '{"path": "file"}')) == "file is empty."
    assert text_of(await called(ls, tmp_path, '{"path": "folder"}')) == "folder is empty."


async def test_a_directory_is_listed_with_marks(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / ".hidden").touch()
    (tmp_path / "link").symlink_to("nowhere")
    assert text_of(await called(ls, tmp_path, "")) == ".hidden\nfolder/\nlink@"


async def test_a_long_directory_says_how_much_is_missing(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    text = text_of(await called(ls, tmp_path, '{"limit": 2}'))
    assert text == "0\n1\n[3 more; raise limit to see them]"


async def test_a_missing_directory_is_an_error_for_the_model(tmp_path: Path) -> None:
    result = await called(ls, tmp_path, '{"path": "gone"}')
    assert result.is_error
    assert "gone: No such file or directory" in text_of(result)

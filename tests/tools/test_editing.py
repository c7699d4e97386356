"""The tools write and edit."""

import json
import stat
from pathlib import Path

import pytest
import trio

from pi_actors.tools.editing import edit, write
from tests.tools.recording import called, text_of


def change(old_text: str, new_text: str, path: str = "file") -> str:
    return json.dumps({"path": path, "old_text": old_text, "new_text": new_text})


async def test_write_makes_the_folders_that_are_missing(tmp_path: Path) -> None:
    result = await called(write, tmp_path, '{"path": "a/b/file", "content": "ä\\n"}')
    assert text_of(result) == "Wrote 3 bytes to a/b/file."
    assert (tmp_path / "a/b/file").read_text() == "ä\n"


async def test_write_replaces_all_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("much longer before")
    await called(write, tmp_path, '{"path": "file", "content": "new"}')
    assert (tmp_path / "file").read_text() == "new"


async def test_write_to_what_is_no_file_is_an_error_for_the_model(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path, words in (("folder", "is a directory"), ("file/below", "Not a directory")):
        result = await called(write, tmp_path, json.dumps({"path": path, "content": ""}))
        assert result.is_error
        assert words in text_of(result)


async def test_edit_replaces_the_one_place_and_keeps_the_mode(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one\ntwo\nthree\n")
    (tmp_path / "file").chmod(0o755)
    result = await called(edit, tmp_path, change("two\nth", "2\nTh"))
    assert (tmp_path / "file").read_text() == "one\n2\nThree\n"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o755
    assert text_of(result) == "Replaced the text at line 2 of file."
    assert result.details == {"path": "file", "line": 2}


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("one", change("two", "x"), "does not stand in file; it must match exactly"),
        ("a\nb\na\n", change("a", "x"), "stands 2 times in file (lines 1, 3); nothing was changed."),
        ("aaa", change("aa", "x"), "stands 2 times in file (lines 1, 1)"),
        ("one", change("", "x"), "old_text is empty"),
        ("one", change("one", "one"), "are the same; nothing was changed"),
        ("one", change("one", "x", "gone"), "gone: No such file or directory"),
    ],
)
async def test_an_edit_that_is_not_clear_changes_nothing(
    tmp_path: Path, content: str, arguments: str, words: str
) -> None:
    (tmp_path / "file").write_text(content)
    result = await called(edit, tmp_path, arguments)
    assert result.is_error
    assert words in text_of(result)
    assert (tmp_path / "file").read_text() == content


async def test_edit_leaves_what_is_no_text_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc\xff")
    result = await called(edit, tmp_path, change("abc", "x"))
    assert result.is_error
    assert "file is not UTF-8 text" in text_of(result)


async def test_edit_keeps_the_line_ends_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await called(edit, tmp_path, change("one\ntwo", "1\n2"))
    assert (tmp_path / "file").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_edits_of_one_file_at_the_same_time_lose_none(tmp_path: Path) -> None:
    names = [f"<{number}>" for number in range(6)]
    (tmp_path / "file").write_text("\n".join(names))
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(called, edit, tmp_path, change(name, name.upper() + "!"))
    assert (tmp_path / "file").read_text() == "\n".join(name + "!" for name in names)

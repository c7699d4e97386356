"""Files of the local environment."""

# ruff: noqa: ASYNC221, ASYNC240 - a test looks at its own files

import os
import stat
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest
import trio

from pi_actors.tools import EnvError, LocalEnv
from pi_actors.tools.files import looked_at


async def code_of(act: Awaitable[object]) -> str:
    """The code of the error that the awaited operation ends with."""
    with pytest.raises(EnvError) as caught:
        await act
    return caught.value.code


async def test_relative_paths_start_at_the_working_directory(tmp_path: Path) -> None:
    env = LocalEnv(tmp_path)
    await env.makedir("a/b")
    await env.write("a/b/file", b"0123456789")
    assert (tmp_path / "a/b/file").read_bytes() == b"0123456789"
    assert await env.read_bytes("a/b/file", offset=3, limit=4) == b"3456"
    assert env.cwd == tmp_path


async def test_without_a_directory_the_environment_works_in_that_of_the_process() -> None:
    assert LocalEnv().cwd == Path.cwd()


async def test_a_written_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o751)
    (tmp_path / "link").symlink_to("file")
    await LocalEnv(tmp_path).write("link", b"new")
    assert (tmp_path / "file").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o751
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


async def test_readers_see_the_old_or_the_new_content_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with file.open("rb") as opened:
        await LocalEnv(tmp_path).write("file", b"new content")
        assert opened.read() == b"old"
    assert file.read_bytes() == b"new content"


async def test_a_write_that_fails_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    env = LocalEnv(tmp_path)
    assert await code_of(env.write("folder", b"x")) == "is_a_directory"
    assert await code_of(env.write("pipe", b"x")) == "not_a_file"
    assert await code_of(env.write("missing/file", b"x")) == "not_found"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]
    assert (tmp_path / "pipe").is_fifo()


async def test_a_file_that_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    env = LocalEnv(tmp_path)
    (tmp_path / "file").write_bytes(b"theirs")
    assert await code_of(env.write("file", b"mine", instead_of=b"before")) == "changed"
    assert await code_of(env.write("gone", b"mine", instead_of=b"before")) == "changed"
    await env.write("file", b"mine", instead_of=b"theirs")
    assert (tmp_path / "file").read_bytes() == b"mine"


async def test_of_many_writers_that_expect_the_same_one_wins(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"start")
    won: list[int] = []
    lost: list[str] = []

    async def replace(number: int) -> None:
        try:
            await LocalEnv(tmp_path).write("file", b"%d" % number, instead_of=b"start")
        except EnvError as error:
            lost.append(error.code)
        else:
            won.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(replace, number)
    assert [b"%d" % number for number in won] == [(tmp_path / "file").read_bytes()]
    assert lost == ["changed"] * 19


async def test_a_pipe_or_a_directory_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    env = LocalEnv(tmp_path)
    assert await code_of(env.read_bytes("pipe")) == "not_a_file"
    assert await code_of(env.read_bytes(".")) == "is_a_directory"
    assert await code_of(env.read_bytes("gone")) == "not_found"
    assert await code_of(env.read_bytes("nul\0")) == "invalid_argument"


async def test_a_directory_is_listed_by_name_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("four")
    (tmp_path / "c").symlink_to("nowhere")
    os.mkfifo(tmp_path / "d")
    found = await LocalEnv(tmp_path).list()
    assert [(info.name, info.kind) for info in found] == [
        ("a", "file"),
        ("b", "directory"),
        ("c", "link"),
        ("d", "other"),
    ]
    assert found[0].size_bytes == 4


async def test_a_file_that_vanishes_while_a_directory_is_listed_is_skipped(tmp_path: Path) -> None:
    """S309."""
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    with os.scandir(tmp_path) as entries:
        seen = list(entries)
    (tmp_path / "b").unlink()
    assert [info.name for info in looked_at(seen)] == ["a", "c"]


async def test_stat_looks_through_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("four")
    (tmp_path / "link").symlink_to("file")
    info = await LocalEnv(tmp_path).stat("link")
    assert (info.name, info.kind, info.size_bytes) == ("link", "file", 4)
    assert await code_of(LocalEnv(tmp_path).stat("gone")) == "not_found"


async def test_truncate_is_exact_and_never_creates(tmp_path: Path) -> None:
    """S310."""
    env = LocalEnv(tmp_path)
    (tmp_path / "file").write_bytes(b"12345")
    await env.truncate("file", 3)
    assert (tmp_path / "file").read_bytes() == b"123"
    await env.truncate("file", 5)
    assert (tmp_path / "file").read_bytes() == b"123\0\0"
    assert await code_of(env.truncate("gone", 0)) == "not_found"
    assert not (tmp_path / "gone").exists()


async def test_remove_is_neither_recursive_nor_forced_unless_asked(tmp_path: Path) -> None:
    """S310."""
    env = LocalEnv(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to("folder")
    assert await code_of(env.remove("folder")) == "not_empty"
    assert await code_of(env.remove("gone")) == "not_found"
    await env.remove("gone", force=True)
    await env.remove("link", recursive=True)
    assert (tmp_path / "folder" / "file").exists()
    await env.remove("folder", recursive=True)
    assert list(tmp_path.iterdir()) == []


async def test_makedir_is_recursive_unless_told(tmp_path: Path) -> None:
    """S310."""
    env = LocalEnv(tmp_path)
    assert await code_of(env.makedir("a/b", recursive=False)) == "not_found"
    await env.makedir("a/b")
    await env.makedir("a/b")
    assert await code_of(env.makedir("a/b", recursive=False)) == "already_exists"


async def test_exists_tells_what_is_there(tmp_path: Path) -> None:
    env = LocalEnv(tmp_path)
    (tmp_path / "file").touch()
    assert [await env.exists(path) for path in (".", "file", "gone", "file/below")] == [
        True,
        True,
        False,
        False,
    ]


async def test_exists_is_an_error_where_one_may_not_know(tmp_path: Path) -> None:
    """S311. The question is asked in a process that is nobody special, whoever runs the tests."""
    program = (
        "import os, sys, trio\n"
        "from pi_actors.tools import EnvError, LocalEnv\n"
        "os.chdir(sys.argv[1])\n"
        "os.getuid() == 0 and os.setuid(65534)\n"
        "try:\n"
        "    answer = trio.run(LocalEnv('.').exists, 'closed/file')\n"
        "except EnvError as error:\n"
        "    answer = error.code\n"
        "sys.stdout.write(str(answer))\n"
    )
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "file").touch()
    closed.chmod(0)
    tmp_path.chmod(0o755)
    asked = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    closed.chmod(0o700)
    assert asked.stdout == "permission_denied"

"""Commands of the local environment, with real processes.

Nothing waits for a time: a named pipe or a file tells when a process has come so far.
"""

# ruff: noqa: ASYNC110, ASYNC240 - a test looks at what other processes do to its own files

import os
import signal
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from pi_actors.tools import EnvError, ExecResult, LocalEnv, processes
from pi_actors.tools.environment import Command


def python(program: str) -> list[str]:
    """A command that runs *program*."""
    return [sys.executable, "-I", "-S", "-c", program]


async def output_of(env: LocalEnv, command: Command, **variables: str) -> str:
    pieces: list[str] = []
    await env.exec(command, on_output=pieces.append, env=variables or None)
    return "".join(pieces)


async def is_gone(process_id: int) -> None:
    """Return when the process has ended."""
    while True:
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        await trio.sleep(0.001)


# Running.


async def test_a_string_is_run_by_a_shell(tmp_path: Path) -> None:
    """S293."""
    assert await output_of(LocalEnv(tmp_path), "echo $((1 + 1)) | tr 2 3") == "3\n"


async def test_a_list_is_run_without_a_shell(tmp_path: Path) -> None:
    """S293."""
    assert await output_of(LocalEnv(tmp_path), ["printf", "%s", "$HOME; *"]) == "$HOME; *"


@pytest.mark.parametrize("command", [[], ["no-such-program-at-all"], ["printf", "a\0b"]])
async def test_what_cannot_be_started_is_a_spawn_error(tmp_path: Path, command: Sequence[str]) -> None:
    """S293."""
    with pytest.raises(EnvError) as caught:
        await LocalEnv(tmp_path).exec(command)
    assert caught.value.code == "spawn_error"


async def test_a_missing_working_directory_is_named_before_anything_is_run(tmp_path: Path) -> None:
    """S305."""
    with pytest.raises(EnvError, match="there is no directory") as caught:
        await LocalEnv(tmp_path / "gone").exec("true")
    assert caught.value.code == "spawn_error"


async def test_the_command_works_in_the_working_directory(tmp_path: Path) -> None:
    assert await output_of(LocalEnv(tmp_path), "pwd -P") == f"{tmp_path.resolve()}\n"


async def test_an_exit_status_is_a_normal_result(tmp_path: Path) -> None:
    """S294."""
    assert await LocalEnv(tmp_path).exec("exit 3") == ExecResult(status=3)


async def test_death_by_signal_n_is_128_and_n(tmp_path: Path) -> None:
    """S294."""
    assert await LocalEnv(tmp_path).exec("kill -9 $$") == ExecResult(status=137, signal=9)


async def test_there_is_nothing_to_read_on_standard_input(tmp_path: Path) -> None:
    assert await output_of(LocalEnv(tmp_path), "cat; echo end") == "end\n"


@pytest.mark.parametrize("timeout_ms", [0, -1, float("nan"), float("inf"), 2**31])
async def test_a_timeout_that_is_none_is_refused_before_anything_is_run(
    tmp_path: Path, timeout_ms: float
) -> None:
    """S295."""
    with pytest.raises(EnvError) as caught:
        await LocalEnv(tmp_path).exec("touch ran", timeout_ms=timeout_ms)
    assert caught.value.code == "invalid_argument"
    assert list(tmp_path.iterdir()) == []


async def test_cancelled_before_the_call_nothing_is_run(tmp_path: Path) -> None:
    """S297."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await LocalEnv(tmp_path).exec("touch ran", spill=tmp_path / "spill", spill_bytes=0)
    assert scope.cancelled_caught
    assert list(tmp_path.iterdir()) == []


# Variables.


async def test_an_explicit_environment_is_all_there_is(tmp_path: Path) -> None:
    """S306."""
    program = python("import os; print(sorted(os.environ.items()))")
    found = await output_of(LocalEnv(tmp_path), program, ONLY="this", LC_CTYPE="C.UTF-8")
    assert found == "[('LC_CTYPE', 'C.UTF-8'), ('ONLY', 'this')]\n"


async def test_no_secret_of_this_process_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X101."""
    for name in (
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "PI_ACTORS_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "GH_TOKEN",
    ):
        monkeypatch.setenv(name, "swordfish")
    monkeypatch.setenv("LC_TIME", "C")
    found = await output_of(LocalEnv(tmp_path), "env")
    assert "swordfish" not in found
    assert "LC_TIME=C\n" in found
    assert f"PATH={os.environ['PATH']}\n" in found


# Output.


async def test_a_character_split_over_chunks_is_whole_while_both_streams_mix(tmp_path: Path) -> None:
    """S302. The writes are told apart by waiting for the reader to have taken each one."""
    os.mkfifo(tmp_path / "taken")
    program = python(
        "import os\n"
        "taken = open('taken')\n"
        "writes = [(1, b'a\\xf0\\x9f'), (2, b'x\\xc3'), (1, b'\\x99\\x82b'), (2, b'\\xa4\\xff')]\n"
        "for stream, data in writes:\n"
        "    os.write(stream, data)\n"
        "    taken.read(1)\n"
    )
    pieces: list[str] = []

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_write_four, tmp_path / "taken", pieces)
            await LocalEnv(tmp_path).exec(program, on_output=pieces.append)
    assert pieces == ["a", "x", "🙂b", "ä\ufffd"]


async def _write_four(fifo: Path, pieces: list[str]) -> None:
    with await trio.to_thread.run_sync(fifo.open, "w", limiter=trio.CapacityLimiter(1)) as taken:
        for count in range(1, 5):
            while len(pieces) < count:
                await trio.sleep(0.001)
            taken.write(".")
            taken.flush()


async def test_an_unfinished_character_at_the_end_is_replaced(tmp_path: Path) -> None:
    assert await output_of(LocalEnv(tmp_path), r"printf 'a\303'") == "a\ufffd"


async def test_all_output_of_a_long_command_arrives(tmp_path: Path) -> None:
    text = await output_of(LocalEnv(tmp_path), "seq 200000")
    assert text == "".join(f"{number}\n" for number in range(1, 200_001))


async def test_a_callback_that_raises_ends_the_command(tmp_path: Path) -> None:
    """S301."""

    def broken(text: str) -> None:
        raise ValueError(f"no place for {text!r}")

    with pytest.raises(EnvError, match="no place for") as caught:
        await LocalEnv(tmp_path).exec("echo $$ >pid; echo x; exec sleep 600", on_output=broken)
    assert caught.value.code == "callback_error"
    assert isinstance(caught.value.__cause__, ValueError)
    await is_gone(int((tmp_path / "pid").read_text()))


async def test_a_background_process_that_keeps_the_pipe_open_holds_nobody_up(tmp_path: Path) -> None:
    pieces: list[str] = []
    with trio.fail_after(60):
        result = await LocalEnv(tmp_path).exec("sleep 600 & echo $!; exit 4", on_output=pieces.append)
    assert result.status == 4
    os.kill(int(pieces[0]), signal.SIGKILL)


async def test_a_background_process_that_never_stops_writing_holds_nobody_up(tmp_path: Path) -> None:
    taken: list[str] = []
    with trio.fail_after(60):
        await LocalEnv(tmp_path).exec("yes & echo $! >pid", on_output=taken.append)
    count = len(taken)
    await is_gone(int((tmp_path / "pid").read_text()))
    assert len(taken) == count


# Ending.


TREE = "trap '' TERM; (sleep 600; sleep 600) & echo $$ $! >new; mv new pids; echo started; wait; sleep 600"
"""A shell and a child of it that both ignore SIGTERM."""


async def timed_out(env: LocalEnv, command: str, started: Path, spill: Path | None = None) -> EnvError:
    """The error of a command that timed out after it had made *started*, however slow the machine."""
    timeout_ms = 250
    while not started.exists():
        timeout_ms *= 2
        with pytest.raises(EnvError, match=f"ended after {timeout_ms} ms") as caught:
            await env.exec(command, timeout_ms=timeout_ms, spill=spill, spill_bytes=1)
        if started.exists():
            return caught.value
    raise AssertionError(f"{started} was there before the command")


async def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    error = await timed_out(LocalEnv(tmp_path), TREE, tmp_path / "pids")
    assert error.code == "timeout"
    for process_id in (tmp_path / "pids").read_text().split():
        await is_gone(int(process_id))


async def test_cancellation_ends_the_whole_group_before_it_returns(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        await LocalEnv(tmp_path).exec(TREE, on_output=lambda _: scope.cancel())
    assert scope.cancelled_caught
    for process_id in (tmp_path / "pids").read_text().split():
        await is_gone(int(process_id))


async def test_a_system_that_cannot_watch_a_process_waits_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_watched(process_id: int) -> None:
        """What systems other than Linux answer."""

    monkeypatch.setattr(processes, "_watched", not_watched)
    assert await LocalEnv(tmp_path).exec("exit 3") == ExecResult(status=3)
    with trio.CancelScope() as scope:
        await LocalEnv(tmp_path).exec("echo $$ >pid; echo go; sleep 600", on_output=lambda _: scope.cancel())
    await is_gone(int((tmp_path / "pid").read_text()))


async def test_a_command_may_end_in_order_when_it_is_cancelled(tmp_path: Path) -> None:
    """It has more to say than the pipe takes, and nobody listens any more."""
    command = "trap 'seq 100000; echo bye >farewell; exit' TERM; echo started; while :; do sleep 0.01; done"
    with trio.CancelScope() as scope:
        await LocalEnv(tmp_path).exec(command, on_output=lambda _: scope.cancel())
    assert (tmp_path / "farewell").read_text() == "bye\n"


async def test_there_is_no_callback_after_the_end(tmp_path: Path) -> None:
    """S304."""
    taken: list[str] = []

    def take(text: str) -> None:
        taken.append(text)
        scope.cancel()

    with trio.CancelScope() as scope:
        await LocalEnv(tmp_path).exec("trap '' TERM; while :; do echo more; done", on_output=take)
    count = len(taken)
    await trio.testing.wait_all_tasks_blocked()
    assert len(taken) == count


# Long output.


@pytest.mark.parametrize(("spill_bytes", "spill_lines"), [(10, 1_000), (1_000, 2)])
async def test_output_past_a_threshold_is_kept_as_it_was_from_the_first_byte(
    tmp_path: Path, spill_bytes: int, spill_lines: int
) -> None:
    """S299."""
    spill = tmp_path / "folder" / "spill"
    told: list[Path] = []
    result = await LocalEnv(tmp_path).exec(
        r"printf 'a\377\r\n\000b\n'; sleep 0.05; printf 'third line'",
        spill=spill,
        spill_bytes=spill_bytes,
        spill_lines=spill_lines,
        on_spill=told.append,
    )
    assert spill.read_bytes() == b"a\xff\r\n\0b\nthird line"
    assert stat.S_IMODE(spill.stat().st_mode) == 0o600
    assert (result.spilled, told) == (spill, [spill])


async def test_output_up_to_the_threshold_makes_no_file(tmp_path: Path) -> None:
    """S299."""
    spill = tmp_path / "spill"
    result = await LocalEnv(tmp_path).exec("echo 1; echo 2", spill=spill, spill_bytes=4, spill_lines=2)
    assert result.spilled is None
    assert not spill.exists()


async def test_a_spill_file_that_exists_is_replaced_and_made_private(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.write_text("something much longer than before")
    spill.chmod(0o644)
    await LocalEnv(tmp_path).exec("echo new", spill=spill, spill_bytes=1)
    assert spill.read_text() == "new\n"
    assert stat.S_IMODE(spill.stat().st_mode) == 0o600


async def test_a_timeout_tells_where_the_complete_output_is(tmp_path: Path) -> None:
    """S298."""
    spill = tmp_path / "spill"
    error = await timed_out(LocalEnv(tmp_path), "echo long enough; exec sleep 600", spill, spill)
    assert (error.code, error.spilled) == ("timeout", spill)
    assert f"Its complete output is in {spill}" in str(error)


async def test_an_abort_is_preceded_by_the_news_of_where_the_output_is(tmp_path: Path) -> None:
    """S298."""
    spill = tmp_path / "spill"
    told: list[Path] = []
    with trio.CancelScope() as scope:
        await LocalEnv(tmp_path).exec(
            "echo long enough; exec sleep 600",
            spill=spill,
            spill_bytes=1,
            on_spill=told.append,
            on_output=lambda _: scope.cancel(),
        )
    assert scope.cancelled_caught
    assert told == [spill]
    assert spill.read_text() == "long enough\n"


async def test_the_call_fails_rather_than_lose_output_that_cannot_be_kept(tmp_path: Path) -> None:
    """S300."""
    (tmp_path / "file").touch()
    with pytest.raises(EnvError, match="cannot be kept") as caught:
        await LocalEnv(tmp_path).exec("yes", spill=tmp_path / "file" / "spill")
    assert caught.value.code == "spill_error"


async def test_a_command_that_fills_the_disk_is_ended(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="wrote more than 1000000 bytes") as caught:
        await LocalEnv(tmp_path).exec("yes", spill=tmp_path / "spill", spill_bytes_max=1_000_000)
    assert caught.value.code == "spill_error"
    assert (tmp_path / "spill").stat().st_size <= 1_000_000


async def test_a_slow_disk_slows_the_command(tmp_path: Path) -> None:
    """S300. The disk is a named pipe that nobody reads until the command has filled what it can."""
    disk = tmp_path / "disk"
    os.mkfifo(disk)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            taken: list[str] = []
            nursery.start_soon(_run_to, disk, taken)
            reader = await trio.to_thread.run_sync(disk.open, "rb", limiter=trio.CapacityLimiter(1))
            with reader:
                progress = tmp_path / "progress"
                while not progress.exists():
                    await trio.sleep(0.001)
                await _stands_still(progress)
                assert int(progress.read_text() or 0) < 4 * 1024 * 1024
                await trio.to_thread.run_sync(reader.read, limiter=trio.CapacityLimiter(1))
    assert sum(map(len, taken)) == 8 * 1024 * 1024


async def _run_to(disk: Path, taken: list[str]) -> None:
    program = python(
        "import os, pathlib\n"
        "for count in range(128):\n"
        "    os.write(1, b'x' * 65536)\n"
        "    pathlib.Path('progress').write_text(str(count * 65536))\n"
    )
    await LocalEnv(disk.parent).exec(program, spill=disk, spill_bytes=1, on_output=taken.append)


async def _stands_still(progress: Path) -> None:
    """Return when the writer sleeps in the kernel: it is blocked, as nobody reads."""
    unchanged, last = 0, ""
    while unchanged < 50:
        await trio.sleep(0.002)
        now = progress.read_text()
        unchanged, last = (unchanged + 1, last) if now == last else (0, now)

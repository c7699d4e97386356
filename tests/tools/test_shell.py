"""The tool bash."""

# ruff: noqa: ASYNC240 - a test looks at its own files

from pathlib import Path

import pytest
import trio

from pi_actors.core.messages import Diagnostic
from pi_actors.tools import LocalEnv, ToolResult
from pi_actors.tools.shell import SHOWN_BYTES, SHOWN_LINES, TIMEOUT_S_MAX, bash
from pi_actors.tools.tool import run
from tests.tools.recording import RecordingPort, called, context, text_of


async def ran(folder: Path, command: str, port: RecordingPort, spill_dir: Path | None = None) -> ToolResult:
    return await run(
        bash, context(port, LocalEnv(folder), spill_dir=spill_dir), {"command": command, "timeout": 60}
    )


async def test_the_output_is_the_result_and_is_shown_as_it_comes(tmp_path: Path) -> None:
    port = RecordingPort()
    result = await ran(tmp_path, "echo out; echo err >&2", port)
    assert sorted(text_of(result).splitlines()) == ["err", "out"]
    assert not result.is_error
    assert "".join(port.outputs) == text_of(result)


async def test_no_output_says_so(tmp_path: Path) -> None:
    assert text_of(await called(bash, tmp_path, '{"command": "true"}')) == "[No output.]"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo no; exit 3", "no\n[Exit status 3.]"),
        ("printf no; exit 3", "no\n[Exit status 3.]"),
        ("kill -9 $$", "[No output.]\n[Ended by signal 9, exit status 137.]"),
    ],
)
async def test_an_exit_status_is_an_error_that_the_model_reads(
    tmp_path: Path, command: str, text: str
) -> None:
    """S294, X15."""
    result = await ran(tmp_path, command, RecordingPort())
    assert (text_of(result), result.is_error) == (text, True)


async def test_of_long_output_the_end_is_shown_and_all_of_it_is_kept_in_a_named_file(tmp_path: Path) -> None:
    """D92, S299."""
    port = RecordingPort()
    result = await ran(tmp_path, "seq 5000", port, tmp_path / "spill")
    file = tmp_path / "spill" / "bash-7-2.log"
    first, *lines = text_of(result).splitlines()
    skipped = sum(len(f"{number}\n") for number in range(1, 5_001 - SHOWN_LINES))
    assert f"Output truncated: only its end is shown, {skipped} bytes before it were left out" in first
    assert lines == [str(number) for number in range(5_001 - SHOWN_LINES, 5_001)]
    assert file.read_text().splitlines() == [str(number) for number in range(1, 5_001)]
    assert port.diagnostics == [
        Diagnostic(level="info", code="note", text=f"The complete output is in {file}.")
    ]


async def test_without_a_folder_for_it_long_output_is_only_cut(tmp_path: Path) -> None:
    port = RecordingPort()
    result = await ran(tmp_path, "yes | head -c 100000", port)
    assert len(text_of(result)) < SHOWN_BYTES + 200
    assert (port.diagnostics, list(tmp_path.iterdir())) == ([], [])


async def test_control_characters_are_not_shown(tmp_path: Path) -> None:
    """D94."""
    assert text_of(await ran(tmp_path, r"printf 'a\rb\033[1mc\n'", RecordingPort())) == "ab[1mc\n"


async def test_a_command_that_takes_too_long_is_ended_and_its_output_shown(tmp_path: Path) -> None:
    result = await called(bash, tmp_path, '{"command": "exec sleep 600", "timeout": 0.5}')
    assert text_of(result) == "[No output.]\n[Ended after 0.5 s, with all that it started.]"
    assert result.is_error


def test_the_timeout_is_two_minutes_unless_told() -> None:
    assert bash.parse('{"command": "x"}')["timeout"] == 120
    assert TIMEOUT_S_MAX == 3_600


async def test_a_longer_timeout_than_allowed_is_capped_not_refused(tmp_path: Path) -> None:
    result = await called(bash, tmp_path, '{"command": "echo fine", "timeout": 1e12}')
    assert text_of(result) == "fine\n"


async def test_cancellation_ends_the_command(tmp_path: Path) -> None:
    port = RecordingPort()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                ran, tmp_path, "trap 'echo ended >trace; exit' TERM; echo go; sleep 600 & wait", port
            )
            await port.any_output.wait()
            nursery.cancel_scope.cancel()
    assert (tmp_path / "trace").read_text() == "ended\n"


async def test_a_missing_working_directory_is_an_error_for_the_model(tmp_path: Path) -> None:
    result = await called(bash, tmp_path / "gone", '{"command": "true"}')
    assert result.is_error
    assert "there is no directory" in text_of(result)

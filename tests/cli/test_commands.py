"""What can be typed, and what is said about it."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pi_actors.cli.commands import pi_actors as commands
from tests.cli.commandline import pi_actors

NAMES = ("demo", "run", "chat", "resume", "log", "sessions", "serve", "attach", "replay", "tree")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself_and_its_options(name: str) -> None:
    told = CliRunner().invoke(commands, [name, "--help"])
    assert told.exit_code == 0
    assert f"Usage: pi-actors {name}" in told.output
    options = [option for option in commands.commands[name].params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_the_help_names_every_command_the_exit_statuses_and_the_environment(tmp_path: Path) -> None:
    told = pi_actors("--help", cwd=tmp_path)
    assert told.returncode == 0
    for name in NAMES:
        assert f"\n  {name} " in told.stdout
    for what in ("PI_ACTORS_MODEL", "PI_ACTORS_STORE", "NO_COLOR", "3 the session is in"):
        assert what in " ".join(told.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "says_what"),
    [
        (("run",), "Missing argument 'TASK' (see pi-actors run --help)"),
        (("run", " ", "--model", "demo"), "the task is empty"),
        (("run", "x", "--cwd", "nix"), "Directory 'nix' does not exist"),
        (("run", "x", "--tools", "read,saw"), "there is no tool 'saw'; there are: read, grep"),
        (("run", "x", "--nonsense"), "No such option"),
        (("dance",), "No such command 'dance' (see pi-actors --help)"),
        (("demo", "--store", "memory:"), "must be a file, not memory:"),
        (("log", "memory:"), "a store in memory can be read only by the process that holds it"),
        (("log", "jsonl:x"), "are not built yet"),
    ],
)
def test_wrong_use_is_one_line_and_ends_with_2(
    tmp_path: Path, arguments: tuple[str, ...], says_what: str
) -> None:
    done = pi_actors(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("pi-actors: ")
    assert says_what in line


def test_without_a_command_the_help_is_shown(tmp_path: Path) -> None:
    done = pi_actors(cwd=tmp_path)
    assert done.returncode == 2
    assert "Commands:" in done.stderr

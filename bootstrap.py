"""Run the project from a fresh clone: nothing but Python and git is needed.

    python3 bootstrap.py demo     the demonstration, with the embedded store and no key
    python3 bootstrap.py test     all tests, or what the arguments tell pytest
    python3 bootstrap.py check    format, lint, types and layers

The first run makes .venv beside this file and installs into it what the command needs. Later
runs install again only where pyproject.toml has changed or the command needs more.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

PYTHON_MIN = (3, 11)
PROJECT = Path(__file__).resolve().parent
ENVIRONMENT = PROJECT / ".venv"
PROGRAMS = ENVIRONMENT / "bin"
STAMP = ENVIRONMENT / "installed.json"

EXTRAS = {"demo": "", "test": "test", "check": "dev"}
"""What each command installs; each extra holds those before it."""

ALL_TESTS = ["--numprocesses", "auto", "--maxprocesses", "4"]
CHECKS = [
    ["ruff", "format", "--check"],
    ["ruff", "check"],
    ["mypy"],
    ["pyright", "--pythonpath", str(PROGRAMS / "python")],
    ["lint-imports", "--no-logo"],
]


class SetUpFailed(Exception):
    """The environment cannot be made; the message says what to do."""


def main(arguments: list[str]) -> int:
    """Install what the command needs and run it. Returns its exit status, 2 for wrong use."""
    command, *rest = arguments or [""]
    if command not in EXTRAS or (command == "check" and rest):
        print(__doc__)
        return 0 if command in ("-h", "--help") else 2
    try:
        install(EXTRAS[command])
    except SetUpFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    if command == "demo":
        become(["pi-actors", "demo", *rest])
    os.chdir(PROJECT)
    if command == "test":
        install_browser()
        become(["pytest", *(rest or ALL_TESTS)])
    failures = [check for check in CHECKS if run(check) != 0]
    return 1 if failures else 0


def install(extra: str) -> None:
    """Have the project with *extra* in the environment; does nothing where it is there already.

    Raises:
        SetUpFailed: this Python is too old or cannot make environments, or pip failed.
    """
    if sys.version_info < PYTHON_MIN:
        raise SetUpFailed(
            f"Python 3.11 or newer is needed and this is {sys.version.split()[0]}: run me with a newer one."
        )
    levels = list(EXTRAS.values())
    project = hashlib.sha256((PROJECT / "pyproject.toml").read_bytes()).hexdigest()
    before = read_stamp()
    if before.get("project") == project and levels.index(before["extra"]) >= levels.index(extra):
        return
    if not before:
        make_environment()
    print(f"Installing into {ENVIRONMENT} ...", file=sys.stderr, flush=True)
    target = f"{PROJECT}[{extra}]" if extra else str(PROJECT)
    if run(["python", "-m", "pip", "install", "-qq", "--editable", target]) != 0:
        raise SetUpFailed(
            "The dependencies could not be installed; pip says why above. Run me again when that is cured."
        )
    STAMP.write_text(json.dumps({"folder": str(PROJECT), "project": project, "extra": extra}))


def install_browser() -> None:
    """Have the browser that the page is tested in, where this may be done; else say what to do."""
    if shutil.which("chromedriver") is not None:
        return
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        print("The tests of the web page need chromium and chromedriver: install them.", file=sys.stderr)
        return
    print("Installing chromium and chromedriver ...", file=sys.stderr, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = ["--no-install-recommends", "chromium", "chromium-driver"]
    for command in (["update", "-qq"], ["install", "-qq", "-y", *packages]):
        subprocess.call(["apt-get", *command], env=quiet, stdout=subprocess.DEVNULL)


def read_stamp() -> dict[str, str]:
    """What an earlier run has installed; empty where nothing usable is there."""
    if not os.access(PROGRAMS / "python", os.X_OK) or not STAMP.exists():
        return {}
    stamp: dict[str, str] = json.loads(STAMP.read_text())
    # The programs of an environment hold its path, so one that was moved is made anew.
    return stamp if stamp["folder"] == str(PROJECT) else {}


def make_environment() -> None:
    """Make the virtual environment, in place of one that this file had made and is of no use now."""
    if importlib.util.find_spec("ensurepip") is None:
        raise SetUpFailed(
            "This Python cannot make virtual environments, as it lacks its module ensurepip. "
            "Install it (Debian and Ubuntu: apt-get install python3-venv) and run me again."
        )
    renewal = ["--clear"] if STAMP.exists() else []
    if subprocess.call([sys.executable, "-m", "venv", *renewal, str(ENVIRONMENT)]) != 0:
        raise SetUpFailed(
            f"Making {ENVIRONMENT} failed; Python says why above. Delete that folder and run me again."
        )


def run(command: list[str]) -> int:
    """Run a program of the environment and return its exit status."""
    return subprocess.call([str(PROGRAMS / command[0]), *command[1:]])


def become(command: list[str]) -> NoReturn:
    """Replace this process by a program of the environment, which so gets every signal itself."""
    sys.stdout.flush()
    os.execv(str(PROGRAMS / command[0]), command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

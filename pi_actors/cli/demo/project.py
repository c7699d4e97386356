"""The scratch project that the demo's agent works in."""

from pathlib import Path
from typing import Final

CHANGELOG: Final = "CHANGELOG.md"
WANTED_LINE: Final = "Fix login timeout"

_FILES: Final = {
    CHANGELOG: """# Changelog

## Unreleased

## 1.0.0

Log in and out
""",
    "login.py": '''"""Logging in, with a session that ends."""

TIMEOUT_SECONDS = 30 * 60


def is_expired(idle_seconds: float) -> bool:
    """Whether a session that was idle for so long must log in again."""
    return idle_seconds >= TIMEOUT_SECONDS
''',
    "test_login.py": '''"""Tests of login.py."""

import unittest

from login import TIMEOUT_SECONDS, is_expired


class LoginTimeout(unittest.TestCase):
    def test_a_fresh_session_is_not_expired(self) -> None:
        self.assertFalse(is_expired(0))

    def test_a_session_expires_when_the_timeout_is_over(self) -> None:
        self.assertTrue(is_expired(TIMEOUT_SECONDS))
''',
}


def make_project(folder: Path) -> None:
    """Write the project into *folder*, which must not exist yet. Raises OSError."""
    folder.mkdir(parents=True)
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def times_wanted(folder: Path) -> int:
    """How often the wanted line stands in the change log, 0 where that is gone. Blocks. Raises OSError."""
    try:
        return (folder / CHANGELOG).read_text(encoding="utf-8", errors="replace").count(WANTED_LINE)
    except FileNotFoundError:
        return 0

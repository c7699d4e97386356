"""What every test gets without asking.

- Nothing of the caller's environment: provider keys and ``PI_ACTORS_*`` are unset, so that no test
  reaches a real provider or a store that is not its own (``without_settings_of_the_caller``).
- Hypothesis without deadlines, as the speed of the machine must never decide; where ``CI`` is set
  it tries the same examples each time.

All tests may be async (pytest-trio's ``trio_mode``); warnings are errors; the time limit of a test
is in ``pyproject.toml``. Fixtures that only one file needs stand in that file.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("house")

SETTINGS_OF_THE_CALLER = ("PI_ACTORS_", "ANTHROPIC_", "OPENAI_")
"""Prefixes of environment variables that would change what a test does."""


@pytest.fixture(autouse=True)
def without_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset what the person who runs the tests has set for their own agents."""
    for name in [name for name in os.environ if name.startswith(SETTINGS_OF_THE_CALLER)]:
        monkeypatch.delenv(name)

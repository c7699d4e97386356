"""Importing the door is cheap."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pi_actors.models

PROJECT: Final = Path(pi_actors.models.__file__).parents[2]
COSTLY: Final = {"anthropic", "genai_prices", "httpx", "httpx2", "openai", "pydantic", "pydantic_ai"}


def loaded_by(program: str) -> set[str]:
    """The modules that are loaded once *program* has run in a new process."""
    source = f"import json, sys\n{program}\nprint(json.dumps([*sys.modules]))"
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True, timeout=60)
    return set(json.loads(done.stdout))


def test_importing_it_loads_no_library_of_a_provider() -> None:
    assert loaded_by("import pi_actors.models") & COSTLY == set()


def test_a_scripted_model_loads_none_either() -> None:
    program = """
import trio
from pi_actors.models import ModelRequest, ScriptedModel, reply
trio.run(ScriptedModel([reply("hello")]).stream, ModelRequest(messages=()), [].append)
"""
    assert loaded_by(program) & COSTLY == set()


def test_making_a_provider_model_loads_them() -> None:
    program = (
        "from pi_actors.models import ProviderModel; ProviderModel('anthropic:claude-opus-4-6', api_key='k')"
    )
    assert {"anthropic", "pydantic_ai"} <= loaded_by(program)

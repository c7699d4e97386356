"""The house rules that no other tool checks.

Each test collects what breaks its rule, with file and line, and expects nothing. An exception to a
rule stands in the list beside it, with its reason.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from msgspec.structs import StructConfig

from pi_actors.actors import topics
from tests.topics import (
    GOLDEN,
    PROJECT,
    Shape,
    broken_promises,
    event_types,
    golden_shapes,
    stored_shapes,
)

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60

BLIND_EXCEPT: Final = {
    "pi_actors/core/commit.py": "a decider that breaks faults its own actor within the commit",
    "pi_actors/models/": "a provider's SDK may raise anything; it becomes ModelFailed here",
    "pi_actors/storage/": "a recorder or driver may raise anything; it becomes StoreError here",
    "pi_actors/tools/": "a tool is the user's code; what it throws becomes its result",
    "pi_actors/runtime/commit_line.py": "an agent's decider that breaks fails the session",
    "pi_actors/runtime/errands.py": "the supervisor: code that breaks faults its own actor, not the session",
    "pi_actors/runtime/executing.py": "tools and reconcilers are the user's; what they raise is stored",
    "pi_actors/runtime/listening.py": "models may be the user's; what they raise becomes ModelFailed",
    "pi_actors/runtime/scopes.py": "what a body raises is raised again, outside the nursery",
    "pi_actors/runtime/shell.py": "environments are the user's; instructions do without a broken one",
    "pi_actors/runtime/work.py": "migrations are the user's; what they raise blocks their actor",
    "pi_actors/server/connections.py": "what one client says must not end other clients' connections",
    "pi_actors/server/door.py": "what answering one request raises must not end other clients' connections",
    "pi_actors/runtime/threads.py": "what a thread raises is raised again by whoever waits for it",
}
"""Where everything may be caught: the doors, and those who answer for the code of others."""

UNTYPED: Final = {
    "pi_actors/core/decider.py": "a kind is generic in its state; its commands and events are its own",
    "pi_actors/core/state.py": "the kinds by name, each generic in a state of its own",
    "pi_actors/core/text.py": "Json, the one name for a value that was or becomes JSON",
    "pi_actors/runtime/work.py": "a user's kinds by name, each generic in a state of its own",
    "pi_actors/storage/packing.py": "maps of any keys and values, as a codec meets them",
}
"""Where ``Any`` may stand: at the edge to JSON and to stored bytes."""

NOT_NAMED_AFTER_A_FILE: Final = {
    "test_library_cases": "eventsourcing's own cases for recorders, run on ours",
    "test_background_subagents": "a story: children that outlive aborts and restarts",
    "test_checkout": "a story: a checkout of the user's own kinds",
    "test_killed_checkout": "the same story, killed at every effect",
    "test_custom_actors": "rules of a user's own kinds, met through an open session",
    "test_compacting": "compaction as people meet it on the command line",
    "test_forks": "forks as people meet them",
    "test_ownership": "the kernel's rules of ownership beside a simple telling of them",
    "test_generation": "rules of a turn, met through an open session",
    "test_page": "the page, in a real browser",
    "test_page_compactions": "compactions and forks on the page, in a real browser",
    "test_page_frames": "the page's own way of applying frames",
    "test_readme": "what the README says",
    "test_submissions": "rules of the inbox, met through an open session",
    "test_context": "what a model is sent",
    "test_supervision": "code that breaks, met through an open session",
    "test_tool": "the decider of one tool call",
    "test_tools": "rules of tool calls, met through an open session",
    "test_sigkill_sweep": "a process killed at every append, and what must be true afterwards",
    "test_seeds": "random crashes among random work",
    "test_tidy": "the house rules",
}
"""Test files whose subject is no single source file."""

GUIDED: Final = (
    "pi_actors/actors/agent",
    "pi_actors/cli",
    "pi_actors/runtime",
    "pi_actors/server",
    "pi_actors/storage",
    "pi_actors/testing",
    "projections",
)
"""Packages whose docstring says in which order to read their modules."""

IMPORTED_LATE: Final = {
    "anthropic",
    "click",
    "httpx",
    "httpx2",
    "hypercorn",
    "openai",
    "prompt_toolkit",
    "pydantic",
    "pydantic_ai",
    "rich",
    "starlette",
}
"""What only some programs need: importing the package must not cost a second and 90 MB for it."""

VAGUE_NAME: Final = re.compile(r"Manager|Helper|Util|Impl$|^_*Base(?=[A-Z]|$)")
VAGUE_FILE: Final = re.compile(r"^_*(utils?|helpers?|common|misc|base|impl)$")
UNFINISHED: Final = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b")
MACHINE_PATH: Final = re.compile(r"(?<![\w.~])/(?:work|home|root|Users|tmp/v)/")
REGISTRY_HOST: Final = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|debian\.org|conda\.anaconda\.org"
)
PAST_TENSE: Final = re.compile(
    r"(?:[a-z]ed|Begun|Done|Found|Given|Held|Kept|Left|Lost|Made|Sent|Taken|Written)(?=[A-Z.]|$)"
)
Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DATA_SUFFIXES: Final = {".db", ".gz", ".pyc", ".png"}


# The files.


def python_files(*folders: str) -> list[Path]:
    """The Python files in *folders*, in order."""
    return sorted(path for folder in folders for path in (PROJECT / folder).rglob("*.py"))


def package_files() -> list[Path]:
    """What is installed."""
    return python_files("pi_actors", "projections")


def all_python_files() -> list[Path]:
    """Everything written in Python here."""
    return [*package_files(), *python_files("tests", "benchmarks"), PROJECT / "bootstrap.py"]


def text_files() -> list[Path]:
    """Every file of the project that people read."""
    folders = [PROJECT / name for name in ("pi_actors", "projections", "tests", "benchmarks", ".ci")]
    files = [*PROJECT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return sorted(path for path in files if path.is_file() and path.suffix not in DATA_SUFFIXES)


def name_of(path: Path) -> str:
    """The path as seen from the top of the project."""
    return path.relative_to(PROJECT).as_posix()


def nodes(path: Path) -> Iterator[ast.AST]:
    """The syntax tree of a file, flattened."""
    return ast.walk(ast.parse(path.read_text(encoding="utf-8"), name_of(path)))


def matches(pattern: re.Pattern[str], files: list[Path]) -> list[str]:
    """The places where *pattern* stands in *files*."""
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if pattern.search(line)
    ]


def allowed(path: Path, exceptions: dict[str, str]) -> bool:
    """Whether *path* is listed, or in a listed folder."""
    return any(
        name_of(path) == entry or (entry.endswith("/") and name_of(path).startswith(entry))
        for entry in exceptions
    )


# Size.


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in package_files()}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{name_of(path)}:{node.lineno}: {node.name} has {lines_without_docstring(node)} lines"
        for path in all_python_files()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and lines_without_docstring(node) > FUNCTION_LINES_MAX
    ]
    assert long == []


def lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """A promise may take as many lines as it needs."""
    first = function.body[0]
    end, start = function.end_lineno, function.lineno
    assert end is not None
    assert first.end_lineno is not None
    is_docstring = ast.get_docstring(function) is not None
    return end - start + 1 - (first.end_lineno - first.lineno + 1 if is_docstring else 0)


# Names.


def test_no_name_is_vague() -> None:
    classes = [
        f"{name_of(path)}:{node.lineno}: {node.name}"
        for path in all_python_files()
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and VAGUE_NAME.search(node.name)
    ]
    files = [name_of(path) for path in all_python_files() if VAGUE_FILE.search(path.stem)]
    assert classes + files == []


def test_a_test_file_has_the_name_of_what_it_tests() -> None:
    sources = [path for path in package_files() if path.stem != "__init__"]
    names = {path.stem for path in sources} | {path.parent.name for path in package_files()}
    names |= {f"{path.parent.name}_{path.stem}" for path in sources}
    names |= {path.stem for path in python_files("benchmarks")} | {"bootstrap"}
    tests = [path for path in python_files("tests") if path.stem.startswith("test_")]
    strange = [path for path in tests if path.stem.removeprefix("test_") not in names]
    assert [name_of(path) for path in strange if path.stem not in NOT_NAMED_AFTER_A_FILE] == []


# Docstrings.


def test_every_module_says_what_it_is() -> None:
    files = all_python_files()
    assert [name_of(path) for path in files if ast.get_docstring(ast.parse(path.read_text())) is None] == []


def test_a_package_with_a_reading_guide_names_every_module_in_it() -> None:
    """So that what is new does not stay unknown to who reads the guide."""
    guides = [PROJECT / name / "__init__.py" for name in GUIDED]
    unnamed = [
        name_of(module)
        for guide in guides
        for module in sorted(guide.parent.glob("[!_]*.py"))
        if module.stem not in re.findall(r"\w+", ast.get_docstring(ast.parse(guide.read_text())) or "")
    ]
    assert unnamed == []


def test_every_public_function_and_class_has_a_docstring() -> None:
    missing = [
        f"{name_of(path)}:{node.lineno}: {node.name}"
        for path in package_files()
        for node in undocumented(path)
    ]
    assert missing == []


def undocumented(path: Path) -> Iterator[Definition]:
    """Public functions and classes of a module without a docstring; in sessions, public methods too."""
    found = public_definitions(ast.parse(path.read_text()).body)
    yield from (node for node in found if ast.get_docstring(node) is None)
    if name_of(path).startswith("pi_actors/session/"):
        methods = [public_definitions(node.body) for node in found if isinstance(node, ast.ClassDef)]
        yield from (node for node in chain.from_iterable(methods) if ast.get_docstring(node) is None)


def public_definitions(body: list[ast.stmt]) -> list[Definition]:
    """The functions and classes defined by these statements whose names have no underscore."""
    definitions = [node for node in body if isinstance(node, Definition) and not node.name.startswith("_")]
    return [node for node in definitions if not any(is_overload(mark) for mark in node.decorator_list)]


def is_overload(decorator: ast.expr) -> bool:
    """Overloads are described by the function that they are overloads of."""
    return isinstance(decorator, ast.Name) and decorator.id == "overload"


# Manners.


def test_nothing_is_left_to_do() -> None:
    assert matches(UNFINISHED, text_files()) == []


def test_everything_is_caught_only_at_a_door_and_by_the_supervisor() -> None:
    blind = [
        f"{name_of(path)}:{node.lineno}"
        for path in package_files()
        if not allowed(path, BLIND_EXCEPT)
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    ]
    assert blind == []


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """Whether the handler is bare, or names Exception or BaseException, alone or among others."""
    if handler.type is None:
        return True
    named = [node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)]
    return "Exception" in named or "BaseException" in named


def test_any_stands_only_where_values_of_any_type_enter() -> None:
    untyped = [
        f"{name_of(path)}:{node.lineno}"
        for path in package_files()
        if not allowed(path, UNTYPED)
        for node in nodes(path)
        if (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
    ]
    assert untyped == []


def test_only_the_command_line_and_the_benchmarks_print() -> None:
    printing = [
        f"{name_of(path)}:{node.lineno}"
        for path in [*package_files(), *python_files("tests")]
        if not name_of(path).startswith("pi_actors/cli/")
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    assert matches(MACHINE_PATH, text_files()) == []


def test_no_file_names_a_registry() -> None:
    assert matches(REGISTRY_HOST, text_files()) == []


def test_importing_the_packages_loads_no_provider_and_no_command_line() -> None:
    program = "import json, sys, pi_actors, projections; print(json.dumps([*sys.modules]))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, check=True, capture_output=True, text=True, timeout=60
    )
    assert sorted(IMPORTED_LATE & set(json.loads(loaded.stdout))) == []


# What is stored.


def test_every_event_is_registered_under_a_topic() -> None:
    registered = set(topics.ALL.values())
    assert [event.__name__ for event in event_types() if event not in registered] == []


def test_every_event_is_a_frozen_array_with_named_fields() -> None:
    loose: list[str] = []
    for topic, event in topics.ALL.items():
        config: StructConfig = event.__struct_config__
        if not (config.frozen and config.array_like) or event.__match_args__:
            loose.append(topic)
    assert loose == []


def test_every_event_is_named_in_the_past_tense() -> None:
    assert [topic for topic in topics.ALL if not PAST_TENSE.search(topic)] == []


def test_stored_shapes_only_grow() -> None:
    assert broken_promises(golden_shapes(), stored_shapes()) == []


def test_the_golden_file_lists_every_stored_shape() -> None:
    written = "".join(f"{shape.line}\n" for shape in stored_shapes())
    assert GOLDEN.read_text() == written, "run `python -m tests.topics` and commit what it writes"


def test_a_field_that_moves_goes_or_comes_without_a_default_is_noticed() -> None:
    before = Shape(role="event", name="Seen", form="array", fields=("what", "times=1"))

    def problems(form: str, *fields: str) -> int:
        return len(broken_promises([before], [Shape(role="event", name="Seen", form=form, fields=fields)]))

    assert problems("array", "what", "times=1") == 0
    assert problems("array", "what", "times=1", "where=null") == 0
    assert problems("array", "times=1", "what") == 1
    assert problems("array", "what") == 1
    assert problems("array", "what", "times=2") == 1
    assert problems("array", "what", "times=1", "where") == 1
    assert problems("map", "what", "times=1") == 1
    assert len(broken_promises([before], [])) == 1

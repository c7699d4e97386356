"""The tools grep and find, and the program that they run."""

import json
import os
from pathlib import Path

import pytest

from pi_actors.tools import search
from pi_actors.tools.search import find, grep
from pi_actors.tools.search_script import glob_pattern
from tests.tools.recording import called, text_of


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A few files, of which some are not to be found."""
    files = {
        "a.py": "import os\nprint(1)\n",
        "b.txt": "Import nothing\r\n",
        "src/c.py": "import sys\n",
        "src/deep/d.js": "// import\n",
        ".git/config": "import = hidden\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "binary").write_bytes(b"import\0")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


async def grepped(tree: Path, **arguments: object) -> list[str]:
    return text_of(await called(grep, tree, json.dumps(arguments))).splitlines()


async def found(tree: Path, **arguments: object) -> list[str]:
    return text_of(await called(find, tree, json.dumps(arguments))).splitlines()


async def test_grep_names_file_line_and_text_and_skips_binaries_and_git(tree: Path) -> None:
    assert await grepped(tree, pattern="^import|// im") == [
        "a.py:1:import os",
        "src/c.py:1:import sys",
        "src/deep/d.js:1:// import",
    ]


async def test_grep_can_ignore_case(tree: Path) -> None:
    assert await grepped(tree, pattern="IMPORT NOTHING$", ignore_case=True) == ["b.txt:1:Import nothing"]


async def test_grep_can_look_at_some_files_only(tree: Path) -> None:
    assert await grepped(tree, pattern="import", glob="*.{js,txt}") == ["src/deep/d.js:1:// import"]
    assert await grepped(tree, pattern="import", path="src", glob="*.py") == ["src/c.py:1:import sys"]
    assert await grepped(tree, pattern="import", path="a.py") == ["a.py:1:import os"]


async def test_no_match_is_no_error(tree: Path) -> None:
    result = await called(grep, tree, '{"pattern": "nowhere at all"}')
    assert (text_of(result), result.is_error) == ("Nothing found.\n", False)


async def test_a_limit_says_that_there_is_more(tree: Path) -> None:
    lines = await grepped(tree, pattern="import", limit=1)
    assert lines == [
        "a.py:1:import os",
        "[Only the first 1 results are shown. Narrow the search, or raise limit.]",
    ]


async def test_very_long_lines_are_shortened(tree: Path) -> None:
    (tree / "long").write_text("needle" + "x" * 10_000)
    (line,) = await grepped(tree, pattern="needle")
    assert line == f"long:1:needle{'x' * 494}… (10006 characters)"


async def test_many_results_stay_within_the_window(tree: Path) -> None:
    (tree / "many").write_text("needle".ljust(400) + "\n" + ("needle".ljust(400) + "\n") * 999)
    text = text_of(await called(grep, tree, '{"pattern": "needle", "limit": 1000}'))
    assert len(text) < search.SHOWN_BYTES + 100
    assert text.splitlines()[-1].startswith("[Only the first ")


async def test_a_pattern_that_is_none_is_an_error_for_the_model(tree: Path) -> None:
    result = await called(grep, tree, '{"pattern": "(unclosed"}')
    assert result.is_error
    assert "'(unclosed' is no regular expression" in text_of(result)


async def test_a_place_that_is_none_is_an_error_for_the_model(tree: Path) -> None:
    for each, arguments in (
        (grep, '{"pattern": "x", "path": "gone"}'),
        (find, '{"pattern": "*", "path": "gone"}'),
    ):
        result = await called(each, tree, arguments)
        assert result.is_error
        assert "gone does not exist" in text_of(result)


async def test_a_pattern_that_never_ends_is_ended(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process it would stop everything else too."""
    monkeypatch.setattr(search, "SEARCH_MS", 1_000)
    (tree / "trap").write_text("a" * 64)
    result = await called(grep, tree, '{"pattern": "(a+)+$b", "path": "trap"}')
    assert result.is_error
    assert "The search was ended after 1 s." in text_of(result)


async def test_find_looks_at_any_depth_unless_the_glob_has_a_folder(tree: Path) -> None:
    assert await found(tree, pattern="*.py") == ["a.py", "src/c.py"]
    assert await found(tree, pattern="src/*") == ["src/c.py", "src/deep/"]
    assert await found(tree, pattern="src/**/*.{js,py}") == ["src/c.py", "src/deep/d.js"]
    assert await found(tree, pattern="*.py", path="src") == ["src/c.py"]


async def test_find_shows_what_is_no_text_too_but_not_git(tree: Path) -> None:
    names = await found(tree, pattern="**")
    assert "binary" in names
    assert not [name for name in names if ".git" in name]


async def test_a_glob_that_cannot_be_used_is_an_error_for_the_model(tree: Path) -> None:
    result = await called(find, tree, '{"pattern": "[z-a]"}')
    assert result.is_error
    assert "The pattern cannot be used" in text_of(result)


@pytest.mark.parametrize(
    ("glob", "path", "like"),
    [
        ("*.py", "a/b.py", True),
        ("*.py", "a/b.pyc", False),
        ("./*.py", "b.py", True),
        ("./*.py", "a/b.py", False),
        ("a/**", "a/b/c", True),
        ("**/c", "c", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("[]].txt", "].txt", True),
        ("a.b", "aXb", False),
        ("{a,b{c,d}}", "bd", True),
        ("(x)+", "(x)+", True),
    ],
)
def test_a_glob_is_like_some_paths(glob: str, path: str, like: bool) -> None:
    assert (glob_pattern(glob).fullmatch(path) is not None) == like

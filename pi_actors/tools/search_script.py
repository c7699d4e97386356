"""A program that looks through a tree of files, for the tools grep and find.

Run as ``python search_script.py REQUEST``, with a JSON object of: what ("grep" or "find"), path,
limit, bytes_max, glob and, for grep, pattern and ignore_case. It knows nothing but the standard
library, so that it starts quickly. Results go to its output, as text for a model.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

SKIPPED_DIRECTORIES: Final = {".git"}
SNIFFED_BYTES: Final = 8 * 1024
LINE_BYTES_MAX: Final = 1024 * 1024
LINE_CHARACTERS_SHOWN: Final = 500


class Request:
    """What is searched, and how much of it may be shown."""

    def __init__(self, text: str) -> None:
        asked = cast(dict[str, object], json.loads(text))
        self.what = str(asked["what"])
        self.root = Path(str(asked["path"]))
        self.limit = int(str(asked["limit"]))
        self.bytes_max = int(str(asked["bytes_max"]))
        glob = asked.get("glob")
        self.glob = None if glob is None else glob_pattern(str(glob))
        flags = re.IGNORECASE if asked.get("ignore_case") else 0
        self.pattern = re.compile(str(asked.get("pattern", "")), flags)


def search(request: Request) -> None:
    """Write what is found, line by line, and at the end what was left out."""
    results = lines_found(request) if request.what == "grep" else paths_found(request)
    left = request.bytes_max
    shown = 0
    for result in results:
        encoded = (result + "\n").encode("utf-8", "replace")
        left -= len(encoded)
        if shown == request.limit or left < 0:
            say(f"[Only the first {shown} results are shown. Narrow the search, or raise limit.]\n".encode())
            return
        say(encoded)
        shown += 1
    if shown == 0:
        say(b"Nothing found.\n")


def paths_found(request: Request) -> Iterator[str]:
    """Yield the files and directories whose path below the root is like the glob."""
    for path, relative, is_directory in walked(request.root):
        if request.glob is not None and request.glob.fullmatch(relative):
            yield path + "/" if is_directory else path


def lines_found(request: Request) -> Iterator[str]:
    """Yield ``path:line:text`` for each line that has the pattern."""
    for path, relative, is_directory in walked(request.root):
        if not is_directory and (request.glob is None or request.glob.fullmatch(relative)):
            for number, line in text_lines(path):
                if request.pattern.search(line):
                    yield f"{path}:{number}:{shortened(line)}"


def walked(root: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield each file and directory below *root*, in order: its path, that below the root, its kind."""
    if not root.is_dir():
        yield str(root), root.name, False
        return
    for folder, directories, files in os.walk(root):
        directories[:] = sorted(name for name in directories if name not in SKIPPED_DIRECTORIES)
        for name in sorted([*directories, *files]):
            path = Path(folder, name)
            yield str(path), path.relative_to(root).as_posix(), name in directories


def text_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text file; none of a binary, special or unreadable one."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return
        with Path(path).open("rb") as file:
            if b"\0" in file.read(SNIFFED_BYTES):
                return
            file.seek(0)
            number = 1
            while piece := file.readline(LINE_BYTES_MAX):
                yield number, piece.rstrip(b"\r\n").decode("utf-8", "replace")
                number += piece.endswith(b"\n")
    except OSError:
        return


def glob_pattern(glob: str) -> re.Pattern[str]:
    """Return a glob as a pattern of whole paths. One without "/" is looked for at any depth."""
    anywhere = "" if "/" in glob else "(?:.*/)?"
    alternatives = "|".join(translated(each.removeprefix("./")) for each in expanded(glob))
    return re.compile(f"{anywhere}(?:{alternatives})", re.DOTALL)


def expanded(glob: str) -> list[str]:
    """Return *glob* once for each choice of its braces."""
    braces = re.search(r"\{([^{}]*)\}", glob)
    if braces is None:
        return [glob]
    before, after = glob[: braces.start()], glob[braces.end() :]
    return [each for choice in braces[1].split(",") for each in expanded(before + choice + after)]


def translated(glob: str) -> str:
    """Return a glob without braces as a regular expression."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", glob)
    return "".join(wildcard(part) if place % 2 else re.escape(part) for place, part in enumerate(parts))


def wildcard(part: str) -> str:
    """Return one wildcard of a glob as a regular expression."""
    simple = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if part in simple:
        return simple[part]
    inverted = "^" if part[1] == "!" else ""
    characters = part[2:-1] if inverted else part[1:-1]
    escaped = re.sub(r"([\\^\[&~|])", r"\\\1", characters)
    return f"[{inverted}{escaped}]"


def shortened(line: str) -> str:
    """Return as much of a line as is worth showing."""
    if len(line) <= LINE_CHARACTERS_SHOWN:
        return line
    return f"{line[:LINE_CHARACTERS_SHOWN]}… ({len(line)} characters)"


def say(line: bytes) -> None:
    """Write to the output."""
    sys.stdout.buffer.write(line)


def main() -> int:
    """Answer the request of the command line; return the exit status."""
    try:
        request = Request(sys.argv[1])
    except re.error as error:
        say(f"The pattern cannot be used: {error}.\n".encode())
        return 2
    search(request)
    return 0


if __name__ == "__main__":
    sys.exit(main())

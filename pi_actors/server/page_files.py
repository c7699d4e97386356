"""The page: files that are the same for everybody, read once and served from memory.

Only what is in the folder ``page`` can be asked for, as nothing is looked up on disk later.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).parent / "page"
INDEX: Final = "index.html"

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""What may stand in the folder, by its suffix, and the type it is served as."""

HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
}


class PageFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it is served. ``tag`` changes with its content."""

    content: bytes
    media_type: str
    tag: str


def page_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """The files in *folder*, by the path that each is asked for with. Blocks."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    files = {f"/{path.relative_to(folder).as_posix()}": _read(path) for path in paths}
    return {"/": files[f"/{INDEX}"], **files}


def file_answer(request: Request, files: Mapping[str, PageFile]) -> Response | None:
    """The file that *request* asks for, None where there is no such file."""
    file = files.get(request.scope["path"])
    if file is None:
        return None
    headers = {**HEADERS, "etag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _read(path: Path) -> PageFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]
    return PageFile(content=content, media_type=TYPES[path.suffix], tag=f'"{digest}"')

"""Plain file operations, for threads. Each takes an absolute path and raises EnvError through ``told``."""

import errno
import os
import secrets
import shutil
import stat as modes
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from pi_actors.tools.environment import EnvError, EnvErrorCode, FileInfo

T = TypeVar("T")

_CODES: Final[dict[int, EnvErrorCode]] = {
    errno.ENOENT: "not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "is_a_directory",
    errno.EEXIST: "already_exists",
    errno.ENOTEMPTY: "not_empty",
}

_REPLACING: Final = threading.Lock()
"""Held while a file is compared and replaced: of two that expect the same content, one wins."""


def told(act: Callable[[Path], T], path: Path) -> T:
    """Return ``act(path)``; what the system refuses is an EnvError that names the path."""
    try:
        return act(path)
    except OSError as error:
        raise translated(error, path) from error
    except ValueError as error:
        raise EnvError("invalid_argument", f"{str(path)!r} cannot be a path: {error}") from error


def translated(error: OSError, path: Path) -> EnvError:
    """Return the error of an operation on *path* as one of ours."""
    code = _CODES.get(error.errno or 0, "io_error")
    return EnvError(code, f"{path}: {error.strerror or error}")


def read_bytes(path: Path, *, offset: int, limit: int | None) -> bytes:
    """Return up to *limit* bytes of a file, from *offset* on."""
    check_regular(path)
    with path.open("rb") as file:
        if offset:
            file.seek(offset)
        return file.read(-1 if limit is None else limit)


def check_regular(path: Path) -> os.stat_result:
    """Refuse what is no ordinary file: opening a pipe would wait for ever, a device may never end."""
    found = path.stat()
    if modes.S_ISDIR(found.st_mode):
        raise EnvError("is_a_directory", f"{path} is a directory.")
    if not modes.S_ISREG(found.st_mode):
        raise EnvError("not_a_file", f"{path} is no ordinary file.")
    return found


def write(path: Path, *, data: bytes, instead_of: bytes | None) -> None:
    """Replace a file's content, or create the file: a crash leaves the old or the new content."""
    target = path.resolve()  # a link stays a link
    with _REPLACING:
        before = _existing(target)
        if instead_of is not None and (before is None or target.read_bytes() != instead_of):
            raise EnvError("changed", f"{path} was changed meanwhile by someone else; it was not written.")
        _replace(target, data, before)


def list_directory(path: Path) -> tuple[FileInfo, ...]:
    """Return what a directory holds, by name."""
    with os.scandir(path) as entries:
        return looked_at(entries)


def looked_at(entries: Iterable["os.DirEntry[str]"]) -> tuple[FileInfo, ...]:
    """Return the entries of a directory by name, without those that have vanished meanwhile."""
    found: list[FileInfo] = []
    for entry in entries:
        with suppress(FileNotFoundError):
            found.append(_info(entry.name, entry.stat(follow_symlinks=False)))
    return tuple(sorted(found, key=lambda info: info.name))


def exists(path: Path) -> bool:
    """Whether there is something at the end of *path*."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def stat(path: Path) -> FileInfo:
    """Look at a file, through links."""
    return _info(path.name, path.stat())


def remove(path: Path, *, recursive: bool, force: bool) -> None:
    """Remove a file, a link or a directory."""
    try:
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        elif recursive:
            shutil.rmtree(path)
        else:
            path.rmdir()
    except FileNotFoundError:
        if not force:
            raise


def makedir(path: Path, *, recursive: bool) -> None:
    """Make a directory, *recursive*: with its parents, and not minding that it exists."""
    path.mkdir(parents=recursive, exist_ok=recursive)


def truncate(path: Path, *, size_bytes: int) -> None:
    """Make a file exactly *size_bytes* long; never creates one."""
    os.truncate(path, size_bytes)


def _existing(target: Path) -> os.stat_result | None:
    try:
        return check_regular(target)
    except FileNotFoundError:
        return None


def _replace(target: Path, data: bytes, before: os.stat_result | None) -> None:
    """Write beside the target and rename: rename is the one step that others can see."""
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with beside.open("xb") as file:
            if before is not None:
                _take_over(file.fileno(), before)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _take_over(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only a superuser may give files away
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, modes.S_IMODE(before.st_mode))


def _info(name: str, found: os.stat_result) -> FileInfo:
    return FileInfo(
        name=name,
        kind=_kind(found.st_mode),
        size_bytes=found.st_size,
        mode=modes.S_IMODE(found.st_mode),
        modified=datetime.fromtimestamp(found.st_mtime, UTC),
    )


def _kind(mode: int) -> Literal["file", "directory", "link", "other"]:
    if modes.S_ISREG(mode):
        return "file"
    if modes.S_ISDIR(mode):
        return "directory"
    return "link" if modes.S_ISLNK(mode) else "other"

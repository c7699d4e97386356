"""The folder beside a store, ``<store>.d``: locks and spilled tool output. Only its owner may look in.

- ``store.lock``: held during every write transaction and checkpoint
- ``probe.lock``: shows at each opening that locks exclude here
- ``sessions/<name>.lock``: held by whoever has the session open
- ``spill/<name>/``: tool output too long for the log
"""

import hashlib
import os
from pathlib import Path
from typing import Final

from pi_actors.core.errors import InvalidValue
from pi_actors.core.ids import SessionId

CHARACTERS_MAX: Final = 200

_NAME_BYTES_MAX: Final = 200
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


def folder_of(store: Path) -> Path:
    """The folder beside *store*."""
    return store.with_name(store.name + ".d")


def ensure_folder(store: Path) -> Path:
    """Make the folder beside *store* with what locks need, where it is not there, and return it.

    Raises OSError.
    """
    folder = folder_of(store)
    for needed in (folder, folder / "sessions"):
        try:
            needed.mkdir(mode=0o700)
        except FileExistsError:
            continue
        needed.chmod(0o700)
    return folder


def open_private(path: Path) -> int:
    """Open *path* for reading and writing, made with mode 0600 whatever the umask. Raises OSError."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
        return descriptor


def session_lock_path(store: Path, session: SessionId) -> Path:
    """The session's lock file. Raises InvalidValue for what is no session id."""
    return folder_of(store) / "sessions" / f"{file_name(session)}.lock"


def spill_folder(store: Path, session: SessionId) -> Path:
    """Where the session's spilled tool output belongs; it need not exist.

    Raises InvalidValue for what is no session id.
    """
    return folder_of(store) / "spill" / file_name(session)


def file_name(session: SessionId) -> str:
    """A file name for *session*, another one for every session, also where case does not count.

    Raises InvalidValue for what is no session id.
    """
    require_session_id(session)
    name = "".join(one if one in _PLAIN else _escaped(one) for one in session)
    if len(name) <= _NAME_BYTES_MAX:
        return name
    digest = hashlib.sha256(session.encode()).hexdigest()
    return f"{name[: _NAME_BYTES_MAX - 1 - len(digest)]}~{digest}"


def require_session_id(session: SessionId) -> None:
    """Raise InvalidValue unless *session* is 1 to 200 printable characters."""
    if not (0 < len(session) <= CHARACTERS_MAX and session.isprintable()):
        raise InvalidValue(
            f"{session[:50]!r} is no session id, which is 1 to {CHARACTERS_MAX} printable characters"
        )


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode())

"""Which log a store's name stands for."""

from pathlib import Path

from pi_actors.core.errors import NotSupported, StoreUnreadable
from pi_actors.storage.log import Log, LogReader
from pi_actors.storage.sqlite import open_sqlite, open_sqlite_reader
from pi_actors.storage.sqlite_connections import Durability, wal_of


def open_log(store: str | Path, durability: Durability = "power") -> Log:
    """Open *store* for writing: ``work.db``, ``sqlite:work.db``, or ``memory:`` (a new one each time).

    ``durability``: whether an acknowledged commit survives a power cut, or only the process's end.

    Raises:
        NotSupported: a kind of store that is not built yet, or locks do not exclude there.
        StoreUnreadable: something else is there, or permission is missing. Nothing was changed.
        StoreError: the disk is full or failing.
    """
    if store == "memory:":
        from pi_actors.storage.memory import MemoryLog  # whoever has a file need not import it

        return MemoryLog()
    return open_sqlite(file_of(store), durability)


def open_reader(store: str | Path) -> LogReader:
    """Open *store* for reading only, also while another process writes it. Makes no file.

    Raises:
        NotSupported: a store that only its own process can read, or a kind that is not built yet.
        StoreUnreadable: there is no store, or no permission to read it.
    """
    if store == "memory:":
        raise NotSupported(
            "a store in memory can be read only by the process that holds it, from its session"
        )
    return open_sqlite_reader(file_of(store))


def store_bytes(store: str | Path) -> int:
    """How much the store's file takes on the disk, with its write-ahead log. Raises as ``file_of``."""
    file = file_of(store)
    return sum(part.stat().st_size for part in (file, wal_of(file)) if part.exists())


def file_of(store: str | Path) -> Path:
    """The SQLite file that *store* names. Raises NotSupported for every other kind."""
    name = str(store)
    kind, colon, rest = name.partition(":")
    if isinstance(store, Path) or not colon or "/" in kind:
        file = name
    elif kind == "sqlite":
        file = rest
    elif kind in {"jsonl", "postgresql", "postgres"}:
        raise NotSupported(f"stores of the kind {kind}: are not built yet; use a file name such as work.db")
    else:
        raise NotSupported(
            f"{name!r} is no kind of store; write a file name such as work.db, sqlite:work.db, or memory:"
        )
    if not file:
        raise StoreUnreadable("the store's name is empty; write a file name such as work.db")
    return Path(file)

"""The machine that a benchmark ran on, as far as it explains the numbers."""

import os
import platform
import sqlite3
import statistics
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import msgspec

PAGE: Final = bytes(4_096)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Facts at the start of a run. ``load``: processes that wanted a core during the last minute."""

    cores: int
    system: str
    python: str
    sqlite: str
    fsync_us: float
    load: float

    def as_text(self) -> str:
        """All of it in one line."""
        return (
            f"{self.cores} cores, {self.system}, Python {self.python}, SQLite {self.sqlite},"
            f" fsync of a page {self.fsync_us:,.0f} us, load {self.load:.1f}"
        )


def machine(folder: Path | None) -> Machine:
    """The facts of the machine this runs on, with the disk below *folder*."""
    return Machine(
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        fsync_us=_fsync_us(folder),
        load=os.getloadavg()[0],
    )


def _fsync_us(folder: Path | None, times: int = 50) -> float:
    """The median time to bring one page to the disk."""
    taken: list[float] = []
    with TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(times):
            start = time.perf_counter()
            file.write(PAGE)
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6

"""Reading in pages."""

from contextlib import closing
from pathlib import Path

from pi_actors.storage.log import PAGE_BYTES
from pi_actors.storage.opening import open_log
from tests.storage.events import append, batch, claimed, positions

MEGABYTE = 1024 * 1024


def test_a_page_of_large_rows_ends_early_and_none_is_left_out(tmp_path: Path) -> None:
    """X96: a reader's memory is bounded, however large the rows."""
    with closing(open_log(tmp_path / "store.db")) as log, closing(log.acquire("main")):
        claimed(log, "main")
        for number in range(60):
            append(log, batch("main", number, 1, text="x" * MEGABYTE))
        page = log.read("main", after=0, through=60)
        assert PAGE_BYTES <= sum(len(row.state) for row in page) < 3 * PAGE_BYTES
        assert positions(log, "main") == list(range(1, 61))

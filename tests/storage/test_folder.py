"""The folder beside a store: only its owner may look in, and every session has names of its own there."""

import os
import stat
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pi_actors.storage.folder import ensure_folder, file_name, folder_of, spill_folder
from pi_actors.storage.opening import open_log

session_ids = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=200)


def test_the_folder_lies_beside_the_store_and_is_private_whatever_the_umask(tmp_path: Path) -> None:
    store = tmp_path / "work.db"
    for mask in (0, 0o777):
        before = os.umask(mask)
        try:
            folder = ensure_folder(store)
        finally:
            os.umask(before)
        assert folder == tmp_path / "work.db.d" == folder_of(store)
        for made in (folder, folder / "sessions"):
            assert stat.S_IMODE(made.stat().st_mode) == 0o700
        (folder / "sessions").rmdir()
        folder.rmdir()


def test_spilled_output_of_a_session_lies_in_a_folder_of_its_own(tmp_path: Path) -> None:
    log = open_log(tmp_path / "work.db")
    assert log.spill_folder("main") == tmp_path / "work.db.d" / "spill" / "main"
    assert log.spill_folder("Main/../x") == tmp_path / "work.db.d" / "spill" / "%4dain%2f%2e%2e%2fx"
    assert not (tmp_path / "work.db.d" / "spill").exists()
    log.close()
    in_memory = open_log("memory:")
    assert in_memory.spill_folder("main") is None
    in_memory.close()


@given(session_ids, session_ids)
def test_two_sessions_never_share_a_file_name_even_where_case_does_not_count(one: str, other: str) -> None:
    assert (file_name(one).casefold() == file_name(other).casefold()) == (one == other)


@given(session_ids)
def test_a_file_name_is_short_plain_and_stays_in_its_folder(session: str) -> None:
    name = file_name(session)
    assert len(name.encode()) <= 200
    assert name.isascii()
    assert spill_folder(Path("work.db"), session).name == name
    assert not set(name) & set("/\\.: \0")

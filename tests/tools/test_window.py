"""The output window: whole lines within its limits, and the truth about what is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_actors.core.window import OutputWindow, append, clean_output, cut_window, truncated

LINE = "x" * 59 + "\n"


def test_sixty_kib_with_head_keep_leave_only_whole_lines_within_the_limit() -> None:
    """D91."""
    shown = cut_window(LINE * 1024, max_bytes=50 * 1024, max_lines=2_000, keep_head=True)
    assert shown.text == LINE * (50 * 1024 // 60)
    assert shown.skipped_bytes == 60 * 1024 - len(shown.text)
    assert shown.skipped_lines == 1024 - 853


def test_more_lines_than_the_limit_are_left_out() -> None:
    """D91."""
    text = "".join(f"{number}\n" for number in range(10))
    head = cut_window(text, max_bytes=1_000, max_lines=3, keep_head=True)
    assert (head.text, head.skipped_lines, head.skipped_bytes) == ("0\n1\n2\n", 7, 14)
    tail = cut_window(text, max_bytes=1_000, max_lines=3, keep_head=False)
    assert (tail.text, tail.skipped_lines, tail.skipped_bytes) == ("7\n8\n9\n", 7, 14)


def test_tail_keep_shows_the_end_and_counts_what_was_skipped() -> None:
    """D92."""
    shown = cut_window("one\ntwo\nthree", max_bytes=9, max_lines=10, keep_head=False)
    assert (shown.text, shown.skipped_bytes, shown.skipped_lines) == ("two\nthree", 4, 1)


@pytest.mark.parametrize(("keep_head", "expected"), [(True, "ää"), (False, "öö")])
def test_one_line_longer_than_the_limit_is_cut_on_a_character_boundary(
    keep_head: bool, expected: str
) -> None:
    """D93."""
    shown = cut_window("ääääöööö", max_bytes=5, max_lines=10, keep_head=keep_head)
    assert (shown.text, shown.skipped_bytes, shown.skipped_lines) == (expected, 12, 0)


def test_control_characters_go_but_tab_and_newline_stay() -> None:
    """D94."""
    assert clean_output("a\x00b\x1b[31m\r\n\tc\x7f\x85\x9fd\ud800") == "ab[31m\n\tcd\ufffd"


def test_nothing_is_said_about_a_window_that_shows_everything() -> None:
    assert truncated(append(OutputWindow(max_bytes=10, max_lines=10), "ten bytes!")) is None


@pytest.mark.parametrize(("keep_head", "words"), [(True, "start is shown, 8"), (False, "end is shown, 8")])
def test_the_remark_says_which_end_is_shown_and_how_much_is_missing(keep_head: bool, words: str) -> None:
    """D91, D92."""
    remark = truncated(append(OutputWindow(max_bytes=4, max_lines=9, keep_head=keep_head), "one\ntwo\nsix\n"))
    assert remark is not None
    assert (remark.level, remark.code) == ("warn", "truncated")
    assert words in remark.text


def test_a_gap_makes_a_window_of_the_end_drop_what_stood_before_it() -> None:
    window = append(append(OutputWindow(max_bytes=100, max_lines=9), "old\n"), "new\n", skipped_bytes=7)
    assert (window.text(), window.skipped_bytes) == ("new\n", 11)


def test_a_gap_fills_a_window_of_the_head() -> None:
    window = append(OutputWindow(max_bytes=100, max_lines=9, keep_head=True), "old\n", skipped_bytes=7)
    window = append(window, "new\n")
    assert (window.text(), window.skipped_bytes, window.full) == ("old\n", 11, True)


def test_a_window_never_holds_more_than_about_twice_its_limits() -> None:
    window = OutputWindow(max_bytes=1_000, max_lines=100)
    for number in range(5_000):
        window = append(window, f"line {number}\n")
        assert window.size <= 2_004
        assert len(window.pieces) <= 11
    assert window.text().endswith("line 4999\n")


chunks = st.lists(st.text(alphabet="ab\nä🙂", max_size=12), max_size=12)


@given(chunks, st.integers(4, 20), st.integers(1, 5), st.booleans())
def test_however_output_is_split_the_window_shows_the_same(
    parts: list[str], max_bytes: int, max_lines: int, keep_head: bool
) -> None:
    window = OutputWindow(max_bytes=max_bytes, max_lines=max_lines, keep_head=keep_head)
    for part in parts:
        window = append(window, part)
    whole = cut_window("".join(parts), max_bytes=max_bytes, max_lines=max_lines, keep_head=keep_head)
    assert (window.text(), window.skipped_bytes) == (whole.text, whole.skipped_bytes)


@given(chunks, st.integers(1, 20), st.integers(1, 5), st.booleans())
def test_what_is_shown_fits_and_nothing_is_lost_unsaid(
    parts: list[str], max_bytes: int, max_lines: int, keep_head: bool
) -> None:
    text = "".join(parts)
    shown = cut_window(text, max_bytes=max_bytes, max_lines=max_lines, keep_head=keep_head)
    assert len(shown.text.encode()) <= max_bytes
    assert len(shown.text.removesuffix("\n").split("\n")) <= max_lines
    assert text.startswith(shown.text) if keep_head else text.endswith(shown.text)
    assert len(shown.text.encode()) + shown.skipped_bytes == len(text.encode())

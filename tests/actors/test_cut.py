"""Where a context may be cut."""

from hypothesis import given as for_all
from hypothesis import strategies as st

from pi_actors.actors.agent.cut import Cut, Limits, limits_of, load_of, select_cut
from pi_actors.actors.agent.entries import EntryMeta, Part
from pi_actors.core.ids import EntryId
from pi_actors.core.settings import CompactionSettings

KEEP_20_000 = limits_of(200_000, CompactionSettings())


def meta(id: EntryId, part: Part, tokens: int = 10, *, answers: EntryId = 0) -> EntryMeta:
    return EntryMeta(id=id, part=part, tokens=tokens, answers=answers)


def summary(id: EntryId, tokens: int = 10) -> EntryMeta:
    return EntryMeta(id=id, part="user", tokens=tokens, heads=True)


def after(entries: list[EntryMeta], cut: Cut | None) -> list[EntryId]:
    """What is left of *entries* besides the summary and the instructions in force."""
    assert cut is not None
    return [entry.id for entry in entries if entry.id >= cut.keep_from and not entry.heads]


# By example.


def test_the_cut_is_the_first_entry_with_which_the_kept_part_reaches_what_is_to_be_kept() -> None:
    """F125: the walk back reaches 20,000 in the result at 3, so the cut moves on to 4."""
    entries = [
        meta(1, "user"),
        meta(2, "assistant"),
        meta(3, "result", 30_000, answers=2),
        meta(4, "assistant"),
        meta(5, "user"),
        meta(6, "assistant"),
    ]
    cut = select_cut(entries, KEEP_20_000)
    assert cut == Cut(entries=(1, 2, 3), keep_from=4, tokens=30_020)
    assert after(entries, cut) == [4, 5, 6]


def test_a_walk_that_ends_in_a_result_moves_forward_to_the_next_user_or_assistant() -> None:
    """F126."""
    entries = [
        meta(1, "user"),
        meta(2, "assistant"),
        meta(3, "result", 15_000, answers=2),
        meta(4, "result", 15_000, answers=2),
        meta(5, "note"),
        meta(6, "user", 6_000),
        meta(7, "assistant"),
    ]
    cut = select_cut(entries, KEEP_20_000)
    assert cut is not None
    assert cut.keep_from == 6


def test_a_walk_with_no_place_after_it_goes_back_to_the_call() -> None:
    """F126, X08: the last result is the end, so its call stays with it."""
    entries = [
        meta(1, "user", 50_000),
        meta(2, "assistant"),
        meta(3, "result", 30_000, answers=2),
    ]
    cut = select_cut(entries, KEEP_20_000)
    assert cut is not None
    assert cut.keep_from == 2


def test_a_range_smaller_than_what_is_to_be_kept_is_not_cut() -> None:
    """F128."""
    entries = [meta(1, "user", 9_000), meta(2, "assistant", 9_000), meta(3, "user", 1_000)]
    assert select_cut(entries, KEEP_20_000) is None
    assert select_cut([], KEEP_20_000) is None


def test_nothing_is_cut_where_only_an_earlier_summary_and_instructions_would_go() -> None:
    """F130."""
    entries = [summary(9, 4_000), meta(2, "instructions", 900), meta(7, "user", 30_000)]
    assert select_cut(entries, KEEP_20_000) is None
    answered = select_cut([*entries, meta(10, "assistant", 20_000)], KEEP_20_000)
    assert answered is not None
    assert answered.entries == (9, 7)


def test_nothing_is_cut_where_all_that_would_go_besides_an_earlier_summary_is_empty() -> None:
    """F130: to summarise a summary once more frees nothing."""
    entries = [summary(9, 4_000), meta(2, "user", 0), meta(3, "assistant", 20_000)]
    assert select_cut(entries, KEEP_20_000) is None


def test_an_earlier_summary_is_never_the_cut_and_its_text_is_summarised_first() -> None:
    """F131."""
    entries = [summary(9, 30_000), meta(7, "user", 100), meta(8, "assistant", 20_000)]
    cut = select_cut(entries, KEEP_20_000)
    assert cut is not None
    assert cut.entries[0] == 9
    assert cut.keep_from == 8


def test_failed_answers_and_custom_entries_without_messages_are_no_places_and_not_summarised() -> None:
    entries = [
        meta(1, "user"),
        EntryMeta(id=2, part="assistant", sent=False),
        meta(3, "nothing", 0),
        meta(4, "user", 30_000),
    ]
    cut = select_cut(entries, KEEP_20_000)
    assert cut is not None
    assert (cut.entries, cut.keep_from) == ((1,), 4)


def test_instructions_that_were_superseded_go_and_count_as_freed() -> None:
    """A session whose instructions change at every turn does not overflow under all the old ones."""
    turns = [
        each
        for start in range(1, 160, 4)
        for each in (
            meta(start, "user"),
            meta(start + 1, "instructions", 4_000),
            meta(start + 2, "assistant"),
        )
    ]
    cut = select_cut(turns, KEEP_20_000)
    assert cut is not None
    assert cut.tokens > 130_000
    assert all(entry.part != "instructions" for entry in turns if entry.id in cut.entries)
    kept = [entry for entry in turns if entry.id >= cut.keep_from]
    assert 20_000 <= sum(entry.tokens for entry in kept) <= 30_000


def test_the_instructions_in_force_are_no_conversation_that_could_be_kept() -> None:
    entries = [meta(1, "user"), meta(2, "instructions", 30_000), meta(3, "assistant"), meta(4, "user")]
    assert select_cut(entries, KEEP_20_000) is None


def test_a_summary_counts_as_the_provider_counts() -> None:
    """At twice our estimate 500 of 2,500 tokens are the summary's, and 20 are for what introduces it."""
    limits = limits_of(4_000, CompactionSettings())
    entries = [meta(1, "user", 400), meta(2, "assistant", 400)]
    assert select_cut([*entries, meta(3, "user", 990)], limits, 2.0) is not None
    assert select_cut([*entries, meta(3, "user", 991)], limits, 2.0) is None


# Sizes.


def test_a_large_window_has_the_sizes_of_the_settings() -> None:
    limits = limits_of(200_000, CompactionSettings())
    assert (limits.blocking, limits.background) == (183_616, 167_232)
    assert (limits.keep, limits.summary) == (20_000, 4_096)


def test_in_a_small_window_all_sizes_shrink() -> None:
    limits = limits_of(4_000, CompactionSettings())
    assert (limits.blocking, limits.background) == (3_000, 2_500)
    assert (limits.keep, limits.summary) == (1_000, 250)


def test_an_unknown_window_has_no_thresholds_but_a_refused_size_bounds_what_may_stay() -> None:
    assert limits_of(None, CompactionSettings()).blocking is None
    refused = limits_of(None, CompactionSettings(), too_large=8_000)
    assert refused.blocking is None
    assert refused.kept_max < 8_000 * 3 // 4
    assert limits_of(200_000, CompactionSettings(), too_large=8_000).kept_max == refused.kept_max
    assert limits_of(4_000, CompactionSettings(), too_large=8_000) == limits_of(4_000, CompactionSettings())


def test_a_load_is_what_the_provider_counted_and_an_estimate_of_what_came_after() -> None:
    """C69: usage of the newest counted answer, what came after, and the planned instructions."""
    entries = [meta(1, "user", 100), meta(2, "assistant", 100), meta(3, "user", 50)]
    assert load_of(entries, None, 7).tokens == 257
    assert load_of(entries, (2, 300), 10) == (300 + 90, 1.5)


def test_estimates_are_corrected_upwards_only_and_by_four_at_most() -> None:
    entries = [meta(1, "user", 100), meta(2, "user", 10)]
    assert load_of(entries, (1, 40), 0) == (50, 1.0)
    assert load_of(entries, (1, 4_000), 0) == (4_040, 4.0)
    unsent = EntryMeta(id=3, part="assistant", sent=False, tokens=999)
    assert load_of([*entries, unsent], (1, 100), 0).tokens == 110


# For all transcripts and limits.


@st.composite
def transcripts(draw: st.DrawFn) -> list[EntryMeta]:
    """A context as one can be: a summary or none, then turns, rounds of calls and what stands between."""
    sizes = st.integers(0, 3_000)
    entries: list[EntryMeta] = [summary(1_000, draw(sizes))] if draw(st.booleans()) else []
    id = 0
    for part in draw(st.lists(st.sampled_from(["user", "assistant", "calls", "failed", "system", "note"]))):
        id += 1
        match part:
            case "calls":
                caller = id
                entries.append(meta(caller, "assistant", draw(sizes)))
                for _ in range(draw(st.integers(1, 3))):
                    id += 1
                    if draw(st.integers(0, 9)) == 0:
                        entries.append(meta(id, "note", draw(sizes)))
                        id += 1
                    entries.append(meta(id, "result", draw(sizes), answers=caller))
            case "failed":
                entries.append(EntryMeta(id=id, part="assistant", sent=False))
            case "system":
                entries.append(meta(id, "instructions", draw(sizes)))
            case "user":
                entries.append(meta(id, "user", draw(sizes)))
            case "assistant":
                entries.append(meta(id, "assistant", draw(sizes)))
            case _:
                entries.append(meta(id, "note", draw(sizes)))
    return entries


SETTINGS = st.builds(
    CompactionSettings,
    reserve_tokens=st.integers(0, 20_000),
    background_tokens=st.integers(0, 20_000),
    keep_recent_tokens=st.integers(0, 20_000),
    summary_tokens_max=st.integers(1, 5_000),
)


@for_all(transcripts(), st.integers(16, 40_000), SETTINGS, st.floats(1, 4))
def test_a_cut_keeps_calls_with_their_results_and_no_more_than_fits(
    entries: list[EntryMeta], window: int, settings: CompactionSettings, scale: float
) -> None:
    """X08, X105: whatever the history and the limits are."""
    limits = limits_of(window, settings)
    cut = select_cut(entries, limits, scale)
    if cut is None:
        return
    at = next(place for place, entry in enumerate(entries) if entry.id == cut.keep_from)
    off, stays = entries[:at], entries[at:]
    assert entries[at].sent
    assert not entries[at].heads
    assert entries[at].part in ("user", "assistant")
    _is_whole(off, stays)
    in_force = next((entry for entry in reversed(entries) if entry.part == "instructions"), None)
    kept = {entry.id: entry.tokens for entry in (*stays, *([in_force] if in_force else [])) if entry.sent}
    assert sum(kept.values()) * scale + limits.summary * scale <= (limits.background or 0)
    _nothing_is_lost(entries, cut, stays)


def _is_whole(off: list[EntryMeta], stays: list[EntryMeta]) -> None:
    """No call stands on one side and its results on the other."""
    assert not {entry.answers for entry in stays if entry.answers} & {entry.id for entry in off}
    assert not {entry.answers for entry in off if entry.answers} & {entry.id for entry in stays}


def _nothing_is_lost(entries: list[EntryMeta], cut: Cut, stays: list[EntryMeta]) -> None:
    """What is summarised and what stays is everything that was sent, besides instructions."""
    told = [entry for entry in entries if entry.sent and entry.tokens and entry.part != "instructions"]
    kept = [entry.id for entry in stays if entry in told]
    assert [*cut.entries, *kept] == [entry.id for entry in told]
    assert any(not entry.heads for entry in told if entry.id in cut.entries) or not cut.entries


@for_all(transcripts(), st.integers(16, 40_000), SETTINGS)
def test_a_context_as_small_as_it_should_be_is_not_cut(
    entries: list[EntryMeta], window: int, settings: CompactionSettings
) -> None:
    """F128."""
    limits: Limits = limits_of(window, settings)
    if sum(entry.tokens for entry in entries if entry.sent) < limits.keep:
        assert select_cut(entries, limits) is None

"""Where a context may be cut, and how much of it may stay: pure arithmetic over entries' sizes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pi_actors.actors.agent.entries import EntryMeta
from pi_actors.core.ids import EntryId
from pi_actors.core.settings import CompactionSettings

SCALE_MAX: Final = 4.0
"""Beyond this a provider has counted more than text, such as the tools' schemas, which does not grow."""

INTRODUCTION_TOKENS: Final = 20
"""What the words take that introduce a summary (``compacting.py``), at most."""


class Limits(NamedTuple):
    """Sizes in tokens for one model. ``blocking`` and ``background`` are None where its window is unknown.

    A context above ``blocking`` is compacted before it is sent, one above ``background`` beside it.
    ``keep``: about how much of the newest stays. ``kept_max``: more may not stay, instructions
    included, so that it is below both limits together with a summary of ``summary``.
    """

    blocking: int | None
    background: int | None
    keep: int
    kept_max: int
    summary: int


class Load(NamedTuple):
    """How large a context is: ``tokens``, as its provider counts, ``scale`` times our estimate."""

    tokens: int
    scale: float


class Cut(NamedTuple):
    """What a compaction summarises, the first entry that stays, and how much goes from the context."""

    entries: tuple[EntryId, ...]
    keep_from: EntryId
    tokens: int


def limits_of(window: int | None, settings: CompactionSettings, *, too_large: int | None = None) -> Limits:
    """The limits for a model with *window*; *too_large*: a size that it has refused.

    Of a small window at least five eighths are left below both limits: a quarter for what is kept, a
    sixteenth for the summary, the rest for what comes next.
    """
    room = window if too_large is None or (window is not None and window < too_large) else too_large
    if room is None:
        return Limits(None, None, settings.keep_recent_tokens, _UNLIMITED, settings.summary_tokens_max)
    blocking = room - min(settings.reserve_tokens, room // 4)
    background = blocking - min(settings.background_tokens, room // 8)
    summary = min(settings.summary_tokens_max, room // 16)
    return Limits(
        blocking=blocking if window is not None else None,
        background=background if window is not None else None,
        keep=min(settings.keep_recent_tokens, room // 4),
        kept_max=background - summary - INTRODUCTION_TOKENS,
        summary=summary,
    )


def load_of(entries: Sequence[EntryMeta], counted: tuple[EntryId, int] | None, planned: int) -> Load:
    """The size of a context and of *planned* tokens more.

    *counted*: an entry, and how many tokens its provider counted up to it and with it; what came
    after is estimated, as is everything where nothing was counted.
    """
    sent = [entry for entry in entries if entry.sent]
    if counted is None:
        return Load(sum(entry.tokens for entry in sent) + planned, 1.0)
    id, tokens = counted
    estimated = sum(entry.tokens for entry in sent if entry.id <= id)
    after = sum(entry.tokens for entry in sent if entry.id > id) + planned
    scale = min(max(tokens / max(estimated, 1), 1.0), SCALE_MAX)
    return Load(tokens + round(after * scale), scale)


def select_cut(entries: Sequence[EntryMeta], limits: Limits, scale: float = 1.0) -> Cut | None:
    """Where to cut *entries* (a context, in its order), or None where there is nothing to gain.

    Walking back from the end, the first entry with which the kept part reaches ``limits.keep`` is
    the cut, if it starts with a user or an assistant; else the next that does, else the one before.
    A call is never separated from its results. What is cut off must hold something besides an
    earlier summary and instructions.
    """
    in_force = next((entry for entry in reversed(entries) if entry.part == "instructions"), None)
    kept = _kept_from(entries, in_force, scale)
    reached = next((at for at in reversed(range(len(entries))) if kept[at] >= limits.keep), None)
    if reached is None:
        return None
    # The limits speak of the provider's tokens; what the summary may take is our estimate of it.
    kept_max = limits.kept_max - _tokens(in_force) * scale - limits.summary * (scale - 1)
    places = [at for at in _places(entries) if kept[at] <= kept_max]
    forward = [at for at in places if at >= reached]
    at = forward[0] if forward else (places[-1] if places else None)
    if at is None or not any(_contributes(entry) for entry in entries[:at]):
        return None
    off = [entry for entry in entries[:at] if entry.sent and entry is not in_force]
    return Cut(
        entries=tuple(entry.id for entry in off if entry.tokens and entry.part != "instructions"),
        keep_from=entries[at].id,
        tokens=round(sum(entry.tokens for entry in off) * scale),
    )


def _kept_from(entries: Sequence[EntryMeta], in_force: EntryMeta | None, scale: float) -> list[float]:
    """For each place how much stays when it is the cut, besides the instructions in force.

    Those stay in any case; earlier ones are as good as conversation: they go with what is cut off.
    """
    kept: list[float] = []
    total = 0.0
    for entry in reversed(entries):
        if entry.sent and not entry.heads and entry is not in_force:
            total += entry.tokens * scale
        kept.append(total)
    return kept[::-1]


def _tokens(entry: EntryMeta | None) -> int:
    return 0 if entry is None else entry.tokens


def _places(entries: Sequence[EntryMeta]) -> list[int]:
    """Where a cut is possible: at a user's or assistant's entry with no result of an earlier call behind."""
    places: list[int] = []
    asked_from: EntryId | None = None
    for at in reversed(range(len(entries))):
        entry = entries[at]
        if entry.answers and (asked_from is None or entry.answers < asked_from):
            asked_from = entry.answers
        starts = entry.sent and not entry.heads and entry.part in ("user", "assistant")
        if starts and (asked_from is None or asked_from >= entry.id):
            places.append(at)
    return places[::-1]


def _contributes(entry: EntryMeta) -> bool:
    """Whether the entry says something of the conversation: not empty, no summary, no instructions."""
    return entry.sent and not entry.heads and entry.tokens > 0 and entry.part != "instructions"


_UNLIMITED: Final = 2**62

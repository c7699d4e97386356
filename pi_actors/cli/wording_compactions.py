"""The stored events of compactions in plain words."""

from collections.abc import Callable
from typing import Final

import msgspec

from pi_actors.actors.agent.messages import CompactionEnded, CompactionSkipped, CompactionStarted
from pi_actors.actors.compaction.messages import (
    CompactionInput,
    SummaryFailed,
    SummaryRepeated,
    SummarySettled,
    SummaryStarted,
)
from pi_actors.actors.generation.messages import CompactionAwaited, CompactionReturned
from pi_actors.core.decider import Event
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.text import Json
from projections.fold import in_calendar, iso


def compaction_words(event: WorkSpawned) -> str:
    """What a compaction is to do, from its birth."""
    born = msgspec.msgpack.decode(event.input, type=CompactionInput)
    what = f"{born.trigger}, {entries_words(len(born.entries))} of a context of about {born.tokens:,} tokens"
    return f"{what}; from entry {born.keep_from} on it stays" if born.entries else what


def placed_words(data: Json, kept: int | None = None) -> str:
    """A summary's entry in a line, from its data and how many entries it kept."""
    words = "context summarised"
    match data:
        case {"tokens_before": int(tokens)}:
            words += f": about {tokens:,} tokens before"
        case _:
            pass
    if kept is None:
        return words
    return f"{words}, the newest {'entry' if kept == 1 else entries_words(kept)} kept"


def entries_words(count: int) -> str:
    """A number of entries."""
    return "1 entry" if count == 1 else f"{count:,} entries"


def _started(event: CompactionStarted) -> str:
    return f"{event.trigger}, by actor {event.compaction}"


def _ended(event: CompactionEnded) -> str:
    return f"that of actor {event.compaction}"


def _skipped(event: CompactionSkipped) -> str:
    return f"the context has about {event.tokens:,} tokens, and only {event.freed_tokens:,} could be freed"


def _awaited(event: CompactionAwaited) -> str:
    why = "the context is too large" if event.overflow is None else f"refused as too large: {event.overflow}"
    return f"{why}; actor {event.compaction} makes it smaller first"


def _returned(_: CompactionReturned) -> str:
    return "the request is prepared anew"


def _summary_started(event: SummaryStarted) -> str:
    most = "" if event.input_tokens_max is None else f", at most {event.input_tokens_max:,} tokens at a time"
    return f"{event.model} is asked{most}"


def _summary_settled(event: SummarySettled) -> str:
    tokens = "" if event.usage is None else f" [{event.usage.input} in, {event.usage.output} out]"
    return f"part {event.part}{', the last' if event.last else ''}{tokens}"


def _summary_failed(event: SummaryFailed) -> str:
    again = "" if event.due_us is None else f"; again at {iso(in_calendar(event.due_us))}"
    return f"attempt {event.attempt}: {event.error}{again}"


def _summary_repeated(event: SummaryRepeated) -> str:
    return f"attempt {event.attempt}, the same request"


WORDS: Final[dict[type[Event], Callable[..., str]]] = {
    CompactionStarted: _started,
    CompactionEnded: _ended,
    CompactionSkipped: _skipped,
    CompactionAwaited: _awaited,
    CompactionReturned: _returned,
    SummaryStarted: _summary_started,
    SummarySettled: _summary_settled,
    SummaryFailed: _summary_failed,
    SummaryRepeated: _summary_repeated,
}

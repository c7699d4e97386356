"""What people are told of compactions: who wants one, how it goes, and what its summary stands for."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pi_actors.actors.agent.entries import fork_of
from pi_actors.actors.agent.messages import (
    CompactionSkipped,
    EntryAppended,
    ResponseSettled,
    SubmissionQueued,
    ToolResultSettled,
)
from pi_actors.actors.compaction.messages import (
    KIND,
    CompactionInput,
    SummaryFailed,
    SummaryRepeated,
    SummarySettled,
    SummaryStarted,
    Trigger,
)
from pi_actors.cli.paper import FAULT, QUIET, SUMMARY, WARNING, Paper
from pi_actors.cli.wording import shortened
from pi_actors.cli.wording_compactions import entries_words, placed_words
from pi_actors.core.ids import ActorId, EntryId, Position
from pi_actors.core.lifecycle import AgentSpawned, Outcome, WorkEnded, WorkSpawned
from pi_actors.core.messages import Entry
from pi_actors.core.record import Recorded
from pi_actors.core.text import Json

WHY: Final[dict[Trigger, str]] = {
    "manual": "as asked",
    "background": "in the background",
    "blocking": "before the next request",
    "overflow": "as the request was refused as too large",
}
COMPACT: Final = "/compact"
READY: Final = "the summary is ready and takes its place after the current step"


class Summaries:
    """Tells on *paper* of compactions and of what they place. Keeps what it needs to name it."""

    def __init__(self, paper: Paper) -> None:
        self._paper = paper
        self._live: dict[ActorId, CompactionInput] = {}
        self._asked: set[ActorId] = set()
        self._entries: dict[ActorId, list[EntryId]] = {}

    def learn(self, agent: ActorId, entries: Sequence[EntryId]) -> None:
        """Know the entries without a head that *agent* has in context, of before the first commit."""
        self._entries[agent] = list(entries)

    def go_on(self, compactions: Mapping[ActorId, CompactionInput]) -> None:
        """Know and tell of the *compactions* that began before the first commit."""
        for id, born in compactions.items():
            self._live[id] = born
            self._asked.add(id)
            self._paper.line(f"· the summary that was being written goes on ({WHY[born.trigger]})", QUIET)

    def recall(self, entry: Entry) -> None:
        """Tell of a summary that stands in the transcript."""
        self._tell_placed(entry.agent, entry.id, entry.head, entry.data)

    def show(self, recorded: Recorded) -> bool:
        """Tell of *recorded*; whether there is nothing else to say of it."""
        match recorded.event:
            case ResponseSettled() | ToolResultSettled():
                self._entries.setdefault(recorded.actor, []).append(recorded.position)
                return False
            case EntryAppended() as event:
                return self._take_entry(recorded, event)
            case AgentSpawned() as event:
                self._take_agent(recorded.actor, event)
            case WorkSpawned(kind=kind, input=born) if kind == KIND:
                self._live[recorded.actor] = msgspec.msgpack.decode(born, type=CompactionInput)
            case WorkEnded(outcome=outcome) if recorded.actor in self._live:
                self._forget(recorded.actor)
                self._tell_end(outcome)
            case SubmissionQueued(entry=entry) if entry.kind == "pi.compaction":
                self._paper.line(f"· {READY}", QUIET)
            case CompactionSkipped(tokens=tokens, freed_tokens=freed):
                words = f"about {tokens:,} tokens, of which a summary would free only {freed:,}"
                self._paper.line(f"· the context is nearly full: {words}", WARNING)
            case _:
                return self._show_progress(recorded)
        return True

    def _show_progress(self, recorded: Recorded) -> bool:
        match recorded.event:
            case SummaryStarted() as event:
                self._tell_asked(recorded.actor, event)
            case SummarySettled(part=part, last=False):
                self._paper.line(f"· part {part + 1} of it is summarised", QUIET)
            case SummaryFailed(attempt=attempt, error=error, due_us=int() as due_us):
                seconds = max(0.0, (due_us - recorded.at_us) / 1_000_000)
                again = f"attempt {attempt + 1} in {seconds:.1f} s"
                self._paper.line(f"· the summary failed: {shortened(error)}; {again}", WARNING)
            case SummaryRepeated(attempt=attempt):
                self._paper.line(f"· the summary is asked for again, attempt {attempt}", QUIET)
            case _:
                return False
        return True

    def _forget(self, id: ActorId) -> None:
        del self._live[id]
        self._asked.discard(id)

    def _take_agent(self, id: ActorId, event: AgentSpawned) -> None:
        fork = fork_of(event)
        if fork is not None:
            self.learn(id, [meta.id for meta in fork.context if not meta.heads])
            self._paper.line(f"· agent {id} goes on from agent {fork.parent} at entry {fork.at}", QUIET)

    def _take_entry(self, recorded: Recorded, event: EntryAppended) -> bool:
        entries = self._entries.setdefault(recorded.actor, [])
        told = event.kind == "pi.compaction"
        if told:
            self._tell_placed(recorded.actor, recorded.position, event.head, event.data)
        if event.head is not None:
            entries[:] = [id for id in entries if id >= event.head]
        else:
            entries.append(recorded.position)
        return told

    def _tell_placed(self, agent: ActorId, position: Position, head: EntryId | None, data: Json) -> None:
        entries = self._entries.get(agent, [])
        kept = kept_by(position, head, entries) if head in entries else None
        self._paper.line(f"≡ {placed_words(data, kept)}", SUMMARY)

    def _tell_asked(self, id: ActorId, event: SummaryStarted) -> None:
        if id in self._asked:
            self._paper.line(
                f"· that was too much for {event.model} at once; again, in smaller parts", WARNING
            )
            return
        self._asked.add(id)
        born = self._live.get(id)
        why = "" if born is None else f", {WHY[born.trigger]}"
        what = "" if born is None else f" to sum up {entries_words(len(born.entries))}"
        self._paper.line(f"· the context is summarised{why}: {event.model} is asked{what}", QUIET)

    def _tell_end(self, outcome: Outcome) -> None:
        """How it ended; a summary that was placed or queued has been told already."""
        detail = f": {shortened(outcome.detail)}" if outcome.detail else ""
        match outcome.status, outcome.reason:
            case "completed", "nothing_to_compact":
                self._paper.line(f"· nothing was summarised{detail}", QUIET)
            case "completed", "stale":
                self._paper.line("· the summary was dropped, as the context has moved on meanwhile", WARNING)
            case "completed", _:
                pass
            case "aborted", _:
                self._paper.line("· the summary was stopped; the context is as it was", WARNING)
            case status, reason:
                why = f"{reason or status}{detail}"
                self._paper.line(f"✗ no summary ({why}); the context is as it was", FAULT)


def compact_wish(text: str) -> str | None:
    """What the summary should mind that *text* asks for, maybe nothing; None where it asks for no summary."""
    command, _, minding = text.strip().partition(" ")
    return minding.strip() if command == COMPACT else None


def kept_by(position: EntryId, head: EntryId | None, entries: Sequence[EntryId]) -> int:
    """How many of *entries* stayed when the summary at *position* took its place."""
    return sum(1 for id in entries if head is not None and head <= id < position)

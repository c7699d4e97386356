"""An agent's view: its active transcript and its documents as one JSON value, and how commits change it.

``{"agent": {"id", "owner", "session_uuid"}, "entries": [ENTRY, ...], "docs": {"pi.live": …,
"pi.inbox": …, "pi.usage": …, "pi.agent": …, "pi.provider": …}}``. ``agent`` never changes. An ENTRY
has the fields of ``Entry`` that are set; times are ISO text in UTC, bytes base64 text.

Values share what they have in common: look at them, do not change them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from pi_actors.core.ids import ActorId, Position
from pi_actors.core.instants import instant
from pi_actors.core.messages import Entry
from pi_actors.core.record import Commit
from pi_actors.core.text import Json
from projections import live
from projections.agent import AGENT
from projections.entries import entries_in
from projections.fold import Document, Projection, as_json, in_calendar
from projections.frames import Frame, apply_frame, diff
from projections.inbox import INBOX
from projections.live import LIVE, LiveState
from projections.provider import PROVIDER
from projections.replay import SessionState
from projections.session import AgentState, FoldedState, fold_commit
from projections.transcript import TranscriptState, active_ids
from projections.usage import USAGE

S = TypeVar("S")


def value_of(state: SessionState, agent: ActorId) -> Document:
    """The value of the agent's view in *state*, as fresh JSON.

    Raises:
        NotFound: the session has no such agent at this position.
    """
    return value_with(state, agent, state.entries(agent))


def value_with(state: FoldedState, agent: ActorId, entries: Sequence[Entry]) -> Document:
    """The same, given the *entries* of the agent's active transcript. Raises as ``value_of``."""
    owner = state.agent(agent).agent.owner
    return {
        "agent": {"id": agent, "owner": owner, "session_uuid": state.uuid},
        "entries": [as_json(entry) for entry in entries],
        "docs": state.documents(agent),
    }


class Viewed:
    """The view of one agent, carried on from commit to commit.

    ``value`` is as of ``position``. What a commit leaves alone stays the same object in the next value.
    """

    def __init__(self, state: FoldedState, agent: ActorId, entries: Sequence[Entry]) -> None:
        """Start with *state* and the *entries* of the agent's active transcript in it.

        Raises:
            NotFound: the session has no such agent at this position.
        """
        self.agent = agent
        self.state = state
        self.value = value_with(state, agent, entries)

    @property
    def position(self) -> Position:
        """The end of the last commit that was seen."""
        return self.state.position

    @property
    def at(self) -> datetime:
        """When that commit was made (UTC)."""
        return instant(in_calendar(self.state.at_us))

    def advance(self, commit: Commit) -> Frame | None:
        """Go on with the next commit; the frame of what it changed here, None where that is nothing."""
        return self.show(fold_commit(self.state, commit), commit)

    def show(self, state: FoldedState, commit: Commit) -> Frame | None:
        """As ``advance``, where somebody else has folded *commit* to *state*."""
        old, new = self.state.agent(self.agent), state.agent(self.agent)
        self.state = state
        if new is old:
            return None
        ops = diff(self.value, self._changed(old, new, commit))
        if not ops:
            return None
        frame = Frame(position=self.position, at=self.at, ops=ops)
        self.value = apply_frame(self.value, frame)
        return frame

    def snapshot(self) -> Frame:
        """The whole value, as a frame."""
        return Frame(position=self.position, at=self.at, snapshot=self.value)

    def _changed(self, old: AgentState, new: AgentState, commit: Commit) -> Document:
        """The value of *new*; made anew is only what stems from another state than before."""
        docs = self.value["docs"]
        entries = self.value["entries"]
        if new.transcript is not old.transcript:
            entries = _entries(entries, old.transcript, new.transcript, commit)
        return {
            "agent": self.value["agent"],
            "entries": entries,
            "docs": {
                LIVE.name: _live(docs[LIVE.name], old.live, new.live),
                INBOX.name: _document(INBOX, docs, old.inbox, new.inbox),
                USAGE.name: _document(USAGE, docs, old.usage, new.usage),
                AGENT.name: _document(AGENT, docs, old.agent, new.agent),
                PROVIDER.name: _document(PROVIDER, docs, old.provider, new.provider),
            },
        }


def _document(projection: Projection[S], shown: Document, old: S, new: S) -> Json:
    return shown[projection.name] if new is old else projection.document(new)


def _live(shown: Document, old: LiveState, new: LiveState) -> Document:
    return shown if new is old else live.document_after(old, shown, new)


def _entries(shown: list[Json], old: TranscriptState, new: TranscriptState, commit: Commit) -> list[Json]:
    """The entries of *new* as JSON: each was *shown* of *old*, or *commit* has brought it."""
    ids = active_ids(new)
    if new.start == old.start:
        # Nothing has gone, so all that is new follows what was shown.
        brought = entries_in(commit)
        return [*shown, *(as_json(brought[id]) for id in ids[len(shown) :])]
    known = {entry["id"]: entry for entry in shown}
    known |= {id: as_json(entry) for id, entry in entries_in(commit).items() if id in ids}
    return [known[id] for id in ids]

"""An agent's view: its active transcript and its documents as one JSON value, and how commits change it.

``{"agent": {"id", "owner", "session_uuid"}, "entries": [ENTRY, ...], "docs": {"pi.live": …,
"pi.inbox": …, "pi.usage": …, "pi.agent": …, "pi.provider": …}}``. ``agent`` never changes. An ENTRY
has the fields of ``Entry`` that are set; times are ISO text in UTC, bytes base64 text.

Values share what they have in common: look at them, do not change them.
"""

from datetime import datetime
from typing import TypeVar

from pi_actors.core.ids import ActorId, Position
from pi_actors.core.instants import instant
from pi_actors.core.record import Commit
from pi_actors.core.text import Json
from projections import live
from projections.agent import AGENT
from projections.fold import Document, Projection, as_json, in_calendar
from projections.frames import Frame, apply_frame, diff
from projections.inbox import INBOX
from projections.live import LIVE, LiveState
from projections.provider import PROVIDER
from projections.session import AgentState, SessionState, fold_commit
from projections.transcript import TranscriptState, active_entries
from projections.usage import USAGE

S = TypeVar("S")


def value_of(state: SessionState, agent: ActorId) -> Document:
    """The value of the agent's view in *state*, as fresh JSON.

    Raises:
        NotFound: the session has no such agent at this position.
    """
    owner = state.agent(agent).agent.owner
    return {
        "agent": {"id": agent, "owner": owner, "session_uuid": state.uuid},
        "entries": [as_json(entry) for entry in state.entries(agent)],
        "docs": state.documents(agent),
    }


class Viewed:
    """The view of one agent, carried on from commit to commit.

    ``value`` is as of ``position``. What a commit leaves alone stays the same object in the next value.
    """

    def __init__(self, state: SessionState, agent: ActorId) -> None:
        """Start with *state*.

        Raises:
            NotFound: the session has no such agent at this position.
        """
        self.agent = agent
        self.state = state
        self.value = value_of(state, agent)

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
        return self.show(fold_commit(self.state, commit))

    def show(self, state: SessionState) -> Frame | None:
        """Go on to *state*, which somebody else has folded; otherwise as ``advance``."""
        before, now = self.state, state
        self.state = state
        old, new = before.agent(self.agent), now.agent(self.agent)
        if new is old:
            return None
        ops = diff(self.value, self._changed(old, new, after=before.position, through=now.position))
        if not ops:
            return None
        frame = Frame(position=self.position, at=self.at, ops=ops)
        self.value = apply_frame(self.value, frame)
        return frame

    def snapshot(self) -> Frame:
        """The whole value, as a frame."""
        return Frame(position=self.position, at=self.at, snapshot=self.value)

    def _changed(self, old: AgentState, new: AgentState, *, after: Position, through: Position) -> Document:
        """The value of *new*; made anew is only what stems from another state than before."""
        docs = self.value["docs"]
        entries = self.value["entries"]
        if new.transcript is not old.transcript:
            entries = _entries(entries, old.transcript, new.transcript, range(after + 1, through + 1))
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


def _entries(shown: list[Json], old: TranscriptState, new: TranscriptState, positions: range) -> list[Json]:
    """The entries as JSON. Where all that is new was added at *positions*, the rest stays as it is."""
    if new.start is old.start:
        added = [new.rest[id] for id in positions if id in new.rest]
        if len(old.rest) + len(added) == len(new.rest):
            return [*shown, *map(as_json, added)]
    return [as_json(entry) for entry in active_entries(new)]

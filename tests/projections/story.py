"""A hand-written log: commits of events, encoded and decoded on the way like stored ones."""

from collections.abc import Iterable, Sequence

import msgspec

from pi_actors.actors.agent.messages import (
    EntryAppended,
    ResponseSettled,
    RunStarted,
    SubmissionPlaced,
    ToolResultSettled,
)
from pi_actors.actors.generation.messages import KIND as GENERATION
from pi_actors.actors.generation.messages import CallSpec, RequestStarted, ToolRoundStarted
from pi_actors.actors.tool.messages import KIND as TOOL
from pi_actors.actors.tool.messages import ToolInput
from pi_actors.core.decider import Event
from pi_actors.core.ids import ActorId, EntryId, Position
from pi_actors.core.lifecycle import AgentSpawned, WorkSpawned
from pi_actors.core.messages import (
    Call,
    CallRef,
    Diagnostic,
    Entry,
    Part,
    ResponseInfo,
    Text,
    Usage,
    user_message,
)
from pi_actors.core.record import Commit, Recorded
from projections.entries import entries_in
from projections.replay import SessionState, fold_submissions, with_all
from projections.session import EMPTY, FoldedState, fold_commit
from projections.submissions import SUBMISSIONS

ROOT = 1
START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000


class Story:
    """A log under construction; every commit is one second after the one before."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.at_us = START_US

    @property
    def position(self) -> Position:
        """The position of the last event."""
        return self.commits[-1][-1].position if self.commits else 0

    def commit(self, *drafts: tuple[ActorId, Event]) -> Position:
        """Append (actor, event) pairs as one commit and return its first position.

        A spawn's actor is its own position, whatever the pair says.
        """
        first, end = self.position + 1, self.position + len(drafts)
        self.commits.append(
            tuple(
                recorded(first + place, actor, event, end=end, at_us=self.at_us)
                for place, (actor, event) in enumerate(drafts)
            )
        )
        self.at_us += SECOND_US
        return first

    def state(self) -> SessionState:
        """Everything so far, folded commit by commit."""
        return told_by(self.commits)

    def document(self, name: str, agent: ActorId = ROOT) -> dict[str, object]:
        """One document of an agent, after everything so far; it is JSON."""
        document = self.state().documents(agent)[name]
        assert msgspec.json.decode(msgspec.json.encode(document)) == document
        return document

    def spawn_root(self) -> None:
        """The session's first commit."""
        self.commit((ROOT, AgentSpawned(session_uuid="uuid-1")))

    def ask(self, text: str = "hello", agent: ActorId = ROOT) -> ActorId:
        """An input that is placed at once, its run and its first generation, whose id is returned.

        The submission, the entry and the run are 3, 2 and 1 below it.
        """
        first = self.position + 1
        self.commit(
            (agent, SubmissionPlaced(mode="follow_up", entry=first + 1)),
            (agent, EntryAppended(kind="pi.user", messages=(user_message(text),))),
            (agent, RunStarted(inputs=(first,))),
            (agent, WorkSpawned(kind=GENERATION, agent=agent)),
        )
        return first + 3

    def request(self, generation: ActorId, attempt: int = 1) -> None:
        """The generation asks its model."""
        self.commit((generation, RequestStarted(attempt=attempt, turn=0, cutoff=self.position, model="m")))

    def call_tools(
        self, generation: ActorId, *names: str, sequential: bool = False, agent: ActorId = ROOT
    ) -> tuple[EntryId, list[ActorId]]:
        """A response with calls, its round and the first tool actors; return the entry and the actors."""
        entry = self.position + 1
        calls = tuple(
            Call(index=index, wire_id=f"w{index}", name=name, arguments=f'{{"n":{index}}}')
            for index, name in enumerate(names)
        )
        specs = tuple(CallSpec(index=index, name=name) for index, name in enumerate(names))
        spawned = specs[:1] if sequential else specs
        self.commit(
            (agent, response(generation, *calls, stop="calls")),
            (generation, ToolRoundStarted(entry=entry, calls=specs, sequential=sequential)),
            *((0, tool_spawned(generation, entry, spec, agent)) for spec in spawned),
        )
        return entry, [entry + 2 + place for place in range(len(spawned))]


def folded_from(commits: Iterable[Commit]) -> FoldedState:
    """What is true after *commits*."""
    state = EMPTY
    for commit in commits:
        state = fold_commit(state, commit)
    return state


def told_by(commits: Sequence[Commit]) -> SessionState:
    """All that *commits* tell."""
    state, submissions = folded_from(commits), SUBMISSIONS.initial
    for commit in commits:
        submissions = fold_submissions(submissions, commit)
    return with_all(state, submissions, entries_of(commits, state, *state.agents).values())


def entries_of(commits: Iterable[Commit], state: FoldedState, *agents: ActorId) -> dict[EntryId, Entry]:
    """The entries that *agents* have in context, out of *commits*."""
    entries = entries_in(recorded for commit in commits for recorded in commit)
    return {id: entries[id] for agent in agents for id in state.entry_ids(agent)}


def recorded(position: Position, actor: ActorId, event: Event, *, end: Position, at_us: int) -> Recorded:
    """*event* as read back from a log."""
    spawns = isinstance(event, AgentSpawned | WorkSpawned)
    stored = msgspec.msgpack.encode(event)
    return Recorded(
        position=position,
        end=end,
        at_us=at_us,
        actor=position if spawns else actor,
        cause=0,
        topic=type(event).__name__,
        event=msgspec.msgpack.decode(stored, type=type(event)),
    )


def response(by: ActorId, *parts: Part, stop: str = "answer", usage: Usage | None = None) -> ResponseSettled:
    """A settled response of the model "m"."""
    info = msgspec.convert({"stop": stop, "model": "m", "usage": usage}, ResponseInfo)
    return ResponseSettled(by=by, info=info, parts=parts)


def tool_spawned(generation: ActorId, entry: EntryId, spec: CallSpec, agent: ActorId = ROOT) -> WorkSpawned:
    """The birth of the actor of one call."""
    born = ToolInput(entry=entry, index=spec.index, name=spec.name)
    return WorkSpawned(kind=TOOL, agent=agent, owner=generation, input=msgspec.msgpack.encode(born))


def result(
    entry: EntryId, index: int, name: str, *, code: str | None = None, usage: Usage | None = None
) -> ToolResultSettled:
    """A tool's own result, or one that the runtime gave for the reason *code*."""
    remarks = [] if code is None else [{"level": "warn", "code": code, "text": "because"}]
    return ToolResultSettled(
        call=CallRef(entry=entry, index=index),
        name=name,
        by=0,
        own=code is None,
        content=(Text(text="result"),),
        diagnostics=tuple(msgspec.convert(remarks, list[Diagnostic])),
        usage=usage,
    )

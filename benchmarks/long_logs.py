"""Long logs, made fast: the deciders decide, and what they decide goes straight into the store."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from pi_actors.actors.agent.messages import EntryDraft, Submit, SubmitWrite
from pi_actors.actors.custom.messages import Advance
from pi_actors.actors.generation.messages import KIND as GENERATION
from pi_actors.actors.generation.messages import ReceiveResponse
from pi_actors.actors.topics import index_of
from pi_actors.core.catalog import Catalog
from pi_actors.core.commit import Circumstances, Settled, run_to_rest, spawn_agent
from pi_actors.core.decider import Send, Spawned, SpawnWork
from pi_actors.core.ids import ROOT, ActorId
from pi_actors.core.lifecycle import AgentSpawned, WorkSpawned
from pi_actors.core.messages import Text, user_message
from pi_actors.core.record import Recorded
from pi_actors.core.settings import Settings
from pi_actors.core.state import EMPTY
from pi_actors.runtime.live import CODEC, KINDS
from pi_actors.runtime.opening import STATE
from pi_actors.runtime.store import TOPICS
from pi_actors.storage.codec import encode_row
from pi_actors.storage.log import Batch, Snapshot
from pi_actors.storage.opening import open_log

SESSION: Final = "main"
WAITING: Final = "bench.waiting"
"""The kind of the actors that wait for a far deadline; their state is empty."""

FAR_US: Final = 221_845_392_000_000_000
TURNS_A_CONTEXT: Final = 50
COMMITS_AT_ONCE: Final = 500
GIVEN: Final = Circumstances(
    now_us=1_767_225_600_000_000,
    chance=0.5,
    settings=Settings(),
    catalog=Catalog(models=frozenset({"scripted"}), default_model="scripted"),
    kinds=KINDS,
)
QUESTION: Final = Submit(messages=(user_message("What is next? " * 8),))
ANSWER: Final = ReceiveResponse(parts=(Text(text="This comes next. " * 8),), stop="stop")
RESET: Final = SubmitWrite(entry=EntryDraft(kind="pi.reset", head_self=True))
NOTE: Final = SubmitWrite(entry=EntryDraft(kind="note", messages=(user_message("A note to keep. " * 8),)))


def make_conversation(store: Path, *, events: int, live: int, tail: int) -> None:
    """A session of about *events* events, with *live* actors that wait, and contexts that stay small.

    It looks as if its process had died *tail* events after its newest snapshot.
    """
    with LongLog(store) as log:
        for _ in range(live):
            log.wait_for_ever()
        while True:
            for _ in range(TURNS_A_CONTEXT):
                if not log.has_snapshot and log.position >= events - tail:
                    log.take_snapshot()
                if log.position >= events:
                    return
                log.take_turn()
            log.commit(Send(ROOT, RESET))


def make_crowd(store: Path, *, agents: int, entries: int) -> None:
    """A session of idle agents, each with a context of *entries* entries."""
    with LongLog(store) as log:
        for _ in range(agents):
            agent = log.spawn_agent()
            log.commit(*[Send(agent, NOTE)] * entries)


class LongLog:
    """A session that grows by commits, many in a transaction."""

    def __init__(self, store: Path) -> None:
        self.has_snapshot = False
        self._log = open_log(store, durability="process")
        self._epoch = self._log.claim(SESSION, now_us=GIVEN.now_us).epoch
        self._state = EMPTY
        self._batches: list[Batch] = []
        self._keep(spawn_agent(EMPTY, AgentSpawned(session_uuid="of-a-benchmark"), GIVEN))

    def __enter__(self) -> "LongLog":
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self._store()
        self._log.close()

    @property
    def position(self) -> int:
        return self._state.position

    def spawn_agent(self) -> ActorId:
        """An agent that nobody owns."""
        self._keep(spawn_agent(self._state, AgentSpawned(), GIVEN))
        return self.position

    def wait_for_ever(self) -> None:
        """A live actor that waits for a far deadline."""
        born = self.commit(Send(ROOT, SpawnWork(name="", kind=WAITING, version=1, input=b"{}")))
        assert isinstance(born.reply, Spawned), born
        id = born.reply.id
        self.commit(Send(id, Advance(after=id, state=b"{}", version=1, due_us=FAR_US)))

    def take_turn(self) -> None:
        """A question and its answer."""
        (turn,) = _turns(self.commit(Send(ROOT, QUESTION)))
        self.commit(Send(turn, ANSWER))

    def take_snapshot(self) -> None:
        """Keep a snapshot of the state as it is."""
        self._store()
        snapshot = Snapshot(STATE, self.position, CODEC.pack(self._state))
        assert self._log.save_snapshot(SESSION, self._epoch, snapshot)
        self.has_snapshot = True

    def commit(self, *commands: Send) -> Settled:
        """What the deciders make of *commands*."""
        settled = run_to_rest(self._state, commands, GIVEN)
        self._keep(settled)
        return settled

    def _keep(self, settled: Settled) -> None:
        end = settled.state.position
        events = [
            Recorded(
                position=draft.position,
                end=end,
                at_us=GIVEN.now_us,
                actor=draft.actor,
                cause=draft.cause,
                topic=TOPICS.topic_of(draft.event),
                event=draft.event,
            )
            for draft in settled.drafts
        ]
        batch = Batch(
            session=SESSION,
            epoch=self._epoch,
            after=self.position,
            rows=[encode_row(SESSION, event, TOPICS) for event in events],
            index=index_of(events),
            live=settled.state.busy_agents > 0,
            at_us=GIVEN.now_us,
        )
        self._batches.append(batch)
        self._state = settled.state
        if len(self._batches) >= COMMITS_AT_ONCE:
            self._store()

    def _store(self) -> None:
        batches, self._batches = self._batches, []
        assert not any(self._log.append(batches))


def _turns(settled: Settled) -> Iterator[ActorId]:
    for draft in settled.drafts:
        if isinstance(draft.event, WorkSpawned) and draft.event.kind == GENERATION:
            yield draft.position

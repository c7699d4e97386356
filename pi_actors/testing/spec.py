"""Given these events, when this command, then those events: a test of one decider.

    given(TOOL, WRITE_CALL, [ToolStarted(replay="never")]).when(Recover()).then(
        messages=[Send(ROOT, SettleCall(result=interrupted))],
        finish=Outcome(status="interrupted"),
    )

Every event, command and message goes through msgpack by its own type on the way. The decision must
be the same when made twice, what it decides must fit the actor's state, and ``evolve`` must not
raise for any event of the story, wherever it comes.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from pi_actors.core.catalog import Catalog
from pi_actors.core.decider import At, Birth, Command, Decision, Effect, Event, Kind, Quarantined, Send
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import ROOT, ActorId, Position
from pi_actors.core.lifecycle import AgentSpawned, Outcome, WorkSpawned
from pi_actors.core.settings import Settings

S = TypeVar("S")
M = TypeVar("M", bound=msgspec.Struct)

Told: TypeAlias = Event | tuple[Position, Event]
"""An event at the next position, or at this one."""

NOW_US: Final = 1_767_225_600_000_000
"""2026-01-01 00:00 UTC, when every decision is made unless it says otherwise."""

WORK: Final[ActorId] = 5
"""The id of the actor under test, where it is no agent: the first turn of a new session has it."""

NO_CATALOG: Final = Catalog()

_NEXT: Final[Position] = 0


def at(
    *,
    now_us: int = NOW_US,
    chance: float = 0.5,
    marked: bool = False,
    settings: Settings = Settings(),
    catalog: Catalog = NO_CATALOG,
) -> At:
    """The circumstances of a decision; its position follows from the story."""
    return At(now_us=now_us, chance=chance, position=_NEXT, marked=marked, settings=settings, catalog=catalog)


def given(
    kind: Kind[S],
    birth: AgentSpawned | WorkSpawned,
    events: Sequence[Told] = (),
    *,
    id: ActorId | None = None,
) -> "Given[S]":
    """An actor of *kind* that was born with *birth* and has met *events*.

    *id*: where it was born, 1 for an agent and 5 for a work actor unless told. Events follow from
    there on, or stand at the positions that are given with them.
    """
    is_agent = isinstance(birth, AgentSpawned)
    id = id or (ROOT if is_agent else WORK)
    agent = id if isinstance(birth, AgentSpawned) else birth.agent
    born = Birth(id=id, agent=agent, owner=birth.owner, event=through_msgpack(birth))
    story = Given(kind, born, kind.initial(born), id, ())
    for told in events:
        position, event = told if isinstance(told, tuple) else (story.position + 1, told)
        story = story.met(position, event)
    return story


class Given(Generic[S]):
    """An actor in a state. Nothing of it changes: each step returns a new one.

    ``story``: the events it has met. ``position``: of the last one.
    """

    def __init__(
        self, kind: Kind[S], birth: Birth, state: S, position: Position, story: tuple[Event, ...]
    ) -> None:
        self.kind = kind
        self.birth = birth
        self.state = state
        self.position = position
        self.story = story

    def met(self, position: Position, event: Event) -> "Given[S]":
        """The actor after *event* at *position*, which must fit its state."""
        assert position > self.position, f"{event} at {position} is not after {self.position}"
        read = through_msgpack(event)
        state = self.kind.evolve(self.state, position, read)
        assert not isinstance(state, Quarantined), f"{event} at {position} does not fit {self.state}"
        return Given(self.kind, self.birth, state, position, (*self.story, read))

    def when(self, command: Command, at: At | None = None) -> "When[S]":
        """Let the actor decide *command*; *at* is made by the function of that name."""
        return When(self, through_msgpack(command), at or _HERE)

    def then_owed(self, *effects: Effect) -> "Given[S]":
        """The actor owes exactly *effects*."""
        owed = self.kind.owed(self.state)
        assert owed == effects, f"owed: {owed}, not {effects}"
        assert {*owed} == {*effects}, "effects are told apart by their hashes"
        return self


class When(Generic[S]):
    """A decision about to be looked at."""

    def __init__(self, before: Given[S], command: Command, at: At) -> None:
        self._before = before
        self._command = command
        self._at = at if at.position != _NEXT else msgspec.structs.replace(at, position=before.position + 1)

    def then(
        self,
        events: Sequence[Event] = (),
        messages: Sequence[Send] = (),
        *,
        finish: Outcome | None = None,
        abort_below: bool = False,
        reply: msgspec.Struct | None = None,
    ) -> Given[S]:
        """The decision is exactly this; a reply is looked at only if one is named.

        Returns the actor after it, for the next step of the story.
        """
        decision = self.decision()
        assert decision.events == tuple(events), f"events: {decision.events}"
        assert decision.messages == tuple(messages), f"messages: {decision.messages}"
        assert decision.finish == finish, f"finish: {decision.finish}"
        assert decision.abort_below == abort_below, f"abort_below: {decision.abort_below}"
        assert reply is None or decision.reply == reply, f"reply: {decision.reply}"
        return self._after(decision)

    def then_nothing(self) -> Given[S]:
        """Nothing follows from the command."""
        return self.then()

    def then_refused(self, text: str, error: type[CommandRefused] = CommandRefused) -> Given[S]:
        """The command is refused with *error*, whose message has *text*; nothing else happens."""
        try:
            decision = self._decide()
        except CommandRefused as refused:
            assert type(refused) is error, f"refused with {type(refused).__name__}: {refused}"
            assert text in str(refused), f"refused: {refused}"
            return self._before
        raise AssertionError(f"not refused: {decision}")

    def decision(self) -> Decision:
        """The decision itself, checked, for what ``then`` cannot say."""
        decision = self._decide()
        assert self._decide() == decision, "the same command in the same state was decided differently"
        for message in decision.messages:
            through_msgpack(message.command)
        self._after(decision)
        return decision

    def _decide(self) -> Decision:
        return self._before.kind.decide(self._before.state, self._command, self._at)

    def _after(self, decision: Decision) -> Given[S]:
        """The actor after its own events; the births among them are other actors'."""
        story = self._before
        for place, event in enumerate(decision.events):
            if not isinstance(event, AgentSpawned | WorkSpawned):
                story = story.met(self._at.position + place, event)
        _demand_total(story)
        return story


def through_msgpack(message: M) -> M:
    """*message* as it is read back after having been written; it must be the same."""
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))
    assert read == message, f"{message} reads back as {read}"
    return read


def _demand_total(story: Given[S]) -> None:
    """``evolve`` and ``owed`` take every event of the story, also where it is impossible."""
    kind, states = story.kind, [story.kind.initial(story.birth), story.state]
    for event in (story.birth.event, *story.story):
        for state in states:
            evolved = kind.evolve(state, story.position + 1, event)
            if not isinstance(evolved, Quarantined):
                kind.owed(evolved)


_HERE: Final = at()

"""Given a session, when this command reaches an actor, then all that follows: a test of a cascade.

    given_session(catalog=catalog).when(ROOT, Submit(messages=(user_message("hi"),))).then_events(
        "SubmissionPlaced", "EntryAppended", "RunStarted", "WorkSpawned", "RequestStarted"
    )

Every commit is written as rows and read back, and must keep the promises that logs keep.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from pi_actors.core.catalog import Catalog
from pi_actors.core.commit import Circumstances, Settled, run_to_rest, spawn_agent
from pi_actors.core.decider import Command, Effect, Event, Send
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import ActorId, Position
from pi_actors.core.ledger import Drafted
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.record import Recorded
from pi_actors.core.settings import Settings
from pi_actors.core.state import EMPTY, Actor, SessionState, evolve, owed
from pi_actors.runtime.live import KINDS
from pi_actors.runtime.store import TOPICS
from pi_actors.storage.codec import decode_row, encode_row
from pi_actors.testing.checkers import broken_promises
from pi_actors.testing.spec import NO_CATALOG, NOW_US, through_msgpack

SECOND_US: Final = 1_000_000
_SESSION: Final = "main"

Fact: TypeAlias = tuple[ActorId, Event]


def given_session(
    *, catalog: Catalog = NO_CATALOG, settings: Settings = Settings(), chance: float = 0.5
) -> "GivenSession":
    """A new session with its root agent, in a process with *catalog*."""
    given = Circumstances(now_us=NOW_US, chance=chance, settings=settings, catalog=catalog, kinds=KINDS)
    born = spawn_agent(EMPTY, AgentSpawned(session_uuid="a-session"), given)
    return _committed(GivenSession(EMPTY, given, ()), born)


class GivenSession:
    """A session at rest. Nothing of it changes: each step returns a new one.

    ``log``: everything stored so far. ``state``: what it folds to. ``given``: the circumstances of
    the commit that came last.
    """

    def __init__(self, state: SessionState, given: Circumstances, log: tuple[Recorded, ...]) -> None:
        self.state = state
        self.log = log
        self.given = given

    def when(self, to: ActorId, command: Command, *more: Send, later_us: int = SECOND_US) -> "WhenSession":
        """Let actor *to* decide *command* (and *more* in the same commit), *later_us* after the last."""
        now_us = self.given.now_us + later_us
        commands = (Send(to, command), *more)
        return WhenSession(self, commands, msgspec.structs.replace(self.given, now_us=now_us))

    def with_catalog(self, catalog: Catalog) -> "GivenSession":
        """The same session in a process with *catalog*."""
        return GivenSession(self.state, msgspec.structs.replace(self.given, catalog=catalog), self.log)

    def newest(self, kind: str) -> Actor:
        """The live actor of *kind* that was spawned last."""
        live = [actor for actor in self.state.actors.values() if actor.kind == kind and not actor.ended]
        assert live, f"no {kind} is live"
        return max(live, key=lambda actor: actor.id)

    def owed(self) -> Mapping[ActorId, Sequence[Effect]]:
        """What every actor owes that owes something."""
        found = {actor.id: owed(actor, KINDS) for actor in self.state.actors.values()}
        return {id: effects for id, effects in sorted(found.items()) if effects}


class WhenSession:
    """A commit about to be looked at."""

    def __init__(self, before: GivenSession, commands: Sequence[Send], given: Circumstances) -> None:
        self._before = before
        self._commands = [Send(send.to, through_msgpack(send.command)) for send in commands]
        self._given = given

    def then(self, *facts: Fact) -> GivenSession:
        """The commit consists of exactly these (actor, event) pairs."""
        after = self.done()
        found = [(each.actor, each.event) for each in self._new(after)]
        assert found == list(facts), f"the commit is {found}"
        return after

    def then_events(self, *topics: str) -> GivenSession:
        """The commit consists of events of exactly these topics, in order."""
        after = self.done()
        found = [each.topic for each in self._new(after)]
        assert found == list(topics), f"the commit is {found}"
        return after

    def then_nothing(self) -> GivenSession:
        """Nothing is stored."""
        return self.then()

    def then_refused(self, text: str, error: type[CommandRefused] = CommandRefused) -> GivenSession:
        """The command is refused with *error*, whose message has *text*; nothing is stored."""
        try:
            settled = self._settle()
        except CommandRefused as refused:
            assert type(refused) is error, f"refused with {type(refused).__name__}: {refused}"
            assert text in str(refused), f"refused: {refused}"
            return self._before
        raise AssertionError(f"not refused: {settled.drafts}")

    def reply(self) -> msgspec.Struct | None:
        """What the caller is answered."""
        return self._settle().reply

    def done(self) -> GivenSession:
        """The session after the commit, checked, whatever the commit was."""
        return _committed(GivenSession(self._before.state, self._given, self._before.log), self._settle())

    def _settle(self) -> Settled:
        return run_to_rest(self._before.state, self._commands, self._given)

    def _new(self, after: GivenSession) -> Sequence[Recorded]:
        return after.log[len(self._before.log) :]


def _committed(before: GivenSession, settled: Settled) -> GivenSession:
    """*before* with one more commit, which is written, read back and folded."""
    end = settled.state.position
    new = tuple(_through_the_log(_recorded(draft, end, before)) for draft in settled.drafts)
    state = before.state
    for each in new:
        state = evolve(
            state, KINDS, position=each.position, at_us=each.at_us, actor=each.actor, event=each.event
        )
    assert state == settled.state, f"the commit folds to {state}, the deciders had {settled.state}"
    log = (*before.log, *new)
    assert broken_promises(log) == []
    return GivenSession(state, before.given, log)


def _recorded(draft: Drafted, end: Position, before: GivenSession) -> Recorded:
    return Recorded(
        position=draft.position,
        end=end,
        at_us=max(before.given.now_us, before.state.at_us),
        actor=draft.actor,
        cause=draft.cause,
        topic=TOPICS.topic_of(draft.event),
        event=draft.event,
    )


def _through_the_log(recorded: Recorded) -> Recorded:
    """*recorded* as it is read back after having been stored; it must be the same."""
    read = decode_row(_SESSION, encode_row(_SESSION, recorded, TOPICS), TOPICS)
    assert read == recorded, f"{recorded} reads back as {read}"
    return read

"""The shape of an actor kind: a value and pure functions.

``decide`` refuses, ``evolve`` never does: what it is given has happened. ``owed`` computes from
the state what the shell must be doing now, so a fresh start and a recovery are the same code.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from pi_actors.core.catalog import Catalog
from pi_actors.core.ids import ActorId, EntryId, Position
from pi_actors.core.lifecycle import AgentSpawned, Choices, Outcome, WorkSpawned
from pi_actors.core.settings import Settings

Event: TypeAlias = msgspec.Struct
Command: TypeAlias = msgspec.Struct
Effect: TypeAlias = msgspec.Struct

S = TypeVar("S")


class At(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The circumstances of one decision. Time and chance come in here and nowhere else.

    ``now_us``: UTC microseconds, never decreasing within a session. ``chance``: in [0, 1).
    ``position``: what the first event of this decision will get. ``marked``: the deciding actor
    must stop: it may record what was reported to it, but start nothing.
    """

    now_us: int
    chance: float
    position: Position
    marked: bool = False
    settings: Settings
    catalog: Catalog


class Send(msgspec.Struct, frozen=True, gc=False):
    """A message to another actor, delivered in the same commit. It cannot be refused."""

    to: ActorId
    command: Command


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What a decider wants to be true.

    ``events`` are the deciding actor's own; a WorkSpawned or AgentSpawned among them is the birth
    of a new actor, whose id is its position: ``at.position`` plus its place. ``finish`` ends the
    deciding actor after its messages were delivered, or holds the outcome while ordinary work
    lives below it; a decision that finishes its actor must not give it new work. ``abort_below``
    marks everything ordinary below the deciding actor, with ``abort_background`` also what is
    below boundaries and exists now.
    ``reply`` answers a caller; it is stored nowhere.
    """

    events: tuple[Event, ...] = ()
    messages: tuple[Send, ...] = ()
    finish: Outcome | None = None
    abort_below: bool = False
    abort_background: bool = False
    reply: msgspec.Struct | None = None


NOTHING = Decision()


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an actor that has met an event it cannot have had. It only takes an abort."""

    position: Position
    event: str


class Passive(msgspec.Struct, frozen=True, kw_only=True):
    """Stands in for the state and the memos of an idle agent that gave up its memory.

    No event makes it, so no fold has it: whoever keeps the state puts it there, and puts back what
    the agent was as of ``position`` before the agent decides or evolves again. ``last_step``, ``model``
    (the chosen one) and ``forked`` (from which agent, at which entry) are what others ask of it
    without waking it.
    """

    position: Position
    last_step: Position
    model: str | None
    forked: tuple[ActorId, EntryId] | None = None


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """Who a new actor is. ``agent`` is the agent it works for; an agent's own id for agents."""

    id: ActorId
    agent: ActorId
    owner: ActorId
    event: AgentSpawned | WorkSpawned


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """From the kernel to the direct owner (or the agent): *actor* is terminal."""

    actor: ActorId
    kind: str
    outcome: Outcome


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    """From the kernel to the nearest live owner: the last of what lived below has ended.

    It comes when all other messages of the commit are delivered, so an agent below that goes on
    with its next run at once has not drained.
    """


class AbortedAbove(msgspec.Struct, frozen=True, kw_only=True):
    """From the kernel to an agent below an abort: what is queued here will not be wanted."""


class Abort(msgspec.Struct, frozen=True, kw_only=True):
    """From the shell to a marked actor: its handlers have ended and all below it is terminal.

    ``still_running``: a handler could not be cancelled in time and may go on by itself.
    """

    still_running: bool = False


class AbortWork(msgspec.Struct, frozen=True, kw_only=True):
    """The effect a marked actor owes once all below it is terminal: stop, then report Abort."""


class WaitOver(msgspec.Struct, frozen=True, kw_only=True):
    """From the kernel: all that the actor waited for is terminal; outcomes in the order of its list."""

    outcomes: tuple[Outcome, ...]


class WriteMemo(msgspec.Struct, frozen=True, kw_only=True):
    """To the kernel, from an actor's code: remember this unless the name has a value. Answers Memo."""

    name: str
    value: bytes


class Memo(msgspec.Struct, frozen=True, kw_only=True):
    """The value that a name has, for good."""

    value: bytes


class SpawnWork(msgspec.Struct, frozen=True, kw_only=True):
    """To the kernel, from an actor's code or a caller: a work actor below the addressed actor.

    The memo ``name`` makes it safe to repeat: an actor that was spawned under it is found again.
    Without a name ("") it is not to be found again and costs no memo. Answers Spawned.
    """

    name: str
    kind: str
    version: int
    input: bytes
    background: bool = False


class SpawnAgent(msgspec.Struct, frozen=True, kw_only=True):
    """To the kernel, from an actor's code: an agent owned by it, found again as with SpawnWork."""

    name: str
    choices: Choices


class Spawned(msgspec.Struct, frozen=True, kw_only=True):
    """Answers SpawnWork and SpawnAgent; ``is_new``: it was not there before."""

    id: ActorId
    is_new: bool


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """From a caller: this work actor and everything ordinary below it must stop.

    The kernel carries it out, so it reaches completing and blocked actors too.
    """


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """From the shell to a marked actor whose code this process does not have: give it up."""

    detail: str


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """From the supervisor: the actor's code broke. The kernel ends the actor; no decider sees this."""

    detail: str


class Recover(msgspec.Struct, frozen=True, kw_only=True):
    """From an agent to the work found unfinished when a process opened the session."""


class Kind(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """An actor kind. All functions are synchronous and pure.

    ``states``: the types that its states have. ``version`` rises whenever they, or what ``evolve``
    makes of an event, change: snapshots of another version are not used.
    """

    name: str
    version: int = 1
    states: tuple[type[msgspec.Struct], ...] = ()
    initial: Callable[[Birth], S]
    decide: Callable[[S, Any, At], Decision]
    evolve: Callable[[S, Position, Any], S | Quarantined]
    owed: Callable[[S], tuple[Effect, ...]]

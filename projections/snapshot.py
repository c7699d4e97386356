"""The folded state of a session as a snapshot, and back, for the versions of the folds that made it.

A snapshot of other versions, of another session, or that does not decode, is none: whoever finds it
folds the log instead and comes to the same state.
"""

from functools import cache
from typing import Final, NamedTuple

import immutables
import msgspec

from pi_actors.core.ids import ActorId
from pi_actors.storage.codec import Topics
from pi_actors.storage.labels import Versions, known_events, labelled, unlabelled
from pi_actors.storage.log import Snapshot
from pi_actors.storage.packing import Unpacker, pack
from projections.agent import AGENT
from projections.inbox import INBOX
from projections.live import LIVE
from projections.provider import PROVIDER
from projections.session import VERSION, AgentState, FoldedState
from projections.transcript import TRANSCRIPT
from projections.tree import TREE
from projections.usage import USAGE

NAME: Final = "documents"
"""Under which these snapshots are kept."""

FOLDS: Final = (LIVE, INBOX, USAGE, AGENT, PROVIDER, TRANSCRIPT, TREE)
"""What the state consists of."""

FORMAT: Final = 1
"""How a state is packed: what stands in ``_Body``."""


def snapshot_of(state: FoldedState, topics: Topics) -> Snapshot | None:
    """*state* as a snapshot; None where something in it is too large a number or nested too deep for that.

    *topics*: what was understood of the log. It takes a while, in small steps: other threads go on.
    """
    try:
        folds = tuple([(id, msgspec.Raw(pack(agent))) for id, agent in state.folds.items()])
        rest = pack(msgspec.structs.replace(state, folds=_NO_FOLDS))
        body = labelled(pack(_Body(msgspec.Raw(rest), folds)), _versions(topics), state.uuid)
    except (OverflowError, RecursionError):
        return None
    return Snapshot(NAME, state.position, body)


def fits(snapshot: Snapshot, topics: Topics, uuid: str) -> bool:
    """Whether the snapshot says that it is of the session *uuid* and of these versions; that is soon told."""
    return unlabelled(snapshot.body, _versions(topics), uuid) is not None


def state_of(snapshot: Snapshot, topics: Topics, uuid: str) -> FoldedState | None:
    """The state that the snapshot holds; None where it is of no use for the session *uuid*."""
    packed = unlabelled(snapshot.body, _versions(topics), uuid)
    if packed is None:
        return None
    try:
        body = _of_body()(packed)
        state = _of_state()(body.rest)
        folds = {id: _of_agent()(agent) for id, agent in body.folds}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    state = msgspec.structs.replace(state, folds=immutables.Map(folds))
    return state if (state.position, state.uuid) == (snapshot.position, uuid) else None


class _Body(NamedTuple):
    """The state but for its agents, and these."""

    rest: msgspec.Raw
    folds: tuple[tuple[ActorId, msgspec.Raw], ...]


def _versions(topics: Topics) -> Versions:
    """Of all that has a say in what the state is: the folds, and which events are understood."""
    return {
        "format": FORMAT,
        "session": VERSION,
        "events": known_events(topics),
        **{fold.name: fold.version for fold in FOLDS},
    }


# Made when they are first needed, as it takes a few milliseconds.


@cache
def _of_body() -> Unpacker[_Body]:
    return Unpacker(_Body)


@cache
def _of_state() -> Unpacker[FoldedState]:
    return Unpacker(FoldedState)


@cache
def _of_agent() -> Unpacker[AgentState]:
    return Unpacker(AgentState)


_NO_FOLDS: Final["immutables.Map[ActorId, AgentState]"] = immutables.Map()

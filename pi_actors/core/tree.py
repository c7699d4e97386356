"""Walks through the ownership tree of a session's state."""

from collections.abc import Collection, Iterator, Mapping

from pi_actors.core.ids import ActorId
from pi_actors.core.state import Actor, SessionState


def below(session: SessionState, actor: ActorId, *, background: bool = False) -> Iterator[Actor]:
    """Everything ordinary below *actor*, parents first, through terminal owners too.

    *background*: also background work and what is below it.
    """
    waiting = [actor]
    while waiting:
        for child in session.children.get(waiting.pop(), ()):
            node = session.actors[child]
            if background or not node.background:
                yield node
                waiting.append(child)


def above(session: SessionState, actor: Actor) -> Iterator[Actor]:
    """The actors above *actor* on the ordinary path, nearest first, up to a background boundary."""
    node: Actor | None = actor
    while node is not None and not node.background:
        node = session.actors.get(node.parent)
        if node is not None:
            yield node


def is_cancelled(actor: Actor) -> bool:
    """Whether a live actor's mark or held outcome asks everything ordinary below it to stop."""
    return actor.live and (actor.marked or (actor.held is not None and actor.held.status != "completed"))


def would_wait_in_a_circle(
    session: SessionState,
    waiter: ActorId,
    on: ActorId,
    others: Mapping[ActorId, Collection[ActorId]] = {},
) -> bool:
    """Whether *on* can only end after *waiter*: it is the waiter, owns it, or waits for one that does.

    *others*: who waits for whom just now besides the waits that are stored.
    """
    seen: set[ActorId] = set()
    needing = [waiter]
    while needing:
        id = needing.pop()
        if id == on:
            return True
        actor = session.actors.get(id)
        if actor is not None and id not in seen:
            seen.add(id)
            needing.append(actor.parent)
            needing.extend(session.waiters.get(id, ()))
            needing.extend(other for other, targets in others.items() if id in targets)
    return False

"""The rules of ownership told a second time, simply: every question walks over everything.

No index, no counts, no events. What the kernel answers from its counts must be what this finds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pi_actors.core.ids import NOBODY, ActorId
from pi_actors.core.lifecycle import Outcome

Status: TypeAlias = Literal["completed", "failed", "aborted", "interrupted", "faulted", "orphaned"]
NewGeneration: TypeAlias = Callable[[ActorId], ActorId]
"""The id of the turn that an agent has just started."""


Resumed: TypeAlias = tuple[ActorId, tuple[Status, ...]]
"""Whose wait is over, and the outcomes in the order of its list."""


class Refused(Exception):
    """A rule forbids it."""


@dataclass
class Wait:
    """Whom a work actor waits for."""

    on: tuple[ActorId, ...]
    fail_fast: bool


@dataclass
class Node:
    """An agent (``is_agent``) or a work actor."""

    id: ActorId
    agent: ActorId
    parent: ActorId
    is_agent: bool = False
    background: bool = False
    ended: Status | None = None
    held: Status | None = None
    marked: bool = False
    wait: Wait | None = None
    run: ActorId | None = None
    queue: int = 0
    inbox_held: bool = False

    @property
    def live(self) -> bool:
        """A work actor that has not ended."""
        return not self.is_agent and self.ended is None

    @property
    def cancelled(self) -> bool:
        """Asks everything ordinary below to stop."""
        return self.live and (self.marked or self.held not in (None, "completed"))


@dataclass
class Reference:
    """A session. ``resumed``: whose wait was over since that was last emptied, with the outcomes."""

    new_generation: NewGeneration
    nodes: dict[ActorId, Node] = field(default_factory=dict[ActorId, Node])
    resumed: list[Resumed] = field(default_factory=list[Resumed])

    # Looking.

    def children(self, id: ActorId) -> Iterator[Node]:
        """What belongs to it directly."""
        return (node for node in list(self.nodes.values()) if node.parent == id)

    def below(self, id: ActorId, *, across: bool = False) -> Iterator[Node]:
        """Everything ordinary below; *across* boundaries, if asked."""
        for child in self.children(id):
            if across or not child.background:
                yield child
                yield from self.below(child.id, across=across)

    def drained(self, id: ActorId) -> bool:
        """Nothing ordinary lives below."""
        return not any(node.live for node in self.below(id))

    def above(self, node: Node) -> Iterator[Node]:
        """Whom it is ordinary work of, nearest first."""
        while not node.background and node.parent != NOBODY:
            node = self.nodes[node.parent]
            yield node

    def busy_agents(self) -> int:
        """Ownerless agents that are not idle."""
        roots = [node for node in self.nodes.values() if node.is_agent and node.parent == NOBODY]
        return sum(not self.drained(root.id) for root in roots)

    def to_abort(self) -> set[ActorId]:
        """Whose abort step may run now: marked, undecided, and nothing ordinary lives below."""
        live = [node for node in self.nodes.values() if node.live]
        return {node.id for node in live if node.marked and node.held is None and self.drained(node.id)}

    def boundaries(self) -> set[ActorId]:
        """Agents that owe their inbox a look."""
        agents = [node for node in self.nodes.values() if node.is_agent]
        return {a.id for a in agents if a.run is None and a.queue and not a.inbox_held}

    def needs(self, id: ActorId, other: ActorId, seen: frozenset[ActorId] = frozenset()) -> bool:
        """Whether *id* is *other*, owns it, waits for it, or needs one that does."""
        if id == other:
            return True
        node = self.nodes[id]
        on = node.wait.on if node.wait is not None else ()
        nexts = [*(child.id for child in self.children(id)), *on]
        return any(self.needs(each, other, seen | {id}) for each in nexts if each not in seen)

    # Being born.

    def spawn_agent(self, id: ActorId, owner: ActorId) -> None:
        """An agent, of nobody or of a work actor."""
        self.check_owner(owner)
        self.nodes[id] = Node(id, id, owner, is_agent=True)

    def spawn_work(self, id: ActorId, agent: ActorId, owner: ActorId, *, background: bool = False) -> None:
        """A work actor of an agent, or of its work actor *owner*."""
        self.check_owner(owner, background=background)
        node = Node(id, agent, owner or agent, background=background)
        self.nodes[id] = node
        node.marked = any(each.cancelled for each in self.above(node))

    def check_owner(self, owner: ActorId, *, background: bool = False) -> None:
        """New work needs a live owner that may go on; only an agent's own may be background."""
        if owner == NOBODY:
            return
        node = self.nodes[owner]
        if not node.live or node.held is not None or node.marked or background:
            raise Refused

    # Waiting.

    def check_wait(self, id: ActorId, wait: Wait) -> None:
        """Not in a circle; fail_fast only for what it owns."""
        for target in wait.on:
            if self.nodes[target].live and wait.fail_fast and self.nodes[target].parent != id:
                raise Refused
            if self.nodes[target].live and self.needs(target, id):
                raise Refused

    def start_wait(self, id: ActorId, wait: Wait) -> None:
        """Wait, or go on at once; what has failed already fails fast."""
        self.nodes[id].wait = wait
        self._resume()
        if self.nodes[id].wait is not None and any(self._failing(target) for target in wait.on):
            self._fail_fast(wait)

    def _failing(self, id: ActorId) -> bool:
        node = self.nodes[id]
        return (node.ended or node.held) not in (None, "completed")

    def _fail_fast(self, wait: Wait) -> None:
        for target in wait.on if wait.fail_fast else ():
            node = self.nodes[target]
            if node.live and not self._failing(target):
                self.mark(node)

    def _resume(self) -> None:
        for node in self.nodes.values():
            if node.wait is not None and node.held is None:
                on: list[Status | None] = [self.nodes[target].ended for target in node.wait.on]
                ends: list[Status] = [end for end in on if end is not None]
                if len(ends) == len(on):
                    node.wait = None
                    self.resumed.append((node.id, tuple(ends)))

    # Stopping and ending.

    def mark(self, node: Node) -> None:
        """It must stop, and everything ordinary below it."""
        if node.live and not node.marked:
            node.marked = True
            self.cancel_below(node.id)

    def cancel_below(self, id: ActorId, *, across: bool = False) -> None:
        """Mark what lives below and withdraw the queued inputs of agents below."""
        for node in list(self.below(id, across=across)):
            node.marked = node.marked or node.live
            node.queue = 0

    def abort_agent(self, id: ActorId, *, background: bool) -> None:
        """Withdraw its queued inputs and stop what is below."""
        self.nodes[id].queue = 0
        self.cancel_below(id, across=background)

    def finish(self, id: ActorId, status: Status) -> None:
        """End, or hold the outcome until nothing ordinary lives below."""
        node = self.nodes[id]
        if not node.live or node.held is not None:
            return
        if self.drained(id):
            self._end(node, status)
            return
        node.held = status
        if status != "completed":
            self.cancel_below(id)
            self._tell_fail_fast(id)

    def _end(self, node: Node, status: Status) -> None:
        node.ended, node.held, node.wait = status, None, None
        if status != "completed":
            self._tell_fail_fast(node.id)
        self._resume()
        if self.nodes[node.agent].run == node.id:
            self._run_ended(self.nodes[node.agent], status)
        for above in self.above(node):
            if not self.drained(above.id):
                return
            if above.held is not None:
                self._end(above, above.held)
                return

    def _tell_fail_fast(self, id: ActorId) -> None:
        for node in list(self.nodes.values()):
            if node.live and node.wait is not None and id in node.wait.on:
                self._fail_fast(node.wait)

    # Agents.

    def submit(self, id: ActorId) -> None:
        """Start a run, or queue behind what is there."""
        agent = self.nodes[id]
        agent.inbox_held = False
        if agent.run is None and not agent.queue:
            self._start_run(agent)
        else:
            agent.queue += 1

    def place(self, id: ActorId) -> None:
        """Look into the inbox: one item starts the next run."""
        agent = self.nodes[id]
        if agent.run is None and agent.queue and not agent.inbox_held:
            agent.queue -= 1
            self._start_run(agent)

    def _start_run(self, agent: Node) -> None:
        agent.run = self.new_generation(agent.id)
        self.spawn_work(agent.run, agent.id, NOBODY)

    def _run_ended(self, agent: Node, status: Status) -> None:
        agent.run = None
        agent.inbox_held = status == "failed"
        if status == "completed":
            self.place(agent.id)


def statuses(outcomes: Sequence[Outcome]) -> tuple[Status, ...]:
    """The outcomes as far as the rules tell them apart."""
    return tuple(outcome.status for outcome in outcomes)

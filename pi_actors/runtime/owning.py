"""What the code of a live work actor may remember and own: memos, actors, agents."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec
import trio

from pi_actors.actors.agent.state import AgentState
from pi_actors.core.decider import Mark, Memo, Send, SpawnAgent, Spawned, SpawnWork, WriteMemo
from pi_actors.core.errors import CommandRefused
from pi_actors.core.ids import ActorId
from pi_actors.core.ledger import spawn_key
from pi_actors.core.lifecycle import Outcome
from pi_actors.core.state import Actor, SessionState
from pi_actors.core.text import Json, clean_json
from pi_actors.runtime.choices import Choosable, choices_from
from pi_actors.runtime.errands import Errand
from pi_actors.runtime.shell import Shell, depth_of
from pi_actors.tools.context import AgentLimits

if TYPE_CHECKING:
    from pi_actors.session import Agent


class Owning:
    """For one errand's actor. Everything is found again by name when the errand runs again."""

    def __init__(self, shell: Shell, errand: Errand) -> None:
        self._shell = shell
        self._errand = errand

    async def memo(self, name: str, candidate: Json) -> Json:
        """The value first stored under *name*: *candidate*, unless there is one."""
        value = msgspec.json.encode(clean_json(candidate, f"the memo {name!r}"))
        committed = await self._errand.report(WriteMemo(name=f"memo:{name}", value=value))
        if not isinstance(committed.reply, Memo):
            raise CommandRefused("the actor has ended, so it cannot remember anything new")
        return msgspec.json.decode(committed.reply.value)

    async def spawn(self, born: SpawnWork) -> ActorId:
        """The actor spawned under this name, now or in an earlier run of the same actor."""
        self._shell.registry.check_kind(born.kind)
        committed = await self._errand.report(born)
        return _spawned(committed.reply)

    async def spawn_agent(self, name: str, choices: Mapping[str, object], limits: AgentLimits) -> "Agent":
        """The agent spawned under this name, with its owner's choices changed as asked."""
        shell = self._shell
        async with shell.spawning:
            mine = shell.agent_state(self._errand.agent).choices
            wanted = await choices_from(shell.registry, mine, cast(Mapping[str, Choosable], choices))
            spawn = SpawnAgent(name=name, choices=wanted)
            owner = shell.line.ahead.actors.get(self._errand.actor)
            if owner is not None and spawn_key(spawn) not in owner.memos:
                check_limits(shell.line.ahead, self._errand.agent, limits)
            committed = await self._errand.report(spawn)
        return shell.handles.agent(_spawned(committed.reply))

    async def wait(self, on: Sequence[ActorId], *, fail_fast: bool) -> tuple[Outcome, ...]:
        """The outcomes of *on*, in order. The wait itself is not stored; a rerun waits again.

        Raises:
            NotFound: one of them is no work actor of this session.
            CommandRefused: one waits for this actor or, with *fail_fast*, does not belong to it.
        """
        outcomes: dict[ActorId, Outcome] = {}

        async def wait_one(id: ActorId) -> None:
            outcomes[id] = await self._shell.handles.session().wait_actor(id)
            if fail_fast and outcomes[id].status != "completed":
                await self._shell.line.commit(*(Send(other, Mark()) for other in on if other not in outcomes))

        live = [id for id in dict.fromkeys(on) if self._may_wait(id, fail_fast=fail_fast)]
        for id in on:
            if id not in live:
                await wait_one(id)
        async with trio.open_nursery() as nursery:
            for id in live:
                nursery.start_soon(wait_one, id)
        return tuple(outcomes[id] for id in on)

    def _may_wait(self, id: ActorId, *, fail_fast: bool) -> bool:
        """Whether *id* is live, so that there is something to wait for. Raises where it must not be."""
        actor = self._shell.line.shown.actors.get(id)
        if actor is None or not actor.live:
            return False
        with self._shell.handles.session().waiting_for(id):
            pass  # refused here, and not in the nursery that waits for all of them
        if fail_fast and actor.parent != self._errand.actor:
            raise CommandRefused(
                f"actor {id} does not belong to this call, so it cannot be waited for fail_fast"
            )
        return True


def _spawned(reply: msgspec.Struct | None) -> ActorId:
    if not isinstance(reply, Spawned):
        raise CommandRefused("the actor is being stopped, so it cannot own anything new")
    return reply.id


def check_limits(state: SessionState, agent: ActorId, limits: AgentLimits) -> None:
    """Raise CommandRefused where one more agent below *agent* would exceed a limit."""
    depth = depth_of(state, agent)
    if limits.depth_max is not None and depth >= limits.depth_max:
        raise CommandRefused(f"agents may be nested {limits.depth_max} deep and this one is at {depth}")
    children = _children(state, agent)
    if limits.children_max is not None and len(children) >= limits.children_max:
        raise CommandRefused(f"this agent has spawned {len(children)} agents, the most it may")
    busy = sum(_is_at_work(state, child) for child in children)
    if limits.concurrent_max is not None and busy >= limits.concurrent_max:
        raise CommandRefused(f"{busy} agents of this one are at work, the most that may be; wait for one")


def _children(state: SessionState, agent: ActorId) -> list[Actor]:
    """The agents that the work of *agent* owns."""
    found: list[Actor] = []
    waiting = list(state.children.get(agent, ()))
    while waiting:
        node = state.actors[waiting.pop()]
        if node.is_agent:
            found.append(node)
        else:
            waiting.extend(state.children.get(node.id, ()))
    return found


def _is_at_work(state: SessionState, child: Actor) -> bool:
    """Busy, or about to be: its owner has just spawned it and will ask it next."""
    if child.busy or not isinstance(child.state, AgentState):
        return child.busy
    owner = state.actors.get(child.owner)
    is_new = child.state.last_step == 0 and owner is not None and owner.live
    return child.state.run is not None or is_new

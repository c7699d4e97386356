"""A handle to one agent: ask it, queue for it, look at it, stop it."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from pi_actors.actors.agent.messages import (
    AbortAgent,
    Compact,
    Configure,
    EntryDraft,
    ReleaseInbox,
    Submit,
    Submitted,
    SubmitWrite,
)
from pi_actors.actors.agent.state import AgentState
from pi_actors.core.commit import require
from pi_actors.core.decider import Command, Send, Spawned
from pi_actors.core.errors import CommandRefused, InvalidValue, Unanswered
from pi_actors.core.ids import ActorId, EntryId
from pi_actors.core.messages import Blob, Entry, Message, Text, Usage, user_message
from pi_actors.core.parts import clean_part
from pi_actors.core.text import Json, clean_json, clean_text
from pi_actors.runtime.choices import Choosable, choices_from
from pi_actors.runtime.commit_line import CommitLine
from pi_actors.runtime.work import ActorKind
from pi_actors.session.submission import Submission
from pi_actors.session.usage import run_usage
from pi_actors.session.values import Answer, checked_request_id
from projections.pacing import View

if TYPE_CHECKING:
    from pi_actors.session.session import Session

S = TypeVar("S")
Content = str | Sequence[Text | Blob]
"""What an input says: text, or parts of text and images."""

_RESERVED_KINDS = ("pi.",)


class Agent:
    """An agent, by its id. The root agent is ``session.root``."""

    def __init__(self, session: "Session", id: ActorId) -> None:
        self.id = id
        self._session = session

    def __repr__(self) -> str:
        return f"Agent({self.id})"

    async def ask(self, content: Content, *, request_id: str | None = None) -> Answer:
        """Submit an input and return its answer.

        Cancellation ends only the wait; ask again with the same request id to go on waiting.

        Raises:
            Unanswered: the run ended without an answer; ``reason`` says why.
        """
        with self._session.waiting_for(self.id):
            submission = await self.submit(content, request_id=request_id)
            ended = await submission.settlement()
        settled = await submission.wait()
        if settled.answer is None:
            assert settled.reason is not None, settled
            raise Unanswered(settled.reason, settled.detail)
        return Answer(entry=settled.answer, usage=await run_usage(self._session.live, ended))

    async def submit(
        self,
        content: Content,
        *,
        request_id: str | None = None,
        when_busy: Literal["follow_up", "steer", "reject"] = "follow_up",
    ) -> Submission:
        """Hand over an input; it is stored when this returns, and answered whatever happens next.

        A request id makes repeating safe: the same id returns the same submission, for ever.
        Cancelled, it may or may not have been stored: submit again with the same request id.

        Raises:
            AgentBusy: *when_busy* is "reject" and a run is active. Nothing was stored.
            CommandRefused: the request id was used for a write.
        """
        if when_busy not in ("follow_up", "steer", "reject"):
            raise CommandRefused(f"when_busy is {when_busy!r}; it must be follow_up, steer or reject")
        message, request_id = _message(content), checked_request_id(request_id)
        command = Submit(messages=(message,), when_busy=when_busy, request_id=request_id)
        return await self._admit(command, "input", request_id)

    async def submit_write(
        self,
        kind: str,
        *,
        data: Json = None,
        messages: Sequence[Message] = (),
        request_id: str | None = None,
    ) -> Submission:
        """Append an entry of your own *kind* without asking the model; queued while a run is active.

        Raises:
            InvalidValue: *data* is not JSON, or *kind* is one of ours (``pi.…``).
        """
        if not kind or kind.startswith(_RESERVED_KINDS):
            raise InvalidValue(f"an entry's kind must be a name of your own, not {kind!r}")
        request_id = checked_request_id(request_id)
        entry = EntryDraft(
            kind=clean_text(kind, "the kind"),
            messages=tuple(map(_clean_message, messages)),
            data=clean_json(data, "the data"),
        )
        return await self._admit(SubmitWrite(entry=entry, request_id=request_id), "write", request_id)

    async def reset(self, handoff: str | None = None) -> Submission:
        """Start a fresh context, with *handoff* as its first user message. Nothing is deleted.

        While a run is active the reset waits for its next boundary; there it ends the run.
        """
        messages = () if handoff is None else (user_message(clean_text(handoff, "the handoff")),)
        entry = EntryDraft(kind="pi.reset", messages=messages, head_self=True)
        return await self._admit(SubmitWrite(entry=entry), "write", None)

    async def compact(self, instructions: str | None = None, *, request_id: str | None = None) -> ActorId:
        """Begin to summarise the older part of the context, and return the id of the actor that does.

        ``session.wait_actor`` tells how it ends. The summary is placed at once if no run is active, else
        at the next boundary; history stays in the log. *instructions*: what the summary should mind.

        It ends completed with the reason ``nothing_to_compact`` where what could be left out is too
        little, with ``stale`` where the context has moved on meanwhile, and failed where no model
        could write the summary; in all three the context is as it was.

        Raises:
            CommandRefused: the request id was used for something else.
        """
        if instructions is not None:
            instructions = clean_text(instructions, "the instructions")
        request_id = checked_request_id(request_id)
        command = Compact(instructions=instructions, request_id=request_id)
        if request_id is None:
            return await self._begin(command)
        async with self._session.request(self.id, request_id, "compaction") as known:
            return known if known is not None else await self._begin(command)

    async def abort(self, *, background: bool = False) -> None:
        """Withdraw queued inputs, stop everything ordinary below, and return when idle.

        *background*: also what is below boundaries and exists at this moment.

        Raises:
            CommandRefused: asked inside a tool of this agent, which would wait for itself.
        """
        with self._session.waiting_for(self.id):
            await self._commit(AbortAgent(background=background))
            await self.wait_idle()

    async def spawn(
        self, kind: ActorKind[S], state: S, *, name: str | None = None, background: bool = False
    ) -> ActorId:
        """Spawn a durable actor of one's own kind, owned by this agent directly, and return its id.

        With a *name* the same actor is found again, also after a restart. A *background* actor, and
        what is below it, is left alone by ordinary aborts and not waited for.

        Raises:
            InvalidValue: *state* is no state of *kind*.
            UnknownName: *kind* is not registered here. Nothing was stored.
        """
        self._session.live.registry.check_kind(kind.name)
        born = kind.start(state, name=name or "")
        return await self._begin(msgspec.structs.replace(born, background=background))

    async def fork(self, at: EntryId, *, request_id: str | None = None) -> "Agent":
        """Spawn an agent that nobody owns and that goes on from this one's history up to the entry *at*.

        It sees what this agent had in context then and has the choices of that time, an empty inbox, no
        usage and a provider session of its own. Nothing is copied: both share what is in the log. A
        call at the end that has no result by then is answered with ``missing_result``. With a request
        id, which is the session's as with ``Session.spawn``, at most once for ever.

        Raises:
            CommandRefused: *at* is no entry of this agent's history. Nothing was stored.
        """
        return await self._session.fork(self.id, at, checked_request_id(request_id))

    async def release(self) -> None:
        """Let a held inbox go on."""
        await self._commit(ReleaseInbox())

    async def wait_idle(self) -> None:
        """Return when nothing ordinary is live below the agent."""
        require(self._session.live.line.shown, self.id)
        with self._session.waiting_for(self.id):
            await self._session.live.waits.until(lambda state: not state.actors[self.id].busy)

    async def configure(self, **choices: Choosable) -> None:
        """Change what the agent uses from its next request on; None goes back to the default.

        ``model`` and ``tools`` by name or object, ``thinking``, ``instructions`` and ``cwd`` as text.

        Raises:
            UnknownName: this process has no such tool or model. Nothing was stored.
            CommandRefused: there is no such choice.
        """
        async with self._session.live.shell.configuring:
            current = (await self._state("ahead")).choices
            changed = await choices_from(self._session.live.registry, current, choices)
            await self._commit(Configure(choices=changed))

    async def entries(self) -> list[Entry]:
        """The active transcript: what the agent has in context, failed attempts included."""
        state = await self._state("shown")
        return await self._session.live.bodies.entries([meta.id for meta in state.entries])

    async def history(self, *, before: EntryId | None = None, limit: int = 100) -> list[Entry]:
        """The newest *limit* entries before *before* (None: the newest), oldest first."""
        if limit < 1:
            raise CommandRefused(f"limit is {limit}; it must be at least 1")
        live = self._session.live
        live.line.check_open()
        require(live.line.shown, self.id)
        return await live.bodies.entries(await live.entry_ids(self.id, before=before, limit=limit))

    async def documents(self) -> dict[str, Json]:
        """``pi.live``, ``pi.inbox``, ``pi.usage``, ``pi.agent`` and ``pi.provider``, as JSON."""
        return (await self._session.folded()).documents(self.id)

    async def usage(self, *, subtree: bool = False) -> Usage:
        """What the agent has used; *subtree*: with all agents below it, each response counted once.

        ``unreported`` and ``unpriced`` say for how many responses the sums are too low.
        """
        return (await self._session.folded()).usage(self.id, subtree=subtree)

    def view(self) -> AbstractAsyncContextManager[View]:
        """Watch the agent: its transcript and documents, as of now and then as every commit changes them.

        Enter it with ``async with``; iterate over the :class:`View` for the frames. It never slows
        the session, however slow its viewer is. When the session is closed the iteration ends and
        ``value`` stays.

        Raises:
            NotFound: there is no such agent.
            SessionFailed: from the iteration too, when the store fails.
        """
        return self._session.view(self.id)

    async def _admit(
        self, command: Submit | SubmitWrite, kind: Literal["input", "write"], request_id: str | None
    ) -> Submission:
        if request_id is None:
            return self._submission((await self._line().commit(Send(self.id, command))).reply)
        async with self._session.request(self.id, request_id, kind) as known:
            id = known if known is not None else await self._commit(command)
        return self._submission(id)

    def _submission(self, id: object) -> Submission:
        number = id.submission if isinstance(id, Submitted) else id
        assert isinstance(number, int), id
        return Submission(self._session, number, self.id)

    async def _begin(self, command: Command) -> ActorId:
        """Have an actor spawned, and return its id."""
        reply = await self._commit(command)
        assert isinstance(reply, Spawned), reply
        return reply.id

    async def _commit(self, command: Command) -> msgspec.Struct | None:
        return (await self._line().commit(Send(self.id, command))).reply

    def _line(self) -> CommitLine:
        """The line that carries out the agent's commands. Raises where it is closed or has no such agent."""
        line = self._session.live.line
        line.check_open()
        require(line.ahead, self.id)
        return line

    async def _state(self, which: Literal["ahead", "shown"]) -> AgentState:
        line = self._session.live.line
        line.check_open()
        await self._session.live.passivation.wake(self.id)
        actor = require(line.ahead if which == "ahead" else line.shown, self.id)
        if not isinstance(actor.state, AgentState):
            raise CommandRefused(f"agent {self.id} is quarantined: {actor.state}")
        return actor.state


def _message(content: Content) -> Message:
    if isinstance(content, str):
        return user_message(clean_text(content, "the input"))
    parts = tuple(_clean_part(part) for part in content)
    if not parts:
        raise InvalidValue("the input is empty")
    return Message(role="user", parts=parts)


def _clean_part(part: Text | Blob) -> Text | Blob:
    match part:
        case Text() | Blob():
            return clean_part(part, "the input")
        case _:
            raise InvalidValue(f"an input consists of text and blobs, not of {type(part).__name__}")


def _clean_message(message: Message) -> Message:
    parts = tuple(_clean_part(part) for part in message.parts if isinstance(part, Text | Blob))
    if len(parts) != len(message.parts) or message.role not in ("user", "system"):
        raise InvalidValue("a write's messages are user or system messages of text and blobs")
    return Message(role=message.role, parts=parts)

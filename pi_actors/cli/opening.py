"""From a command's options to an open session whose effects have not started yet."""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from pi_actors.actors.generation.messages import RequestStarted
from pi_actors.actors.generation.state import Requested
from pi_actors.cli.models import model_of
from pi_actors.core.errors import NotFound, UnknownName
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.settings import Settings
from pi_actors.core.state import SessionState, owed
from pi_actors.models import Model
from pi_actors.runtime.live import KINDS, chosen_model
from pi_actors.runtime.store import TOPICS
from pi_actors.session import Session, open_session
from pi_actors.storage.codec import decode_row
from pi_actors.storage.log import PAGE_ROWS, Head, LogReader, Row
from pi_actors.storage.opening import file_of, open_reader
from pi_actors.tools import EnvFactory, LocalEnv, Tool, coding_tools

INSTRUCTIONS: Final = (
    "You are a coding agent. You work in the current directory with the tools you are given. Look before "
    "you change things, keep changes small, and check what you did. Where a result says that its effect "
    "is unknown, find out what happened before you repeat anything. When you are done, say in a few "
    "sentences what you did and what came of it."
)

NO_MODEL: Final = (
    "no model: give --model provider:model (such as anthropic:claude-opus-4-6) or set PI_ACTORS_MODEL; "
    "--model demo needs no key"
)


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The options that say which session to open and what it can do.

    ``cwd``: where tools work, absolute; None is where the session worked before, or this process's directory.
    ``keep_progress``: what streamed is not deleted once it is settled.
    """

    store: str
    session: SessionId = "main"
    model: str | None = None
    base_url: str | None = None
    cwd: Path | None = None
    tools: tuple[Tool, ...] = ()
    keep_progress: bool = False


@asynccontextmanager
async def opened(options: Opening, *, asks: bool, env: EnvFactory = LocalEnv) -> AsyncGenerator[Session]:
    """Open the session, made if it is new, with ``resume=False``; its user resumes it.

    ``asks``: a model will be needed even if the session owes nothing. Without one in *options* the
    one that the session asked last is taken. A request that another process left unanswered is sent
    again to the model that it names, so that one is made too.

    Raises:
        UnknownName: a model is needed and none is known, or one cannot be used.
        And whatever ``open_session`` raises.
    """
    name = options.model or await _last_model_in_thread(options)
    if name is None and asks:
        raise UnknownName(NO_MODEL)
    async with open_session(
        options.store,
        options.session,
        model=None if name is None else model_of(name, options.base_url),
        tools=options.tools,
        instructions=INSTRUCTIONS,
        settings=Settings(keep_progress=options.keep_progress),
        env=env,
        resume=False,
    ) as session:
        if name is None and owes(session, session.live.line.shown):
            raise UnknownName(NO_MODEL)
        session.register(models=_pinned_models(session, options.base_url))
        yield session


def owes(session: Session, state: SessionState) -> bool:
    """Whether the session has, in *state*, something to do that this process can do."""
    live = session.live
    return any(owed(actor, KINDS) and live.blocked(actor) is None for actor in state.actors.values())


async def work_in(session: Session, cwd: Path | None) -> str:
    """Store where the agent's tools work, if that is new, and return it."""
    chosen = session.live.shell.agent_state(session.root.id).choices.cwd
    wanted = chosen or str(Path.cwd()) if cwd is None else str(cwd)
    if wanted != chosen:
        await session.root.configure(cwd=wanted)
    else:
        await trio.lowlevel.checkpoint()
    return wanted


def chosen_tools(names: str | None) -> tuple[Tool, ...]:
    """The coding tools in a comma list; None is all of them, and an empty list none.

    Raises:
        UnknownName: there is no such tool.
    """
    known = {tool.name: tool for tool in coding_tools()}
    if names is None:
        return tuple(known.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    missing = [name for name in wanted if name not in known]
    if missing:
        raise UnknownName(f"there is no tool {missing[0]!r}; there are: {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(wanted))


def head_of(reader: LogReader, store: str, session: SessionId) -> Head:
    """The head of a session that must exist.

    Raises:
        NotFound: it does not; the message names those that do.
    """
    head = reader.head(session)
    if head is None:
        known = ", ".join(repr(other.session) for other in reader.heads()) or "none"
        raise NotFound(f"{store} has no session {session!r}; its sessions are: {known}")
    return head


def require_session(store: str, session: SessionId) -> None:
    """Raise NotFound or StoreUnreadable unless there is such a session. Makes nothing."""
    reader = open_reader(store)
    try:
        head_of(reader, store, session)
    finally:
        reader.close()


def last_model(store: str, session: SessionId) -> str | None:
    """The name of the model that the session asked last; None where nothing was asked yet. Blocks.

    Raises:
        LogCorrupt, LogTooNew, StoreError: what stands there cannot be read.
    """
    if store == "memory:" or not os.path.lexists(file_of(store)):
        return None
    reader = open_reader(store)
    try:
        head = reader.head(session)
        return None if head is None else _last_model(reader, head)
    finally:
        reader.close()


async def _last_model_in_thread(options: Opening) -> str | None:
    find = partial(last_model, options.store, options.session)
    return await trio.to_thread.run_sync(find, limiter=trio.CapacityLimiter(1))


def _last_model(reader: LogReader, head: Head) -> str | None:
    for after in _page_starts(head.position):
        requests = _requests(reader, head.session, after, after + PAGE_ROWS)
        if requests:
            event = decode_row(head.session, requests[-1], TOPICS).event
            assert isinstance(event, RequestStarted), requests[-1]
            return event.model
    return None


def _requests(reader: LogReader, session: SessionId, after: Position, through: Position) -> list[Row]:
    """The rows of all requests between two positions, in order."""
    found: list[Row] = []
    while rows := reader.read(session, after=after, through=through):
        found += [row for row in rows if row.topic == "RequestStarted"]
        after = rows[-1].position
    return found


def _page_starts(end: Position) -> Iterator[Position]:
    """After which positions to read, newest page first."""
    while end > 0:
        end = max(0, end - PAGE_ROWS)
        yield end


def _pinned_models(session: Session, base_url: str | None) -> dict[str, Model]:
    """The models of requests that wait to be sent again and of agents that chose one of their own."""
    known = session.live.registry.models
    wanted: set[str] = set()
    for actor in session.live.line.shown.actors.values():
        if isinstance(actor.state, Requested):
            wanted.add(actor.state.pinned.model)
        elif (model := chosen_model(actor)) is not None:
            wanted.add(model)
    return {name: model_of(name, base_url) for name in sorted(wanted - known.keys())}

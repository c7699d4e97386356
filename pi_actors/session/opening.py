"""Opening stores and sessions."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Literal

from pi_actors.core.ids import SessionId
from pi_actors.core.instants import instant
from pi_actors.core.settings import Settings
from pi_actors.models.protocol import Model
from pi_actors.runtime.clock import Clock, SystemClock
from pi_actors.runtime.live import LiveSession, open_live
from pi_actors.runtime.opening import Folded
from pi_actors.runtime.registry import Instructions, Registry
from pi_actors.runtime.scopes import background
from pi_actors.runtime.shell import Handles
from pi_actors.runtime.store import LiveStore, open_live_store
from pi_actors.runtime.threads import in_thread
from pi_actors.runtime.work import AnyKind
from pi_actors.session.session import Session
from pi_actors.session.snapshots import DocumentSnapshots
from pi_actors.session.subagents import ANCHOR, REPORTER
from pi_actors.session.values import SessionInfo
from pi_actors.storage.codec import Topics
from pi_actors.storage.log import Head, Log
from pi_actors.tools.environment import EnvFactory
from pi_actors.tools.local import LocalEnv
from pi_actors.tools.tool import Tool


class Store:
    """An open store: many sessions in one process, one group-commit writer for all of them."""

    def __init__(self, live: LiveStore) -> None:
        self._live = live

    @property
    def log(self) -> Log:
        """The event log, for readers such as ``projections.replay``."""
        return self._live.log

    @property
    def topics(self) -> Topics:
        """The registered topics of the log's events."""
        return self._live.topics

    @asynccontextmanager
    async def open_session(
        self,
        session_id: SessionId = "main",
        *,
        model: Model | str | None = None,
        models: Mapping[str, Model] = {},
        tools: Sequence[Tool] = (),
        actors: Sequence[AnyKind] = (),
        instructions: Instructions | None = None,
        settings: Settings = Settings(),
        env: EnvFactory | None = None,
        clock: Clock | None = None,
        resume: bool = True,
    ) -> AsyncGenerator[Session]:
        """Open one session of this store; as :func:`open_session`."""
        made = partial(
            Registry,
            model=model,
            models=models,
            tools=tools,
            instructions=instructions,
            actors=actors,
            own=(ANCHOR, REPORTER),
        )
        # Naming a provider imports its libraries, which takes about a second.
        registry = await in_thread(made) if isinstance(model, str) else made()
        clock = clock or SystemClock()
        session = Session(session_id)

        def make(epoch: int, folded: Folded) -> LiveSession:
            live = LiveSession(
                self._live,
                session_id,
                epoch,
                folded,
                registry=registry,
                settings=settings,
                clock=clock,
                env=env or LocalEnv,
                handles=Handles(session=lambda: session, agent=session.agent),
            )
            session.bind(live)
            return live

        snapshots: DocumentSnapshots | None = None
        try:
            async with open_live(self._live, session_id, make=make, clock=clock) as live:
                snapshots = DocumentSnapshots(live, session.newest_folded)
                if resume:
                    live.resumed.set()
                async with background(snapshots.run):
                    yield session
        finally:
            if snapshots is not None:
                await snapshots.finish()

    async def sessions(self) -> list[SessionInfo]:
        """The sessions of the store, by name."""
        return await self._live.read(_directory, self._live.log)


@asynccontextmanager
async def open_session(
    store: str | Path | Store,
    session_id: SessionId = "main",
    *,
    model: Model | str | None = None,
    models: Mapping[str, Model] = {},
    tools: Sequence[Tool] = (),
    actors: Sequence[AnyKind] = (),
    instructions: Instructions | None = None,
    settings: Settings = Settings(),
    env: EnvFactory | None = None,
    clock: Clock | None = None,
    resume: bool = True,
) -> AsyncGenerator[Session]:
    """Own a session for the time of the body, and run what it owes.

    *store*: a path, ``sqlite:path``, ``memory:`` (new and private each time) or an open Store.
    *model*: the default of every agent, as ``provider:name`` or an object; *models*: further ones.
    *tools*: what agents may call unless they choose otherwise. *actors*: durable kinds of one's own.
    *instructions*: text, or a function
    that computes it. *env* builds the world of a tool call from its agent's cwd. With
    ``resume=False`` commands are stored and nothing runs until ``session.resume()``.

    What the body raises leaves unchanged. If the store fails the body is cancelled and
    SessionFailed is raised.

    Raises:
        SessionInUse: somebody holds the session; the message names the holder. Nothing was changed.
        LogCorrupt, LogTooNew, StoreUnreadable, NotSupported: the store or session cannot be opened.
        UnknownName: *model* names no provider, or its key is missing.
    """
    async with (
        _opened(store) as opened,
        opened.open_session(
            session_id,
            model=model,
            models=models,
            tools=tools,
            actors=actors,
            instructions=instructions,
            settings=settings,
            env=env,
            clock=clock,
            resume=resume,
        ) as session,
    ):
        yield session


def _opened(store: str | Path | Store) -> AbstractAsyncContextManager[Store]:
    return nullcontext(store) if isinstance(store, Store) else open_store(store)


@asynccontextmanager
async def open_store(
    store: str | Path | Log, *, durability: Literal["power", "process"] = "power"
) -> AsyncGenerator[Store]:
    """Open a store for the time of the body. A log, such as one made for tests, is used and left open.

    *durability*: "power", an acknowledged commit survives power loss; "process", it survives the
    death of the process, while a power cut may lose the newest commits, as a whole suffix.

    Raises:
        StoreUnreadable, NotSupported: the message says what is wrong with it and what to do.
    """
    async with open_live_store(store, durability=durability) as live:
        yield Store(live)


def _directory(log: Log) -> list[SessionInfo]:
    return [_info(log, head) for head in log.heads()]


def _info(log: Log, head: Head) -> SessionInfo:
    return SessionInfo(
        id=head.session,
        position=head.position,
        live=head.live,
        size_bytes=log.size_bytes(head.session),
        updated_at=instant(head.updated_us),
        held_by=log.holder(head.session),
    )

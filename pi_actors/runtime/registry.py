"""What this process can execute, by name: models, tools, instructions."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from pi_actors.core.catalog import Catalog
from pi_actors.core.errors import CommandRefused, UnknownName
from pi_actors.core.ids import ActorId
from pi_actors.core.lifecycle import Choices
from pi_actors.core.settings import MOST
from pi_actors.core.text import clean_text
from pi_actors.models.protocol import Model, ToolSpec
from pi_actors.models.providers import make_model
from pi_actors.runtime.threads import in_thread
from pi_actors.runtime.work import AnyKind
from pi_actors.tools.environment import Env
from pi_actors.tools.tool import Tool


class PromptContext(msgspec.Struct, frozen=True, kw_only=True):
    """What instructions are computed for. ``env`` is None where it could not be built: ``env_problem``."""

    agent: ActorId
    model: str | None
    tools: tuple[str, ...]
    cwd: str | None
    env: Env | None
    env_problem: str | None = None


Instructions: TypeAlias = str | Callable[[PromptContext], str | Awaitable[str]]


class Registry:
    """The catalog's objects. ``facts`` is what deciders may know of them."""

    def __init__(
        self,
        *,
        model: Model | str | None,
        models: Mapping[str, Model],
        tools: Sequence[Tool],
        instructions: Instructions | None,
        actors: Sequence[AnyKind] = (),
        own: Sequence[AnyKind] = (),
    ) -> None:
        """*own*: kinds of this package, whose names begin with ``pi.``."""
        self._own = {kind.name for kind in own}
        self.tools: dict[str, Tool] = {}
        self.kinds: dict[str, AnyKind] = {}
        self.models: dict[str, Model] = {}
        if isinstance(instructions, str):
            instructions = clean_text(instructions, "the instructions")
        self._instructions = instructions
        self._default_model = None if model is None else self._default(model)
        self._default_tools = tuple(tool.name for tool in tools)
        self.register(tools=tools, models=models, actors=(*own, *actors))

    def register(
        self,
        *,
        tools: Sequence[Tool] = (),
        models: Mapping[str, Model] = {},
        actors: Sequence[AnyKind] = (),
    ) -> None:
        """Add to the catalog. A newer version of a kind takes the place of an older one.

        Raises:
            CommandRefused: two different tools or kinds of one name, a kind without a prefix, or a model
                whose context window is no number of tokens. Nothing was added.
        """
        for model in models.values():
            _check_window(model)
        for kind in actors:
            if "." not in kind.name or (kind.name.startswith("pi.") and kind.name not in self._own):
                raise CommandRefused(
                    f"kind {kind.name!r} needs a prefix of its own, such as shop.{kind.name}"
                )
        older = {kind.name for kind in actors if _is_older(self.kinds.get(kind.name), kind)}
        kept = {name: kind for name, kind in self.kinds.items() if name not in older}
        new_tools, new_kinds = _by_name(self.tools, tools, "tools"), _by_name(kept, actors, "kinds")
        self.tools.update(new_tools)
        self.kinds.update(new_kinds)
        self.models.update(models)
        self.facts = self._facts()

    async def admit(self, choices: Choices, *, tools: Sequence[Tool], models: Mapping[str, Model]) -> None:
        """Add *tools* and *models* if with them everything that *choices* name is there.

        A provider's model is made when it is first named, in a thread: its libraries take a second.

        Raises:
            UnknownName: something is not there; nothing was added.
        """
        known = {*self.tools, *(tool.name for tool in tools)}
        missing = [name for name in choices.tools or () if name not in known]
        if missing:
            listed = ", ".join(sorted(known)) or "none"
            raise UnknownName(f"there is no tool {missing[0]!r} in this process; it knows: {listed}")
        if choices.model is not None and choices.model not in models:
            await self.reach(choices.model)
        self.register(tools=tools, models=models)

    async def reach(self, name: str) -> None:
        """Make sure that the model *name* is in the catalog.

        Raises:
            UnknownName: there is no such model, or its key is missing.
        """
        if name in self.models:
            return
        if ":" not in name:
            known = ", ".join(sorted(self.models)) or "none"
            raise UnknownName(f"there is no model {name!r} in this process; it knows: {known}")
        self.register(models={name: await in_thread(partial(make_model, name))})

    async def reach_known(self, names: Iterable[str]) -> None:
        """Add the providers' models among *names* that can be made; the others stay unknown."""
        for name in names:
            with suppress(UnknownName):
                await self.reach(name)

    def check_kind(self, name: str) -> None:
        """Raise UnknownName where this process has no kind of that name."""
        if name not in self.kinds:
            known = ", ".join(sorted(self.kinds)) or "none"
            raise UnknownName(f"there is no actor kind {name!r} in this process; it knows: {known}")

    async def instructions(self, choices: Choices, context: PromptContext) -> str | None:
        """The instructions for these choices: the agent's own, or the session's, computed if need be."""
        if choices.instructions is not None:
            return choices.instructions
        if self._instructions is None or isinstance(self._instructions, str):
            return self._instructions
        computed = self._instructions(context)
        return clean_text(await computed if isawaitable(computed) else computed, "the instructions")

    @property
    def needs_context(self) -> bool:
        """Whether the default instructions are computed."""
        return callable(self._instructions)

    def prompt_context(self, agent: ActorId, choices: Choices, env: Env | str | None) -> PromptContext:
        """What instructions for *agent* are computed from."""
        return PromptContext(
            agent=agent,
            model=choices.model or self._default_model,
            tools=self._default_tools if choices.tools is None else choices.tools,
            cwd=choices.cwd,
            env=None if isinstance(env, str) else env,
            env_problem=env if isinstance(env, str) else None,
        )

    def offered(self, names: Sequence[str]) -> tuple[ToolSpec, ...]:
        """The tools of a request, as models see them; one that vanished since is left out."""
        found = (self.tools[name] for name in names if name in self.tools)
        return tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in found
        )

    def _default(self, model: Model | str) -> str:
        if isinstance(model, str):
            self.models[model] = make_model(model)
            return model
        _check_window(model)
        self.models[model.name] = model
        return model.name

    def _facts(self) -> Catalog:
        text = self._instructions if isinstance(self._instructions, str) else None
        return Catalog(
            tools={name: tool.facts() for name, tool in self.tools.items()},
            models=frozenset(self.models),
            windows={name: window for name, model in self.models.items() if (window := model.context_window)},
            default_model=self._default_model,
            default_tools=self._default_tools,
            instructions=text,
            instructions_computed=callable(self._instructions),
        )


def _check_window(model: Model) -> None:
    """Refuse a window that deciders could not calculate with."""
    window: object = model.context_window
    if window is not None and not (type(window) is int and 0 <= window <= MOST):
        raise CommandRefused(
            f"the context window of model {model.name!r} is {window!r}; "
            "it must be a whole number of tokens, or None where it is unknown"
        )


def _is_older(known: AnyKind | None, new: AnyKind) -> bool:
    return known is not None and known.version < new.version


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def _by_name(known: Mapping[str, N], new: Sequence[N], what: str) -> dict[str, N]:
    added: dict[str, N] = {}
    for one in new:
        if known.get(one.name, one) is not one or added.get(one.name, one) is not one:
            raise CommandRefused(f"there are two {what} named {one.name!r}; give one another name")
        added[one.name] = one
    return added

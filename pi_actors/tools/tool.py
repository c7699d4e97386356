"""A tool: a function that models may call, and what happens to its calls after a crash."""

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Literal, TypeAlias, cast, get_args, overload

import msgspec

from pi_actors.core.catalog import ToolFacts
from pi_actors.core.text import Json, normalise
from pi_actors.tools.context import ToolContext
from pi_actors.tools.result import ToolResult, Verdict, as_result
from pi_actors.tools.schema import (
    Arguments,
    Function,
    InvalidTool,
    Signature,
    parse_arguments,
    signature_of,
    unbound,
)

Reconcile: TypeAlias = Callable[..., Awaitable[object]]
"""``async (ctx, **arguments)``: what became of a call that may have begun. A result (or a plain
value, as of the tool itself), NOT_DONE or UNKNOWN."""

Replay: TypeAlias = Literal["never", "safe"]
Execution: TypeAlias = Literal["parallel", "sequential"]
Keep: TypeAlias = Literal["tail", "head"]

_NAME: Final = re.compile("[A-Za-z0-9_-]{1,64}")
_DIGEST_DIGITS: Final = 32


class Tool(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A function as a tool. Made by ``tool``; nothing of it changes.

    ``max_bytes`` and ``max_lines`` bound its output, None follows the session's settings.
    """

    name: str
    description: str
    signature: Signature
    function: Function
    replay: Replay = "never"
    execution: Execution = "parallel"
    reconcile: Reconcile | None = None
    max_bytes: int | None = None
    max_lines: int | None = None
    keep: Keep = "tail"

    @property
    def parameters(self) -> dict[str, Json]:
        """The JSON Schema of its arguments, an object."""
        return self.signature.schema

    @property
    def is_async(self) -> bool:
        """Whether it is awaited on the event loop; a plain function runs in a thread."""
        return inspect.iscoroutinefunction(self.function)

    def facts(self) -> ToolFacts:
        """What deciders know of it. The digest is the same in every process with the same tool."""
        described = [self.name, self.description, self.parameters]
        digest = hashlib.sha256(msgspec.json.encode(described, order="sorted")).hexdigest()
        return ToolFacts(
            name=self.name,
            replay="reconcile" if self.reconcile is not None else self.replay,
            sequential=self.execution == "sequential",
            digest=digest[:_DIGEST_DIGITS],
            max_bytes=self.max_bytes,
            max_lines=self.max_lines,
            keep_head=self.keep == "head",
        )

    def parse(self, arguments_text: str) -> Arguments:
        """Return the arguments that a model wrote as JSON, checked and converted.

        Raises:
            InvalidArguments: they do not fit; the message tells the model why.
        """
        return parse_arguments(self.signature, arguments_text)


@overload
def tool(function: Function, /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Replay = "never",
    execution: Execution = "parallel",
    reconcile: Reconcile | None = None,
    max_bytes: int | None = None,
    max_lines: int | None = None,
    keep: Keep = "tail",
) -> Callable[[Function], Tool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Replay = "never",
    execution: Execution = "parallel",
    reconcile: Reconcile | None = None,
    max_bytes: int | None = None,
    max_lines: int | None = None,
    keep: Keep = "tail",
) -> Tool | Callable[[Function], Tool]:
    """Make a function a tool; its name, docstring and annotations are what models are told.

    A first parameter annotated ``ToolContext`` is the running call and no argument.
    ``replay="safe"``: a call whose effect is unknown after a crash is run again; otherwise
    ``reconcile`` is asked, or, where there is none, the model is told that nobody knows.

    Raises:
        InvalidTool: the declaration cannot be used; the message says what to change.
    """

    def made(function: Function) -> Tool:
        title = _checked_name(function, name)
        signature = signature_of(_checked_function(function, title), title)
        declared = Tool(
            name=title,
            description=_described(function, description),
            signature=signature,
            function=function,
            replay=replay,
            execution=execution,
            reconcile=reconcile,
            max_bytes=max_bytes,
            max_lines=max_lines,
            keep=keep,
        )
        _check_options(declared)
        if reconcile is not None:
            _check_reconcile(declared, reconcile)
        return declared

    return made if function is None else made(function)


async def run(tool: Tool, ctx: ToolContext, arguments: Arguments) -> ToolResult:
    """Execute an async tool and return its result, whose content is parts.

    What the function raises passes through, cancellation too.

    Raises:
        InvalidValue: what it returned cannot be stored.
    """
    assert tool.is_async, tool.name
    return as_result(await cast(Awaitable[object], _called(tool, ctx, arguments)))


def call_plain(tool: Tool, ctx: ToolContext, arguments: Arguments) -> ToolResult:
    """Execute a plain tool in this thread, which it may block, and return its result as ``run`` does."""
    assert not tool.is_async, tool.name
    return as_result(_called(tool, ctx, arguments))


async def ask_reconciler(tool: Tool, ctx: ToolContext, arguments: Arguments) -> ToolResult | Verdict:
    """Ask what became of a call that may have begun: its result, NOT_DONE or UNKNOWN.

    Raises:
        InvalidValue: the reconciler returned what cannot be stored.
    """
    assert tool.reconcile is not None, tool.name
    answer = await tool.reconcile(ctx, **arguments)
    return answer if isinstance(answer, Verdict) else as_result(answer)


def _called(tool: Tool, ctx: ToolContext, arguments: Arguments) -> object:
    if tool.signature.takes_context:
        return tool.function(ctx, **arguments)
    return tool.function(**arguments)


def _described(function: Function, description: str | None) -> str:
    return normalise(inspect.getdoc(unbound(function)) or "" if description is None else description)


def _checked_name(function: object, name: str | None) -> str:
    title: object = getattr(function, "__name__", None) if name is None else name
    if not isinstance(title, str):
        raise InvalidTool(f"a tool made of {function!r} needs a name; write @tool(name=…)")
    if _NAME.fullmatch(title) is None:
        raise InvalidTool(f"{title!r} cannot be a tool's name; use 1 to 64 of the letters A-Z a-z 0-9 _ -")
    return title


def _checked_function(function: Function, title: str) -> Function:
    if not inspect.isroutine(cast(object, function)) and not isinstance(cast(object, function), partial):
        raise InvalidTool(f"tool {title}: {function!r} is not a function")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidTool(f"tool {title}: a generator cannot be a tool; use ctx.output() and return")
    return function


def _check_options(declared: Tool) -> None:
    _check_one_of(declared, "replay", declared.replay, get_args(Replay))
    _check_one_of(declared, "execution", declared.execution, get_args(Execution))
    _check_one_of(declared, "keep", declared.keep, get_args(Keep))
    for option, limit in (("max_bytes", declared.max_bytes), ("max_lines", declared.max_lines)):
        if limit is not None and limit < 1:
            raise InvalidTool(f"tool {declared.name}: {option} is {limit}; it must be at least 1")


def _check_one_of(declared: Tool, option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidTool(f"tool {declared.name}: {option} is {value!r}; it must be {' or '.join(choices)}")


def _check_reconcile(declared: Tool, reconcile: Reconcile) -> None:
    if declared.replay == "safe":
        raise InvalidTool(f"tool {declared.name}: a safe tool is run again, so it needs no reconcile=")
    if not inspect.iscoroutinefunction(reconcile):
        raise InvalidTool(f"tool {declared.name}: reconcile= must be an async function (ctx, **arguments)")
    names = declared.signature.type.__struct_fields__
    try:
        inspect.signature(reconcile).bind(None, **dict.fromkeys(names))
    except TypeError as error:
        raise InvalidTool(
            f"tool {declared.name}: reconcile= must take a ToolContext and the tool's arguments ({error})"
        ) from error

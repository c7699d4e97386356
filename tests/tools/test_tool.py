"""Declaring tools, and calling them."""

import functools
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal, cast

import msgspec
import pytest

from pi_actors.core.catalog import ToolFacts
from pi_actors.core.errors import InvalidValue
from pi_actors.core.messages import Blob, Text, Usage
from pi_actors.tools import NOT_DONE, UNKNOWN, InvalidTool, LocalEnv, ToolContext, ToolResult, Verdict, tool
from pi_actors.tools.schema import Function
from pi_actors.tools.tool import Tool, ask_reconciler, call_plain, run
from tests.tools.recording import RecordingPort, context


@tool
async def word_count(path: str, limit: int = 100) -> str:
    """Count the words of a text file."""
    return f"{path} {limit}"


@tool(name="make", replay="safe", execution="sequential", max_bytes=10, max_lines=3, keep="head")
def build(ctx: ToolContext, target: str) -> str:
    """Build."""
    ctx.output(f"building {target}")
    return ctx.idempotency_key


async def what_became_of(ctx: ToolContext, target: str) -> object:
    """Each answer that a reconciler may give, by the target's name."""
    return {"done": "it was built", "not": NOT_DONE}.get(target, UNKNOWN)


@tool(reconcile=what_became_of)
async def deploy(target: str) -> None:
    """Deploy."""


def a_context() -> ToolContext:
    return context(RecordingPort(), LocalEnv())


def test_a_function_is_a_tool_by_its_name_docstring_and_annotations() -> None:
    assert (word_count.name, word_count.description) == ("word_count", "Count the words of a text file.")
    assert word_count.parameters == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "default": 100}},
        "required": ["path"],
        "additionalProperties": False,
    }


def test_a_tool_with_no_declared_replay_is_never_repeated() -> None:
    """D85, V346."""
    assert word_count.facts().replay == "never"


def test_the_facts_tell_deciders_what_was_declared() -> None:
    assert build.facts() == ToolFacts(
        name="make",
        replay="safe",
        sequential=True,
        digest=build.facts().digest,
        max_bytes=10,
        max_lines=3,
        keep_head=True,
    )


def test_a_tool_with_a_reconciler_is_reconciled() -> None:
    assert deploy.facts().replay == "reconcile"


def test_the_digest_is_the_same_in_another_process() -> None:
    program = (
        "from tests.tools.test_tool import word_count as t; import sys; sys.stdout.write(t.facts().digest)"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout == word_count.facts().digest


def test_the_digest_changes_with_name_description_and_schema() -> None:
    def probe(path: str) -> None: ...

    def other(path: str | None) -> None: ...

    tools = [
        tool(probe),
        tool(name="other")(probe),
        tool(description="new")(probe),
        tool(name="probe")(other),
    ]
    assert len({each.facts().digest for each in tools}) == 4


async def test_an_async_tool_is_awaited_with_its_arguments() -> None:
    result = await run(word_count, a_context(), word_count.parse('{"path": "a"}'))
    assert result.parts == (Text(text="a 100"),)


def test_a_plain_tool_is_called_with_the_context_first() -> None:
    port = RecordingPort()
    result = call_plain(build, context(port, LocalEnv()), build.parse('{"target": "all"}'))
    assert (result.parts, port.outputs) == ((Text(text="uuid:7:2"),), ["building all"])
    assert not build.is_async


@pytest.mark.parametrize(("target", "answer"), [("not", Verdict.NOT_DONE), ("else", Verdict.UNKNOWN)])
async def test_a_reconciler_may_not_know_or_know_of_no_effect(target: str, answer: Verdict) -> None:
    assert await ask_reconciler(deploy, a_context(), {"target": target}) is answer


async def test_a_reconciler_that_knows_gives_the_result() -> None:
    result = await ask_reconciler(deploy, a_context(), {"target": "done"})
    assert isinstance(result, ToolResult)
    assert result.parts == (Text(text="it was built"),)


def test_a_partial_is_a_tool_with_a_name_of_its_own() -> None:
    def greet(greeting: str, name: str) -> str:
        """Greet."""
        return f"{greeting} {name}"

    hello = tool(name="hello")(functools.partial(greet, "hello"))
    assert (hello.description, list(hello.parameters["properties"])) == ("Greet.", ["name"])
    assert call_plain(hello, a_context(), hello.parse('{"name": "Ann"}')).parts == (Text(text="hello Ann"),)


# What a tool returns.


class Point(msgspec.Struct):
    x: int


def returned(value: object) -> ToolResult:
    def probe() -> object:
        return value

    return call_plain(tool(probe), a_context(), {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        (0, "0"),
        (False, "false"),
        (Point(x=1), '{"x":1}'),
        ({1: "one"}, '{"1":"one"}'),
        ("a\x00b\ud800", "ab\ufffd"),
    ],
)
def test_a_plain_value_becomes_text(value: object, text: str) -> None:
    assert returned(value).parts == (Text(text=text),)


@pytest.mark.parametrize("value", [None, "", ToolResult(None)])
def test_no_value_is_an_empty_content(value: object) -> None:
    assert returned(value).parts == ()


def test_parts_stay_parts() -> None:
    image = Blob(media_type="image/png", data=b"\x89")
    assert returned([Text(text="see"), image]).parts == (Text(text="see"), image)
    assert returned(image).parts == (image,)


def test_a_result_keeps_what_it_says_besides_its_content() -> None:
    given = ToolResult(
        {"n": 1}, is_error=True, details={"k": 1}, usage=Usage(input=3), add_tools=["more"], terminate=True
    )
    result = returned(given)
    assert result == ToolResult(
        (Text(text='{"n":1}'),),
        is_error=True,
        details={"k": 1},
        usage=Usage(input=3),
        add_tools=("more",),
        terminate=True,
    )


def a_circle() -> list[object]:
    circle: list[object] = []
    circle.append(circle)
    return circle


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "a tool returned a object that is not JSON"),
        (a_circle(), "a tool returned a list that is not JSON"),
        ({"x": float("nan")}, "has the number nan"),
        (NOT_DONE, "only its reconcile="),
        (ToolResult("", details=object()), "details of a tool's result has a value of type object"),
        (ToolResult("", add_tools="read"), "add_tools is 'read'"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused(value: object, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        returned(value)


# What cannot be a tool.


def without_annotation(path: str) -> None: ...


del without_annotation.__annotations__["path"]


def with_rest(*paths: str) -> None: ...


def with_any_keywords(**options: str) -> None: ...


def with_nameless(path: str, /) -> None: ...


def with_late_context(path: str, ctx: ToolContext) -> None: ...


def with_foreign_type(value: RecordingPort) -> None: ...


def with_foreign_default(value: Annotated[object, 1] = 1) -> None: ...


def with_unknown_type(value: str) -> None: ...


with_unknown_type.__annotations__["value"] = "NoSuchType"


def with_endless_default(value: float = float("inf")) -> None: ...


async def generating(path: str) -> AsyncIterator[str]:
    yield path


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (without_annotation, "tool without_annotation: 'path' has no annotation"),
        (with_rest, r"so not '\*paths: str'"),
        (with_any_keywords, r"so not '\*\*options: str'"),
        (with_nameless, "so not 'path: str'"),
        (with_late_context, "'ctx' is the ToolContext, which must be the first parameter"),
        (with_foreign_type, "no JSON Schema .*RecordingPort"),
        (with_foreign_default, "no JSON Schema .*object"),
        (with_unknown_type, "'NoSuchType' is not known"),
        (with_endless_default, "the number inf"),
        (generating, "a generator cannot be a tool"),
        (lambda: None, "'<lambda>' cannot be a tool's name"),
        (functools.partial(print), "needs a name"),
        (int, "is not a function"),
    ],
)
def test_a_function_that_cannot_be_described_is_no_tool(function: object, words: str) -> None:
    with pytest.raises(InvalidTool, match=words):
        tool(cast(Function, function))


def greet(name: str) -> None: ...


async def reconcile_greet(ctx: ToolContext, name: str) -> Verdict:
    return UNKNOWN


async def reconcile_else(ctx: ToolContext) -> Verdict:
    return UNKNOWN


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "no spaces"}, "'no spaces' cannot be a tool's name"),
        ({"name": "x" * 65}, "cannot be a tool's name"),
        ({"replay": "always"}, "replay is 'always'; it must be never or safe"),
        ({"replay": "reconcile"}, "replay is 'reconcile'"),
        ({"execution": "serial"}, "execution is 'serial'"),
        ({"keep": "middle"}, "keep is 'middle'"),
        ({"max_bytes": 0}, "max_bytes is 0"),
        ({"max_lines": -1}, "max_lines is -1"),
        ({"reconcile": greet}, "must be an async function"),
        ({"reconcile": reconcile_else}, "must take a ToolContext and the tool's arguments"),
        ({"reconcile": reconcile_greet, "replay": "safe"}, "needs no reconcile="),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidTool, match=words):
        cast(Callable[..., Callable[[Function], Tool]], tool)(**options)(greet)


def test_a_name_may_have_64_characters_of_the_allowed_ones() -> None:
    declared: Tool = tool(name="a-B_9" + "x" * 59)(greet)
    assert len(declared.name) == 64


def test_choices_are_typed() -> None:
    def pick(mode: Literal["a", "b"]) -> None: ...

    assert tool(pick).parameters["properties"]["mode"] == {"enum": ["a", "b"]}

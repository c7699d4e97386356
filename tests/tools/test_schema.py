"""Schemas from annotations, and arguments from a model's JSON."""

import enum
from dataclasses import dataclass
from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
import pytest

from pi_actors.tools import InvalidArguments, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Arguments(msgspec.Struct):
    """Named like what the schema is made from inside."""

    names: list[str]


class Options(TypedDict):
    depth: int
    note: NotRequired[str]


@tool
def draw(
    path: Annotated[str, msgspec.Meta(description="where to draw", min_length=1)],
    at: Point,
    colour: Colour = Colour.RED,
    style: Literal["solid", "dotted"] | None = None,
    extra: Arguments | None = None,
    options: Options | None = None,
    weights: dict[str, float] = {},  # noqa: B006 - a tool's default is copied for each call
    tags: list[str] = ["new"],  # noqa: B006
) -> None:
    """Draw."""


def refused(text: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        draw.parse(text)
    return str(caught.value)


def test_the_schema_describes_every_parameter() -> None:
    properties = draw.parameters["properties"]
    assert properties["path"] == {"type": "string", "minLength": 1, "description": "where to draw"}
    assert properties["at"] == {"$ref": "#/$defs/Point"}
    assert properties["colour"]["default"] == "red"
    assert properties["style"] == {
        "anyOf": [{"enum": ["dotted", "solid"]}, {"type": "null"}],
        "default": None,
    }
    assert properties["tags"]["default"] == ["new"]
    assert draw.parameters["required"] == ["path", "at"]
    definitions = draw.parameters["$defs"]
    assert definitions["Colour"]["enum"] == ["blue", "red"]
    assert definitions["Options"]["required"] == ["depth"]


def test_every_reference_of_a_schema_is_defined() -> None:
    text = msgspec.json.encode(draw.parameters).decode()
    wanted = {piece.split('"')[0] for piece in text.split("#/$defs/")[1:]}
    assert wanted == set(draw.parameters["$defs"])


def test_arguments_are_converted_to_what_the_function_asks_for() -> None:
    given = draw.parse(
        '{"path": "a", "at": {"x": 1}, "colour": "blue", "extra": {"names": ["n"]}, "options": {"depth": 2}}'
    )
    assert given == {
        "path": "a",
        "at": Point(1),
        "colour": Colour.BLUE,
        "style": None,
        "extra": Arguments(names=["n"]),
        "options": {"depth": 2},
        "weights": {},
        "tags": ["new"],
    }


def test_a_default_that_a_call_changes_is_new_for_the_next() -> None:
    text = '{"path": "a", "at": {"x": 1}}'
    draw.parse(text)["tags"].append("changed")
    assert draw.parse(text)["tags"] == ["new"]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_text_is_no_arguments(text: str) -> None:
    def now(zone: str = "UTC") -> None: ...

    assert tool(now).parse(text) == {"zone": "UTC"}


def test_lone_surrogates_are_normalised_and_pairs_stay() -> None:
    """X41."""
    given = draw.parse(r'{"path": "a\ud800b\ud83d\ude00", "at": {"x": 1}}')
    assert given["path"] == "a\ufffdb😀"


@pytest.mark.parametrize(
    "text", ['{"path": "a', "nonsense", "{'path': 1}", '{"path": "a\x01"}', "[" * 100_000]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    """X35."""
    assert refused(text).startswith("invalid arguments for draw: not valid JSON (")


@pytest.mark.parametrize("text", ["[]", '"x"', "3", "null"])
def test_what_is_no_object_is_refused(text: str) -> None:
    """X37."""
    assert f"expected a JSON object, got {text}." in refused(text)


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    assert "which JSON cannot carry" in refused(f'{{"path": "a", "at": {{"x": {number}}}}}')


def test_every_unknown_argument_is_named() -> None:
    message = refused('{"path": "a", "at": {"x": 1}, "color": "red", "size": 1}')
    assert message == (
        "invalid arguments for draw: unknown argument `color`, `size`. It takes one JSON object (required: "
        "`path`, `at`; optional: `colour`, `style`, `extra`, `options`, `weights`, `tags`)."
    )


def test_every_missing_argument_is_named() -> None:
    assert "missing argument `path`, `at`." in refused("{}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"path": 1, "at": {"x": 1}}', "Expected `str`, got `int` at `path`."),
        ('{"path": "a", "at": {"x": "1"}}', "Expected `int`, got `str` at `at.x`."),
        ('{"path": "a", "at": {}}', "Object missing required field `x` at `at`."),
        ('{"path": "", "at": {"x": 1}}', "Expected `str` of length >= 1 at `path`."),
        ('{"path": "a", "at": {"x": 1}, "colour": "green"}', "Invalid enum value 'green' at `colour`."),
        ('{"path": "a", "at": {"x": 1}, "tags": ["a", 2]}', "Expected `str`, got `int` at `tags[1]`."),
    ],
)
def test_a_wrong_type_is_named_with_its_place(text: str, words: str) -> None:
    """D80."""
    assert words in refused(text)

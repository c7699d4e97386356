"""From a function's annotations to its JSON Schema, and from a model's JSON to its arguments."""

import copy
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn, TypeAlias, cast, get_type_hints

import msgspec

from pi_actors.core.errors import InvalidValue, PiActorsError
from pi_actors.core.text import Json, clean_json
from pi_actors.tools.context import ToolContext

Arguments: TypeAlias = Mapping[str, Json]
"""Validated arguments by name, converted to the types the function asks for."""

Function: TypeAlias = Callable[..., object]
Field: TypeAlias = tuple[str, Json, Json]
"""A name, a type and a default, as msgspec builds Structs from."""

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_DEFINITIONS: Final = "#/$defs/"


class InvalidTool(PiActorsError, TypeError):
    """A function cannot be a tool as it is declared. The message says what to change."""


class InvalidArguments(PiActorsError):
    """A call's arguments do not fit the tool. The message is for the model that made them."""


class Signature(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How a tool is called: ``schema`` is a JSON Schema of an object, ``type`` what it becomes."""

    tool: str
    takes_context: bool
    schema: dict[str, Json]
    type: type[msgspec.Struct]


def signature_of(function: Function, tool: str) -> Signature:
    """Return how models call *function* under the name *tool*.

    Raises:
        InvalidTool: an annotation is missing or cannot be described, or a parameter has no name.
    """
    hints = _hints(function, tool)
    parameters = list(inspect.signature(function).parameters.values())
    takes_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext
    asked = parameters[1:] if takes_context else parameters
    schema, arguments = _described([_field(each, hints, tool) for each in asked], tool)
    return Signature(tool=tool, takes_context=takes_context, schema=schema, type=arguments)


def parse_arguments(signature: Signature, text: str) -> Arguments:
    """Return the arguments that a model wrote as JSON *text*; blank text is an empty object.

    Raises:
        InvalidArguments: not JSON, not an object, or an object that does not fit the schema.
    """
    given = _decoded(signature, text)
    _check_names(signature, given)
    try:
        value = msgspec.convert(given, signature.type, str_keys=True)
    except msgspec.ValidationError as error:
        _refuse(signature, str(error).replace("`$.", "`").replace(" - at ", " at "))
    return {name: getattr(value, name) for name in signature.type.__struct_fields__}


def unbound(function: Function) -> Function:
    """Return the function that a partial was made of, which has the annotations and the docstring."""
    return cast(Function, cast(object, function.func)) if isinstance(function, partial) else function


# A model's JSON.


def _decoded(signature: Signature, text: str) -> dict[str, Json]:
    if not text.strip():
        return {}
    try:
        # The standard decoder, because it lets lone surrogates pass, to be normalised.
        value: object = clean_json(json.loads(text), "the JSON")
    except InvalidValue as error:
        _refuse(signature, str(error))
    except (ValueError, RecursionError) as error:
        _refuse(signature, f"not valid JSON ({error})")
    if not isinstance(value, dict):
        _refuse(signature, f"expected a JSON object, got {json.dumps(value)[:80]}")
    return cast(dict[str, Json], value)


def _check_names(signature: Signature, given: Mapping[str, Json]) -> None:
    known = signature.type.__struct_fields__
    if unknown := [name for name in given if name not in known]:
        _refuse(signature, f"unknown argument {_listed(unknown)}")
    if missing := [name for name in _required(signature) if name not in given]:
        _refuse(signature, f"missing argument {_listed(missing)}")


def _refuse(signature: Signature, problem: str) -> NoReturn:
    required = _required(signature)
    optional = [name for name in signature.type.__struct_fields__ if name not in required]
    takes = f"required: {_listed(required) or 'none'}; optional: {_listed(optional) or 'none'}"
    raise InvalidArguments(
        f"invalid arguments for {signature.tool}: {problem}. It takes one JSON object ({takes})."
    )


def _required(signature: Signature) -> list[str]:
    return cast(list[str], signature.schema["required"])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# A function's annotations.


def _hints(function: Function, tool: str) -> dict[str, Json]:
    try:
        return get_type_hints(unbound(function), include_extras=True)
    except NameError as error:
        raise InvalidTool(
            f"tool {tool}: the annotation {error.name!r} is not known when the tool is made; "
            "define it at module level and import it outside of TYPE_CHECKING"
        ) from error
    except TypeError as error:
        raise InvalidTool(f"tool {tool}: its annotations cannot be read ({error})") from error


def _field(parameter: inspect.Parameter, hints: Mapping[str, Json], tool: str) -> Field:
    name = parameter.name
    if parameter.kind not in _NAMED:
        raise InvalidTool(f"tool {tool}: a model can only give arguments by name, so not {str(parameter)!r}")
    if name not in hints:
        raise InvalidTool(f"tool {tool}: {name!r} has no annotation, and the schema is made from those")
    if hints[name] is ToolContext:
        raise InvalidTool(f"tool {tool}: {name!r} is the ToolContext, which must be the first parameter")
    if name.startswith("__"):
        raise InvalidTool(f"tool {tool}: the parameter {name!r} must not start with two underscores")
    default: Json = parameter.default
    return name, hints[name], msgspec.NODEFAULT if default is inspect.Parameter.empty else default


def _described(fields: Sequence[Field], tool: str) -> tuple[dict[str, Json], type[msgspec.Struct]]:
    try:
        arguments = msgspec.defstruct(
            "Arguments", [_unshared(field) for field in fields], kw_only=True, forbid_unknown_fields=True
        )
        (top,), components = msgspec.json.schema_components([arguments], ref_template=_DEFINITIONS + "{name}")
        definitions: dict[str, dict[str, Json]] = clean_json(components, "a default")
        schema = definitions.pop(str(top["$ref"]).removeprefix(_DEFINITIONS))
        for name, _, default in fields:
            if _is_mutable(default):
                schema["properties"][name]["default"] = clean_json(msgspec.to_builtins(default), "a default")
    except (TypeError, ValueError, RuntimeError, InvalidValue) as error:
        problem = str(error).replace("\n", " ")
        raise InvalidTool(f"tool {tool}: its parameters have no JSON Schema ({problem})") from error
    del schema["title"]
    return schema | ({"$defs": definitions} if definitions else {}), arguments


def _unshared(field: Field) -> Field:
    """One call must not see what another did to a default."""
    name, hint, default = field
    if _is_mutable(default):
        return name, hint, msgspec.field(default_factory=lambda: copy.deepcopy(default))
    return field


def _is_mutable(default: object) -> bool:
    return isinstance(default, list | dict | set)

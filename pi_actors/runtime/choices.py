"""An agent's choices as callers give them: by name, or as an object whose name is taken."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pi_actors.core.errors import CommandRefused
from pi_actors.core.lifecycle import Choices
from pi_actors.core.text import clean_text
from pi_actors.models.protocol import Model
from pi_actors.runtime.registry import Registry
from pi_actors.tools.tool import Tool

Choosable: TypeAlias = Model | Sequence[Tool | str] | str | None


async def choices_from(registry: Registry, current: Choices, wanted: Mapping[str, Choosable]) -> Choices:
    """*current* with what is *wanted* changed; objects are added to the catalog under their names.

    Raises:
        UnknownName: this process has no such tool or model. The catalog is as it was.
        CommandRefused: there is no such choice, or its value is of the wrong type.
    """
    names = Choices.__struct_fields__
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise CommandRefused(f"there is no choice {unknown[0]!r}; there are: {', '.join(names)}")
    changed = {name: getattr(current, name) for name in names}
    changed |= {name: None if value is None else _named(name, value) for name, value in wanted.items()}
    choices = Choices(**changed)
    tools, models = _objects(wanted)
    await registry.admit(choices, tools=tools, models=models)
    return choices


def _named(name: str, value: Choosable) -> str | tuple[str, ...]:
    if name == "tools" and isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(tool.name if isinstance(tool, Tool) else tool for tool in value)
    if name == "model" and isinstance(value, Model):
        return value.name
    if name != "tools" and isinstance(value, str):
        return clean_text(value, f"the choice {name}")
    raise CommandRefused(f"{name} cannot be {type(value).__name__}; see Agent.configure for what it takes")


def _objects(wanted: Mapping[str, Choosable]) -> tuple[list[Tool], dict[str, Model]]:
    """The tools and models among *wanted* that came as objects."""
    tools, model = wanted.get("tools"), wanted.get("model")
    listed = tools if isinstance(tools, Sequence) and not isinstance(tools, str) else ()
    models = {model.name: model} if isinstance(model, Model) else {}
    return [tool for tool in listed if isinstance(tool, Tool)], models

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


def choices_from(registry: Registry, current: Choices, wanted: Mapping[str, Choosable]) -> Choices:
    """*current* with what is *wanted* changed; objects are added to the catalog under their names.

    Raises:
        UnknownName: this process has no such tool or model.
        CommandRefused: there is no such choice, or its value is of the wrong type.
    """
    names = Choices.__struct_fields__
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise CommandRefused(f"there is no choice {unknown[0]!r}; there are: {', '.join(names)}")
    changed = {name: getattr(current, name) for name in names}
    for name, value in wanted.items():
        changed[name] = None if value is None else _named(registry, name, value)
    choices = Choices(**changed)
    registry.check(choices)
    return choices


def _named(registry: Registry, name: str, value: Choosable) -> str | tuple[str, ...]:
    if name == "tools" and isinstance(value, Sequence) and not isinstance(value, str):
        objects = [tool for tool in value if isinstance(tool, Tool)]
        registry.register(tools=objects)
        return tuple(tool.name if isinstance(tool, Tool) else tool for tool in value)
    if name == "model" and isinstance(value, Model):
        registry.register(models={value.name: value})
        return value.name
    if name != "tools" and isinstance(value, str):
        return clean_text(value, f"the choice {name}")
    raise CommandRefused(f"{name} cannot be {type(value).__name__}; see Agent.configure for what it takes")

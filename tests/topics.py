"""The shape of everything that is stored, as lines of text, and how it may change: it only grows.

``python -m tests.topics`` writes ``tests/golden/topics.txt`` anew, unless a shape did not merely
grow. (A shape that no release has written yet may be changed: delete its line by hand first.)
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import inspect

from pi_actors.actors import topics
from pi_actors.actors.agent.entries import ForkInput
from pi_actors.actors.compaction.messages import CompactionInput
from pi_actors.actors.tool.messages import ToolInput

PROJECT = Path(__file__).parents[1]
GOLDEN = PROJECT / "tests" / "golden" / "topics.txt"
PACKED_IN_EVENTS: tuple[type[msgspec.Struct], ...] = (CompactionInput, ForkInput, ToolInput)
"""Stored too, as bytes inside an event."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the golden file: ``event`` or ``part``, its topic or name, its form, its fields.

    ``form``: "array", or "map" with its tag if any. A field is ``name`` or ``name=default``.
    """

    role: str
    name: str
    form: str
    fields: tuple[str, ...]

    @property
    def line(self) -> str:
        """The shape as it stands in the golden file."""
        return " ".join((self.role, self.name, self.form, *self.fields))


def stored_shapes() -> list[Shape]:
    """Every registered event, and every part that one is made of."""
    events = [_shape("event", topic, _struct(cls)) for topic, cls in sorted(topics.ALL.items())]
    parts: dict[str, inspect.StructType] = {}
    for cls in (*topics.ALL.values(), *PACKED_IN_EVENTS):
        parts |= {part.cls.__name__: part for part in _parts(_struct(cls))}
    inner = [part for _, part in sorted(parts.items()) if part.cls not in topics.ALL.values()]
    return events + [_shape("part", part.cls.__name__, part) for part in inner]


def event_types() -> list[type[msgspec.Struct]]:
    """The members of every union of the package whose name ends in ``Event``."""
    found: list[type[msgspec.Struct]] = []
    for path in sorted((PROJECT / "pi_actors").rglob("*.py")):
        if unions := _event_unions(path):
            module = importlib.import_module(".".join(path.relative_to(PROJECT).with_suffix("").parts))
            found += [cls for union in unions for cls in get_args(getattr(module, union))]
    return found


def golden_shapes() -> list[Shape]:
    """What released versions have stored."""
    lines = GOLDEN.read_text().splitlines() if GOLDEN.exists() else []
    return [
        Shape(role=role, name=name, form=form, fields=tuple(fields))
        for role, name, form, *fields in (line.split(" ") for line in lines)
    ]


def broken_promises(before: list[Shape], after: list[Shape]) -> list[str]:
    """Why rows of *before* could no longer be read, or would be read as something else, by *after*."""
    now = {(shape.role, shape.name): shape for shape in after}
    problems: list[str] = []
    for old in before:
        new = now.get((old.role, old.name))
        if new is None:
            problems.append(f"{old.role} {old.name} has disappeared")
        elif new.form != old.form:
            problems.append(f"{old.role} {old.name} is stored as {new.form}, it was {old.form}")
        else:
            problems += [f"{old.role} {old.name}: {problem}" for problem in _changed_fields(old, new)]
    return problems


def _changed_fields(old: Shape, new: Shape) -> Iterator[str]:
    names_old, names_new = _names(old), _names(new)
    kept = names_new[: len(names_old)] if old.form == "array" else [n for n in names_new if n in names_old]
    if sorted(kept) != sorted(names_old) or (old.form == "array" and kept != names_old):
        yield f"its fields were {names_old} and are {names_new}; fields may only be added at the end"
        return
    fields = dict(zip(names_new, new.fields, strict=True))
    for field in old.fields:
        name, has_default, _ = field.partition("=")
        if has_default and fields[name] != field:
            yield f"the default of {name} was {field} and is {fields[name]}; stored rows rely on it"
    yield from (
        f"its new field {name} needs a default, as stored rows lack it"
        for name in names_new
        if name not in names_old and "=" not in fields[name]
    )


def _names(shape: Shape) -> list[str]:
    return [field.partition("=")[0] for field in shape.fields]


def _shape(role: str, name: str, struct: inspect.StructType) -> Shape:
    tag = f"({struct.tag_field}={struct.tag})" if struct.tag_field else ""
    form = ("array" if struct.array_like else "map") + tag
    return Shape(role=role, name=name, form=form, fields=tuple(_field(field) for field in struct.fields))


def _field(field: inspect.Field) -> str:
    if field.required:
        return field.encode_name
    default: object = field.default
    if default is msgspec.NODEFAULT:
        assert field.default_factory is not msgspec.NODEFAULT, field
        default = field.default_factory()
    return f"{field.encode_name}={msgspec.json.encode(default).decode().replace(' ', '_')}"


def _struct(cls: type[msgspec.Struct]) -> inspect.StructType:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType), info
    return info


def _parts(node: object) -> Iterator[inspect.StructType]:
    """The structs inside a type, itself included."""
    match node:
        case inspect.StructType():
            yield node
            for field in node.fields:
                yield from _parts(field.type)
        case inspect.UnionType():
            for member in node.types:
                yield from _parts(member)
        case inspect.VarTupleType() | inspect.ListType():
            yield from _parts(node.item_type)
        case inspect.TupleType():
            for item in node.item_types:
                yield from _parts(item)
        case inspect.DictType():
            yield from _parts(node.value_type)
        case _:
            pass


def _event_unions(path: Path) -> list[str]:
    """The names that the module at *path* assigns, with an annotation, and that end in ``Event``."""
    statements = ast.parse(path.read_text()).body
    targets = [statement.target for statement in statements if isinstance(statement, ast.AnnAssign)]
    return [target.id for target in targets if isinstance(target, ast.Name) and target.id.endswith("Event")]


def main() -> int:
    """Write the golden file; exit status 1, and nothing written, where a promise would be broken."""
    shapes = stored_shapes()
    if problems := broken_promises(golden_shapes(), shapes):
        sys.stderr.write("\n".join(problems) + "\n")
        return 1
    GOLDEN.write_text("".join(f"{shape.line}\n" for shape in shapes))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What this process can execute, as plain data for deciders. Never part of a fold."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

ReplayPolicy: TypeAlias = Literal["never", "safe", "reconcile"]
"""What may happen to a call whose effect is unknown.

never: it is not repeated. safe: it is run again. reconcile: its tool is asked what happened.
"""


class ToolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What deciders know of a tool. ``digest`` identifies its schema and description.

    ``max_bytes`` and ``max_lines`` bound its output window, None follows the settings;
    ``keep_head`` keeps the window's start instead of its end.
    """

    name: str
    replay: ReplayPolicy = "never"
    sequential: bool = False
    digest: str = ""
    max_bytes: int | None = None
    max_lines: int | None = None
    keep_head: bool = False


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Names of this process and the session's defaults.

    ``windows``: how many tokens fit into a model's context, where that is known.
    ``instructions`` holds the default instructions where they are plain text; when they must be
    computed, ``instructions_computed`` is true and a generation prepares in an errand.
    """

    tools: Mapping[str, ToolFacts] = {}
    models: frozenset[str] = frozenset()
    windows: Mapping[str, int] = {}
    default_model: str | None = None
    default_tools: tuple[str, ...] = ()
    instructions: str | None = None
    instructions_computed: bool = False

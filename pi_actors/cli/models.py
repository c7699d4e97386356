"""From the text of ``--model`` to a model: a provider's, a script in a file, or the demo's."""

from pathlib import Path
from typing import Final

from pi_actors.cli.script import scripted_file
from pi_actors.core.errors import UnknownName
from pi_actors.models import Model, ProviderModel, ScriptedModel

SCRIPTED: Final = "scripted:"
DEMO: Final = "demo"


def model_of(name: str, base_url: str | None = None) -> Model:
    """The model that *name* stands for; logs know it under that name, so it is found again.

    ``provider:model``: a real one, at *base_url* instead of the provider's own address if given.
    ``scripted:FILE``: plays the JSON script in FILE. ``demo``: plays the demo; needs no key.

    Raises:
        UnknownName: no such provider or model, its key is missing, or its script cannot be used.
    """
    if name.startswith(SCRIPTED):
        return scripted_file(Path(name.removeprefix(SCRIPTED)), name=name)
    if name == DEMO:
        from pi_actors.cli.demo.story import answer

        return ScriptedModel(answer, chunk_ms=15, name=DEMO)
    if ":" not in name:
        raise UnknownName(
            f"there is no model {name!r}; write provider:model (such as anthropic:claude-opus-4-6), "
            "scripted:FILE.json, or demo, which needs no key"
        )
    return ProviderModel(name, base_url=base_url)

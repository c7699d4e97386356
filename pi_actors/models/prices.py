"""What a response costs and how much fits, from the table in ``genai-prices``.

The table is imported when it is first asked. Without the library, and for models it does not know,
the cost is unknown, which is not zero.
"""

import importlib
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pi_actors.core.messages import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

ALIASES: Final = {
    "azure-responses": "azure",
    "bedrock": "aws",
    "google-cloud": "google",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x-ai",
}
"""Providers that the price table knows under another name."""


def price(usage: Usage, provider: str | None, model: str | None) -> Usage:
    """Return *usage* with its cost in US dollars as decimal text and the table that it is from.

    Unknown models, unknown providers and a missing table leave the cost unknown.
    """
    cost = _cost(usage, provider, model)
    if cost is None:
        return replace(usage, cost=None, prices=None)
    return replace(usage, cost=format(cost.normalize(), "f"), prices=f"genai-prices {_table_version()}")


def context_window(provider: str | None, model: str | None) -> int | None:
    """Return how many tokens fit into *model*, None if the table does not say."""
    info = _known(provider, model)
    return None if info is None else info.context_window


def _cost(usage: Usage, provider: str | None, model: str | None) -> Decimal | None:
    if _known(provider, model) is None:
        return None
    assert provider is not None
    assert model is not None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        return calc_price(tokens, model, provider_id=ALIASES.get(provider, provider)).total_price
    except (LookupError, ValueError):
        return None


def _known(provider: str | None, model: str | None) -> "ModelInfo | None":
    if provider is None or model is None:
        return None
    try:
        snapshot = importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except ImportError:
        return None
    try:
        found: tuple[object, ModelInfo] = snapshot.find_provider_model(
            model, None, ALIASES.get(provider, provider), None
        )
    except LookupError:
        return None
    return found[1]


def _table_version() -> str:
    from genai_prices import __version__

    return __version__

"""What a response costs."""

import sys

import pytest

from pi_actors.core.messages import Usage
from pi_actors.models import context_window, price


def test_cached_tokens_have_their_own_price_and_are_counted_once() -> None:
    # $5 in, $0.5 read from the cache, $6.25 written to it, $25 out, for a million each.
    usage = Usage(input=1_000_000, cache_read=400_000, cache_write=100_000, output=10_000)
    priced = price(usage, "anthropic", "claude-opus-4-6")
    assert priced.cost == "3.575"
    assert priced.prices is not None
    assert priced.prices.startswith("genai-prices ")
    assert (priced.input, priced.cache_read, priced.output) == (1_000_000, 400_000, 10_000)


def test_the_cost_is_plain_decimal_text() -> None:
    assert price(Usage(input=3, output=1), "openai", "gpt-5.1").cost == "0.00001375"
    assert price(Usage(), "openai", "gpt-5.1").cost == "0"


def test_a_provider_is_found_under_the_name_of_its_protocol() -> None:
    usage = Usage(input=3, output=1)
    assert price(usage, "openai-chat", "gpt-5.1") == price(usage, "openai", "gpt-5.1")


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "played"), ("scripted", "scripted"), (None, "gpt-5.1"), ("openai", None)],
)
def test_what_is_unknown_has_no_cost_rather_than_none_to_pay(provider: str | None, model: str | None) -> None:
    usage = Usage(input=3, output=1)
    assert price(usage, provider, model) == usage
    assert context_window(provider, model) is None


def test_an_old_cost_does_not_survive_a_table_that_does_not_know_the_model() -> None:
    usage = Usage(input=3, cost="1", prices="older")
    assert price(usage, "openai", "played") == Usage(input=3)


def test_without_the_library_the_cost_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    assert price(Usage(input=3), "openai", "gpt-5.1") == Usage(input=3)
    assert context_window("openai", "gpt-5.1") is None


def test_the_table_knows_how_much_fits() -> None:
    assert context_window("openai", "gpt-5.1") == 400_000

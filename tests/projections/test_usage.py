"""pi.usage."""

import pytest

from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.messages import Usage
from projections.session import fold_commit
from tests.projections.story import ROOT, Story, response, result

NONE: dict[str, object] = {
    "responses": 0,
    "results": 0,
    "input": 0,
    "output": 0,
    "cache_read": 0,
    "cache_write": 0,
    "cost": None,
    "unpriced": 0,
    "unreported": 0,
}


def started() -> Story:
    story = Story()
    story.spawn_root()
    return story


def test_completed_failed_and_aborted_responses_all_add() -> None:
    """Scenarios H152 and C62."""
    story = started()
    usage = Usage(input=10, output=2, cache_read=3, cache_write=1, cost="0.1")
    for stop in ("answer", "error", "aborted"):
        story.commit((ROOT, response(5, stop=stop, usage=usage)))
    sums = NONE | {"responses": 3, "input": 30, "output": 6, "cache_read": 9, "cache_write": 3, "cost": "0.3"}
    assert story.document("pi.usage") == {"models": {"m": sums}, "tools": {}, "total": sums}


def test_costs_are_summed_as_decimals_without_an_exponent() -> None:
    story = started()
    for cost in ("0.0000001", "0.0000002", "1E+2"):
        story.commit((ROOT, response(5, usage=Usage(cost=cost))))
    assert story.state().usage().cost == "100.0000003"


def test_unknown_cost_and_unreported_usage_are_counted_and_never_zero() -> None:
    """Scenario X86."""
    story = started()
    story.commit((ROOT, response(5)), (ROOT, response(5, usage=Usage(input=7))))
    total = NONE | {"responses": 2, "input": 7, "unpriced": 1, "unreported": 1}
    assert story.document("pi.usage")["total"] == total
    story.commit((ROOT, response(5, usage=Usage(cost="0"))))
    assert story.document("pi.usage")["total"] == total | {"responses": 3, "cost": "0"}


@pytest.mark.parametrize("cost", ["NaN", "-1", "Infinity", "much", "1E+999999", "0E-999999", "0E+999999"])
def test_a_cost_that_is_no_sum_of_money_is_unknown(cost: str) -> None:
    story = started()
    story.commit((ROOT, response(5, usage=Usage(cost=cost))))
    assert story.document("pi.usage")["total"] == NONE | {"responses": 1, "unpriced": 1}


def test_a_result_that_reports_usage_adds_to_its_tool() -> None:
    """Scenario D100."""
    story = started()
    story.commit((ROOT, result(4, 0, "search", usage=Usage(input=5, cost="0.02", responses=2, unreported=1))))
    story.commit((ROOT, result(4, 1, "read")))
    sums = NONE | {"responses": 2, "results": 1, "input": 5, "cost": "0.02", "unreported": 1}
    assert story.document("pi.usage") == {"models": {}, "tools": {"search": sums}, "total": sums}


def test_the_session_total_is_the_sum_over_agents() -> None:
    """Scenario H153."""
    story = started()
    other = story.commit((0, AgentSpawned()))
    story.commit(
        (ROOT, response(5, usage=Usage(input=1, cost="0.5"))), (other, response(6, usage=Usage(input=2)))
    )
    state = story.state()
    assert state.usage() == Usage(input=3, cost="0.5", responses=2, unpriced=1)
    assert state.usage(other) == Usage(input=2, responses=1, unpriced=1)


def test_a_commit_that_is_folded_twice_counts_once() -> None:
    """Scenarios X29 and X84."""
    story = started()
    story.commit((ROOT, response(5, usage=Usage(input=1))))
    state = story.state()
    assert fold_commit(state, story.commits[-1]) == state

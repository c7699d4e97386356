"""pi.usage: what the agent's model responses and its tools have cost.

``{"models": {name: SUMS}, "tools": {name: SUMS}, "total": SUMS}`` with SUMS = ``{"responses",
"results", "input", "output", "cache_read", "cache_write", "cost", "unpriced", "unreported"}``.
Each response event adds once, whether it completed, failed or was aborted, and so does each response to
a request for a summary and each tool result that reports usage. ``cost`` is decimal text in US dollars
and sums what is known: null where nothing is, and too low where ``unpriced`` (usage without a price) or
``unreported`` (responses without usage) are not zero.
"""

from collections.abc import Iterable
from decimal import Context, Decimal, InvalidOperation
from typing import Final, TypeAlias

import immutables
import msgspec

from pi_actors.actors.agent.messages import ResponseSettled, ToolResultSettled
from pi_actors.actors.compaction.messages import SummaryFailed, SummarySettled
from pi_actors.core.messages import Usage
from pi_actors.core.record import Recorded
from projections.fold import Document, Projection

PLACES_MAX: Final = 30
DIGITS_MAX: Final = 15
COST_MAX: Final = Decimal(10) ** DIGITS_MAX
_EXACT: Final = Context(prec=60, traps=[])
"""Sums of costs with so few digits are exact in 60, however many; nothing raises."""


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """What was added up. ``cost`` is None where no price was known."""

    responses: int = 0
    results: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: Decimal | None = None
    unpriced: int = 0
    unreported: int = 0


SumsByName: TypeAlias = "immutables.Map[str, Sums]"


class UsageState(msgspec.Struct, frozen=True, kw_only=True):
    """Sums by the model asked and by tool."""

    models: SumsByName = immutables.Map()
    tools: SumsByName = immutables.Map()


NOTHING_USED: Final = Sums()


def evolve(state: UsageState, recorded: Recorded) -> UsageState:
    """The usage after *recorded*."""
    match recorded.event:
        case ResponseSettled(info=info):
            models = _add(state.models, info.model, _of_response(info.usage))
            return UsageState(models=models, tools=state.tools)
        case SummarySettled(model=model, usage=usage) | SummaryFailed(model=model, usage=usage):
            return UsageState(models=_add(state.models, model, _of_response(usage)), tools=state.tools)
        case ToolResultSettled(name=name, usage=Usage() as usage):
            return UsageState(models=state.models, tools=_add(state.tools, name, _of_result(usage)))
        case _:
            return state


def document(state: UsageState) -> Document:
    """The usage as JSON."""
    return {
        "models": {name: _document(state.models[name]) for name in sorted(state.models)},
        "tools": {name: _document(state.tools[name]) for name in sorted(state.tools)},
        "total": _document(total([state])),
    }


def combine(states: Iterable[UsageState]) -> Usage:
    """The usage of several agents together; each event belongs to one of them, so nothing counts twice."""
    sums = total(states)
    return Usage(
        input=sums.input,
        output=sums.output,
        cache_read=sums.cache_read,
        cache_write=sums.cache_write,
        cost=_cost_text(sums.cost),
        responses=sums.responses,
        unreported=sums.unreported,
        unpriced=sums.unpriced,
    )


def total(states: Iterable[UsageState]) -> Sums:
    """Models and tools of *states* added up."""
    sums = NOTHING_USED
    for state in states:
        for part in (*state.models.values(), *state.tools.values()):
            sums = _plus(sums, part)
    return sums


USAGE: Final = Projection(name="pi.usage", version=2, initial=UsageState(), evolve=evolve, document=document)


def _add(sums: SumsByName, name: str, more: Sums) -> SumsByName:
    return sums.set(name, _plus(sums.get(name, NOTHING_USED), more))


def _of_response(usage: Usage | None) -> Sums:
    if usage is None:
        return Sums(responses=1, unreported=1)
    return _of_usage(usage, responses=1, results=0)


def _of_result(usage: Usage) -> Sums:
    return _of_usage(usage, responses=usage.responses, results=1)


def _of_usage(usage: Usage, *, responses: int, results: int) -> Sums:
    cost = _cost(usage.cost)
    return Sums(
        responses=responses,
        results=results,
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        cost=cost,
        unpriced=1 if cost is None else 0,
        unreported=usage.unreported,
    )


def _plus(one: Sums, other: Sums) -> Sums:
    return Sums(
        responses=one.responses + other.responses,
        results=one.results + other.results,
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        cost=_sum_cost(one.cost, other.cost),
        unpriced=one.unpriced + other.unpriced,
        unreported=one.unreported + other.unreported,
    )


def _sum_cost(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    if one is None or other is None:
        return other if one is None else one
    return _EXACT.add(one, other)


def _cost(text: str | None) -> Decimal | None:
    """The amount that *text* says; None where it is none that can be summed exactly."""
    if text is None:
        return None
    try:
        cost = Decimal(text)
    except InvalidOperation:
        return None
    exponent = cost.as_tuple().exponent
    if not isinstance(exponent, int) or not -PLACES_MAX <= exponent <= DIGITS_MAX or not 0 <= cost < COST_MAX:
        return None
    return cost


def _cost_text(cost: Decimal | None) -> str | None:
    return None if cost is None else format(cost, "f")


def _document(sums: Sums) -> Document:
    return {
        "responses": sums.responses,
        "results": sums.results,
        "input": sums.input,
        "output": sums.output,
        "cache_read": sums.cache_read,
        "cache_write": sums.cache_write,
        "cost": _cost_text(sums.cost),
        "unpriced": sums.unpriced,
        "unreported": sums.unreported,
    }

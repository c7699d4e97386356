"""Settings that nothing could be made of are refused where they are written."""

import sys
from collections.abc import Callable

import pytest

from pi_actors import CompactionSettings, RetrySettings, Settings

MAKERS: dict[str, Callable[[int], Settings]] = {
    "passivate_ms": lambda value: Settings(passivate_ms=value),
    "close_ms": lambda value: Settings(close_ms=value),
    "stall_ms": lambda value: Settings(stall_ms=value),
    "tools_max": lambda value: Settings(tools_max=value),
    "retry.first_ms": lambda value: Settings(retry=RetrySettings(first_ms=value)),
    "retry.cap_ms": lambda value: Settings(retry=RetrySettings(cap_ms=value)),
    "retry.retry_after_cap_ms": lambda value: Settings(retry=RetrySettings(retry_after_cap_ms=value)),
    "compaction.keep_recent_tokens": lambda value: Settings(
        compaction=CompactionSettings(keep_recent_tokens=value)
    ),
    "compaction.summary_tokens_max": lambda value: Settings(
        compaction=CompactionSettings(summary_tokens_max=value)
    ),
}
named = pytest.mark.parametrize("name", MAKERS)


@named
def test_a_setting_too_large_for_an_instant_or_a_stored_number_is_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"setting {name} is {sys.maxsize}; it must be at most 3155760000000"
    ):
        MAKERS[name](sys.maxsize)


@named
def test_a_negative_setting_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"setting {name} is -1; it must be at least"):
        MAKERS[name](-1)


@named
def test_a_setting_that_is_no_whole_number_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"setting {name} is 1.5; it must be a whole number"):
        MAKERS[name](1.5)  # type: ignore[arg-type]

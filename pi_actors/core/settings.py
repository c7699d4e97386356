"""Everything tunable, with units and limits in the names. Plain data; takes part in no fold."""

from typing import Final, Literal

import msgspec

MOST: Final = 3_155_760_000_000
"""A hundred years in milliseconds. Instants and numbers made of larger settings could not be stored."""


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a failed model request is retried: exponential backoff with jitter, stored deadlines."""

    retries_max: int = 3
    first_ms: int = 2_000
    cap_ms: int = 60_000
    retry_after_cap_ms: int = 600_000


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When and how a context is summarised, in tokens.

    ``enabled``: whether it is done without being asked: at thresholds, and after an overflow.
    ``reserve_tokens``: a context that leaves less room than this in its model's window is compacted
    before the request is sent; one that leaves at most ``background_tokens`` more, beside it.
    ``keep_recent_tokens``: about how much of the newest stays word for word. ``summary_tokens_max``: a
    longer summary is cut. In a small window each of these is at most a fixed part of it, so that
    summary and kept entries always fit (see ``actors/agent/cut.py``).
    ``freed_min``: the part of the context, 0 to 1, that a compaction at a threshold must free; one
    that would free less is not begun until the context has changed so that it would.
    ``model``: the name of the model that writes summaries; None, the agent's own.
    """

    enabled: bool = True
    reserve_tokens: int = 16_384
    background_tokens: int = 16_384
    keep_recent_tokens: int = 20_000
    summary_tokens_max: int = 4_096
    freed_min: float = 0.1
    model: str | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A session's settings.

    ``progress_ms``: how often at most what has streamed is stored. ``keep_progress``: it is kept for
    ever; otherwise it is deleted some time after what it was progress of is settled.
    ``steer_mode`` and ``follow_up_mode``: how many queued items one boundary places.
    ``output_bytes_max`` and ``output_lines_max`` bound a tool's output window.
    ``tools_max`` bounds the tools that run at once in a session, at each depth of subagents for itself;
    ``tool_threads_max`` bounds those that are plain functions, in threads.
    ``recoveries_max``: recoveries of one run without a step before it is given up.
    ``passivate_ms``: an agent that is idle for this long, up to twice as long, gives up its memory
    until it is needed; 0: never.
    ``close_ms``: how long closing and aborting wait for code that cannot be cancelled.
    """

    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()
    progress_ms: int = 100
    keep_progress: bool = False
    stall_ms: int = 180_000
    steer_mode: Literal["one", "all"] = "one"
    follow_up_mode: Literal["one", "all"] = "one"
    sequential_tools: bool = False
    output_bytes_max: int = 50 * 1024
    output_lines_max: int = 2_000
    tools_max: int = 64
    tool_threads_max: int = 40
    recoveries_max: int = 5
    passivate_ms: int = 600_000
    close_ms: int = 5_000

    def __post_init__(self) -> None:
        for name in ("progress_ms", "stall_ms", "output_bytes_max", "output_lines_max", "tools_max"):
            _check(name, getattr(self, name), 1)
        for name in ("tool_threads_max", "recoveries_max"):
            _check(name, getattr(self, name), 1)
        for name in ("passivate_ms", "close_ms"):
            _check(name, getattr(self, name), 0)
        for name in ("retries_max", "first_ms", "cap_ms", "retry_after_cap_ms"):
            _check(f"retry.{name}", getattr(self.retry, name), 0)
        for name in ("reserve_tokens", "background_tokens", "keep_recent_tokens"):
            _check(f"compaction.{name}", getattr(self.compaction, name), 0)
        _check("compaction.summary_tokens_max", self.compaction.summary_tokens_max, 1)
        if not 0 <= self.compaction.freed_min <= 1:
            raise ValueError(f"setting compaction.freed_min is {self.compaction.freed_min}; it is 0 to 1")


def _check(name: str, value: object, least: int) -> None:
    if type(value) is not int:
        raise ValueError(f"setting {name} is {value!r}; it must be a whole number")
    if value < least:
        raise ValueError(f"setting {name} is {value}; it must be at least {least}")
    if value > MOST:
        raise ValueError(f"setting {name} is {value}; it must be at most {MOST}")

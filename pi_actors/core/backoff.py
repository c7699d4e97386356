"""When a failed request is sent again."""

from pi_actors.core.decider import At


def retry_due_us(attempt: int, retry_after_ms: int | None, at: At) -> int:
    """When to try again after failed *attempt*: the provider's hint (capped), or backoff.

    The backoff doubles from ``first_ms`` up to ``cap_ms``; chance takes up to half of it away.
    UTC, in microseconds.
    """
    retry = at.settings.retry
    backoff_ms = min(retry.cap_ms, retry.first_ms << (attempt - 1))
    wait_ms = backoff_ms * (1 - at.chance / 2)
    if retry_after_ms is not None:
        wait_ms = max(wait_ms, min(retry_after_ms, retry.retry_after_cap_ms))
    return at.now_us + round(wait_ms * 1000)

"""Instants as the log stores them, whole UTC microseconds since 1970, and as people use them."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(instant: datetime) -> int:
    """A UTC time as whole microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def instant(at_us: int) -> datetime:
    """The UTC time of a stored instant."""
    return _EPOCH + timedelta(microseconds=at_us)

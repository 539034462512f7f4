"""Values as PrimeHub's clients read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ariadne import ScalarType

from holdfast.core.job import GIB

MAX_INT = 2**31 - 1  # that GraphQL can say

json_type = ScalarType("JSON")  # as it is, both ways


def instant(at: datetime | None) -> str | None:
    """2021-08-18T07:56:48Z"""
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exact_instant(at: datetime | None) -> str | None:
    """2021-08-18T07:59:19.642Z"""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def gigabytes(size: int | None) -> float | None:
    """PrimeHub says GB and means GiB."""
    return None if size is None else round(size / GIB, 3)


def size_in_bytes(gigabytes: float) -> int:
    """What is far too much stays a number, for others to refuse."""
    return round(min(gigabytes, 2**40) * GIB)


def seconds(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds())


def deadline(limit: timedelta | None) -> int:
    """A time limit that is in force; 0 for none."""
    return 0 if limit is None else min(max(round(limit.total_seconds()), 1), MAX_INT)


def whole_numbers(value: Any) -> Any:
    """2.0 -> 2 throughout: JavaScript knows one kind of number, so PrimeHub's clients have never seen `2.0`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [whole_numbers(each) for each in value]
    return value

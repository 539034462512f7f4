"""Scalar values in the formats of PrimeHub's clients."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ariadne import ScalarType

from holdfast.core.job import GIB

MAX_INT = 2**31 - 1  # of a GraphQL Int

json_type = ScalarType("JSON")  # unchanged in both directions


def format_time(at: datetime | None) -> str | None:
    """2021-08-18T07:56:48Z"""
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_exact_time(at: datetime | None) -> str | None:
    """2021-08-18T07:59:19.642Z"""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_gigabytes(size: int | None) -> float | None:
    """Convert bytes to GiB, which PrimeHub calls GB."""
    return None if size is None else round(size / GIB, 3)


def gigabytes_to_bytes(gigabytes: float) -> int:
    """Convert to bytes; a size that is too large stays a number, for the validation to reject."""
    return round(min(gigabytes, 2**40) * GIB)


def to_seconds(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds())


def get_deadline_seconds(limit: timedelta | None) -> int:
    """Return the time limit in seconds; 0 for none."""
    return 0 if limit is None else min(max(round(limit.total_seconds()), 1), MAX_INT)


def to_whole_numbers(value: Any) -> Any:
    """Convert 2.0 to 2 everywhere: JavaScript has one number type, so PrimeHub's clients do not expect `2.0`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: to_whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_whole_numbers(each) for each in value]
    return value

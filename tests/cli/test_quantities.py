from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from typer import BadParameter

from holdfast.cli.quantities import (
    format_count,
    format_duration,
    format_size,
    format_span,
    parse_duration,
    parse_size,
    resolve_since,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "ten minutes", "10x", "-5m", "m", "1h 30m?"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadParameter, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("512Mi", 512 << 20), ("2GiB", 2 << 30), ("1.5G", 1_500_000_000), ("1k", 1000)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "2X", "-1Gi"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadParameter, match="not a size"):
        parse_size(text)


def test_since_is_a_duration_or_a_time() -> None:
    assert resolve_since("10m", NOW) == NOW - timedelta(minutes=10)
    assert resolve_since("2026-01-31T11:00:00Z", NOW) == NOW - timedelta(hours=1)
    with pytest.raises(BadParameter, match="neither a duration"):
        resolve_since("yesterday", NOW)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0.0s"), (4.94, "4.9s"), (30.9, "30s"), (192, "3m12s"), (7500, "2h05m"), (273600, "3d4h")],
)
def test_shown_durations(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(("count", "shown"), [(0, "0 cores"), (0.5, "0.5 cores"), (1.0, "1 core"), (12, "12 cores")])
def test_shown_counts(count: float, shown: str) -> None:
    assert format_count(count, "core") == shown


def test_a_span_goes_on_until_it_ends() -> None:
    start = NOW - timedelta(seconds=30)
    assert format_span(start, None, NOW) == "30s"
    assert format_span(start, start + timedelta(seconds=5), NOW) == "5.0s"
    assert format_span(None, None, NOW) == ""


@pytest.mark.parametrize(
    ("size", "shown"), [(None, ""), (100, "100 B"), (2 << 30, "2 GiB"), (10 << 40, "10 TiB"), (1_500_000, "1.4 MiB")]
)
def test_shown_sizes(size: int | None, shown: str) -> None:
    assert format_size(size) == shown

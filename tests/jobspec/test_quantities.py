"""Durations and sizes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jobspec.quantities import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90m", 5400), ("2h30m", 9000), ("1d", 86400), ("1w", 604800), ("1.5h", 5400), ("0s", 0), ("1h 30m 5s", 5405),
     ("0.000001s", 1e-6), (" 10 s ", 10)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "90", "1:30", "m", "1y", "-1h", "1h-5m", "1e3s", "h1", "1.h", "１h"])
def test_not_durations(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("512Mi", 512 * 1024**2), ("2Gi", 2 * 1024**3), ("1.5G", 1_500_000_000), ("1.5Gi", 1_610_612_736), ("4096", 4096),
     ("1k", 1000), ("1KiB", 1024), ("2 GB", 2_000_000_000), ("512m", 512_000_000), ("1Ti", 1024**4), ("7b", 7)],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "Gi", "2X", "-1G", "1e9", "1.2.3G", "2Gib2", "١G"])
def test_not_sizes(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (90, "1m30s"), (86400, "1d"), (5400, "1h30m"), (0.25, "0.25s")]
)
def test_written_durations(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.timedeltas(timedelta(0), timedelta(days=36500)))
def test_every_duration_survives(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(0, 2**60) | st.integers(0, 2**20).map(lambda count: count * 1024**2))
def test_every_size_survives(size: int) -> None:
    assert parse_size(str(format_size(size))) == size

"""How long something took, as pages write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.server.portal.rendering import render_elapsed_time

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00"), (0.04, "0.1 s"), (0.46, "0.4 s"), (0.999, "0.9 s"), (1, "00:00:01"), (93784.5, "1d 02:03:04")],
)
def test_what_has_ended_within_a_second_took_some_time(seconds: float, text: str) -> None:
    assert render_elapsed_time(BEGAN, BEGAN + timedelta(seconds=seconds)) == f'<span class="span">{text}</span>'


def test_what_goes_on_is_counted_in_whole_seconds() -> None:
    shown = render_elapsed_time(BEGAN, None, BEGAN + timedelta(seconds=0.4))
    assert shown == '<span class="span" data-since="2026-01-01T00:00:00Z">00:00:00</span>'

"""How much is used, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.core.scheduling.placement import Quota, ResourceAmount
from holdfast.server.portal.usage_lines import build_quota_lines
from holdfast.server.portal.visit import Visit

ENGLISH = cast(Visit, SimpleNamespace(translate_text=str))


@pytest.mark.parametrize(("cpu", "told"), [(0.3 - 0.1 - 0.2, "0 of ∞"), (0.1 + 0.2, "0.3 of ∞"), (12.0, "12 of ∞")])
def test_what_sums_of_fractions_leave_behind_is_not_told(cpu: float, told: str) -> None:
    assert build_quota_lines(ENGLISH, ResourceAmount(cpu=cpu), Quota())[0].text == told

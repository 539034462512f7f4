"""How many examples a test of Hypothesis tries: few in `make test`, all and more in `make test-all`."""

from __future__ import annotations

import os

_SHARE = float(os.environ.get("HOLDFAST_LONGER", "0.3"))


def examples(count: int) -> int:
    """Of the number that is thorough, the share that HOLDFAST_LONGER asks for."""
    return max(10, round(count * _SHARE))

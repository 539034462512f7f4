"""How many more examples Hypothesis tries: HOLDFAST_LONGER=5, which `make test-all` sets, is five times as many."""

from __future__ import annotations

import os

LONGER = int(os.environ.get("HOLDFAST_LONGER", "1"))

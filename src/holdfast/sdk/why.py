"""Calls about why a job is as it is."""

from __future__ import annotations

from .exchange import Call, as_a, call, endpoint, segment
from .why_models import Why


class WhyCalls:
    @endpoint
    def why(self, ref: str) -> Call[Why]:
        """Why it waits, failed or is slow; what would help."""
        return call("GET", f"/jobs/{segment(ref)}/why", as_a(Why))

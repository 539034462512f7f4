"""Calls about why a job is as it is."""

from __future__ import annotations

from holdfast import api

from .exchange import Call, as_a, call, endpoint, segment


class WhyCalls:
    @endpoint
    def why(self, ref: str) -> Call[api.why.Why]:
        """Why it waits, failed or is slow; what would help."""
        return call("GET", f"/jobs/{segment(ref)}/why", as_a(api.why.Why))

    @endpoint
    def why_schedule(self, id: str) -> Call[api.why.Wait]:
        """What the next run of a schedule waits for."""
        return call("GET", f"/schedules/{segment(id)}/why", as_a(api.why.Wait))

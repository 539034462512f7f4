"""Calls that explain the state of a job."""

from __future__ import annotations

from holdfast import api

from .calls import Call, build_path, call, endpoint, parse_as


class WhyCalls:
    @endpoint
    def why(self, ref: str) -> Call[api.why.Why]:
        """Return why a job is pending, failed or slow, and what to do."""
        return call("GET", build_path("jobs", ref, "why"), parse_as(api.why.Why))

    @endpoint
    def why_schedule(self, id: str) -> Call[api.why.Wait]:
        """Return what the next run of a schedule waits for."""
        return call("GET", build_path("schedules", id, "why"), parse_as(api.why.Wait))

"""Calls that explain the state of a job."""

from __future__ import annotations

from holdfast import api

from .calls import Call, build_call, build_path, endpoint


class WhyCalls:
    @endpoint
    def explain_job(self, ref: str) -> Call[api.why.JobExplanation]:
        """Return why a job is pending, failed or slow, and what to do."""
        return build_call("GET", build_path("jobs", ref, "why"), api.why.JobExplanation)

    @endpoint
    def explain_schedule(self, id: str) -> Call[api.why.WaitExplanation]:
        """Return what the next run of a schedule waits for."""
        return build_call("GET", build_path("schedules", id, "why"), api.why.WaitExplanation)

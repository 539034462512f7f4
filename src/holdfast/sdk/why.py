"""Calls that explain the state of a job."""

from __future__ import annotations

from holdfast import api

from .calls import Call, build_call, build_path, endpoint, make_reply_parser


class WhyCalls:
    @endpoint
    def explain_job(self, ref: str) -> Call[api.why.JobExplanation]:
        """Return why a job is pending, failed or slow, and what to do."""
        return build_call("GET", build_path("jobs", ref, "why"), make_reply_parser(api.why.JobExplanation))

    @endpoint
    def explain_schedule(self, id: str) -> Call[api.why.WaitExplanation]:
        """Return what the next run of a schedule waits for."""
        return build_call("GET", build_path("schedules", id, "why"), make_reply_parser(api.why.WaitExplanation))

"""Calls about what jobs use: over time, and now."""

from __future__ import annotations

from holdfast import api

from .exchange import Call, as_a, call, endpoint, segment


class MetricCalls:
    @endpoint
    def metrics(
        self,
        ref: str,
        ring: str = "15m",
        *,
        role: str | None = None,
        task: str | None = None,
        attempt: int | None = None,
    ) -> Call[api.metrics.MetricSeries]:
        """What a job uses over time, the mean over its tasks; or over a role's, or of one task such as worker-0. `ring`
        says how far back: 15m, 1h, 3h or lifetime."""
        params = {"ring": ring, "role": role, "task": task, "attempt": attempt}
        return call("GET", f"/jobs/{segment(ref)}/metrics", as_a(api.metrics.MetricSeries), params=params)

    @endpoint
    def metrics_now(self, ref: str) -> Call[api.metrics.JobNow]:
        """The newest figures of each task of a job that is on a machine."""
        return call("GET", f"/jobs/{segment(ref)}/metrics/now", as_a(api.metrics.JobNow))

    @endpoint
    def load(self) -> Call[api.metrics.PlaceNow]:
        """What running jobs use now, and what tasks use on each machine."""
        return call("GET", "/metrics/now", as_a(api.metrics.PlaceNow))

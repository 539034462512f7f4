"""Calls about metrics."""

from __future__ import annotations

from holdfast import api

from .calls import Call, build_call, build_path, endpoint


class MetricCalls:
    @endpoint
    def get_metrics(
        self,
        ref: str,
        ring: str = "15m",
        *,
        role: str | None = None,
        task: str | None = None,
        attempt: int | None = None,
    ) -> Call[api.metrics.MetricSeries]:
        """Return metrics over time: the mean over all tasks, over a role's tasks, or one task such as worker-0. `ring`:
        the time range, 15m, 1h, 3h or lifetime."""
        params = {"ring": ring, "role": role, "task": task, "attempt": attempt}
        return build_call("GET", build_path("jobs", ref, "metrics"), api.metrics.MetricSeries, params=params)

    @endpoint
    def get_current_metrics(self, ref: str) -> Call[api.metrics.JobUsage]:
        """Return the latest metrics of each task of a job on a node."""
        return build_call("GET", build_path("jobs", ref, "metrics", "now"), api.metrics.JobUsage)

    @endpoint
    def get_current_usage(self) -> Call[api.metrics.InstallationUsage]:
        """Return the current usage of jobs, groups and nodes."""
        return build_call("GET", "/metrics/now", api.metrics.InstallationUsage)

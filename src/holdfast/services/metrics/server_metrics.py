"""How the server itself does: counted and timed as it works, read by Prometheus."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from holdfast import __version__

LOOK = 1.0  # seconds between two looks at the event loop
SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class Vitals:
    """One per server. What is told to it may come from any thread."""

    def __init__(self) -> None:
        # They would be a second series for each counter, which tells when the server started.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._lag = self._histogram("holdfast_event_loop_lag_seconds", "How late the event loop got to a timer.")
        self._requests = Counter(
            "holdfast_http_requests_total",
            "Requests that were answered.",
            ["surface", "method", "status"],
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            "holdfast_http_request_duration_seconds",
            "Seconds from a request to the beginning of its answer.",
            ["surface"],
            buckets=SHORT,
            registry=self._registry,
        )
        self._writes = self._histogram(
            "holdfast_db_write_duration_seconds", "Seconds that writing a batch to the database took."
        )
        self._batches = self._histogram(
            "holdfast_db_write_batch_size", "Writes that went to the database in one transaction.", BATCHES
        )
        self._looks = self._histogram(
            "holdfast_sampling_duration_seconds", "Seconds that one look at what running tasks use took."
        )
        Info("holdfast_build", "The version that runs.", registry=self._registry).info({"version": __version__})
        ProcessCollector(registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Iterable[float] = SHORT) -> Histogram:
        return Histogram(name, text, buckets=tuple(buckets), registry=self._registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._registry.collect()
        yield _memory()

    def answered(self, surface: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(surface, method, str(status)).inc()
        self._request_seconds.labels(surface).observe(seconds)

    def wrote(self, count: int, seconds: float) -> None:
        self._batches.observe(count)
        self._writes.observe(seconds)

    def looked(self, seconds: float) -> None:
        self._looks.observe(seconds)

    async def watch_loop(self, every: float = LOOK) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + every
            await asyncio.sleep(every)
            self._lag.observe(max(loop.time() - due, 0.0))


def _memory() -> Metric:
    """Of the server's own process, by OpenPAI's name."""
    family = GaugeMetricFamily(
        "process_mem_usage_byte", "Memory of the server's process, in bytes.", labels=["cmd", "pid"]
    )
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        family.add_metric(["holdfast", str(os.getpid())], int(file.read().split()[1]) * resource.getpagesize())
    return family

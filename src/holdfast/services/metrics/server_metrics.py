"""Metrics of the server process for Prometheus."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from holdfast import __version__

LAG_MEASUREMENT_INTERVAL = 1.0  # seconds between two measurements of the event loop lag
DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


class ServerMetrics:
    """Metrics of one server; thread-safe."""

    def __init__(self) -> None:
        # They would add a second series to each counter, with only the start time of the server.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._lag = self._create_histogram("holdfast_event_loop_lag_seconds", "Lag of timers in the event loop.")
        self._requests = Counter(
            "holdfast_http_requests_total", "HTTP requests.", ["surface", "method", "status"], registry=self._registry
        )
        self._request_seconds = Histogram(
            "holdfast_http_request_duration_seconds",
            "Seconds from a request to the start of its response.",
            ["surface"],
            buckets=DURATION_BUCKETS,
            registry=self._registry,
        )
        self._write_seconds = self._create_histogram(
            "holdfast_db_write_duration_seconds", "Duration of a batch write to the database."
        )
        self._batch_sizes = self._create_histogram(
            "holdfast_db_write_batch_size", "Writes per database transaction.", BATCH_BUCKETS
        )
        self._sampling_seconds = self._create_histogram(
            "holdfast_sampling_duration_seconds", "Duration of sampling the usage of running tasks."
        )
        Info("holdfast_build", "Version of the server.", registry=self._registry).info({"version": __version__})
        ProcessCollector(registry=self._registry)

    def _create_histogram(self, name: str, text: str, buckets: Iterable[float] = DURATION_BUCKETS) -> Histogram:
        return Histogram(name, text, buckets=tuple(buckets), registry=self._registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._registry.collect()
        yield _collect_memory()

    def record_request(self, surface: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(surface, method, str(status)).inc()
        self._request_seconds.labels(surface).observe(seconds)

    def record_write(self, count: int, seconds: float) -> None:
        self._batch_sizes.observe(count)
        self._write_seconds.observe(seconds)

    def record_sampling(self, seconds: float) -> None:
        self._sampling_seconds.observe(seconds)

    async def watch_event_loop(self, every: float = LAG_MEASUREMENT_INTERVAL) -> None:
        """Measure the event loop lag until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + every
            await asyncio.sleep(every)
            self._lag.observe(max(loop.time() - due, 0.0))


def _collect_memory() -> Metric:
    """Return the memory of the server process under OpenPAI's metric name."""
    family = GaugeMetricFamily(
        "process_mem_usage_byte", "Memory of the server's process, in bytes.", labels=["cmd", "pid"]
    )
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        family.add_metric(["holdfast", str(os.getpid())], int(file.read().split()[1]) * resource.getpagesize())
    return family

"""Memory and CPU usage of an idle server."""

from __future__ import annotations

import time

from .harness import Options, print_progress, start_server
from .rows import Row, below

WARM_UP_JOBS = 20
SETTLE_SECONDS = 5.0  # after the last job


def measure(options: Options) -> list[Row]:
    seconds = options.pick_size(20, 5)
    with start_server("idle", options) as server:
        for _ in range(WARM_UP_JOBS):
            server.run_job("name: warm-up\ncommand: 'true'\nresources: {cpu: 0.1, memory: 64Mi}\n")
        time.sleep(SETTLE_SECONDS)
        print_progress(f"idle: watching for {seconds} s")
        cpu_before, started = server.read_cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        cpu_percent = (server.read_cpu_seconds() - cpu_before) / (time.monotonic() - started) * 100
        note = f"after {WARM_UP_JOBS} jobs"
        return [
            Row("idle: memory", server.read_memory(), "MB", below(110), note),
            Row("idle: CPU", cpu_percent, "%", below(1), f"over {seconds} s"),
        ]

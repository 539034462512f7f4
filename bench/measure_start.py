"""Time from the acknowledged submission to the command's first byte, one job at a time on an idle server.

The command first prints the time; it uses the same clock as the client.
"""

from __future__ import annotations

import time

from .harness import Options, print_progress, start_server
from .rows import Row, below, percentile

WARM_UP_JOBS = 5
JOB_FILE = 'name: start\ncommand: echo "$EPOCHREALTIME"\nresources: {cpu: 1, memory: 256Mi}\n'


def measure(options: Options) -> list[Row]:
    count = options.pick_size(100, 20)
    print_progress(f"start: {count} jobs, one after the other")
    delays = []
    with start_server("start", options) as server, server.connect() as connection:
        for number in range(WARM_UP_JOBS + count):
            job = connection.submit_job(JOB_FILE)
            acknowledged_at = time.time()
            server.wait_for_end(job["id"])
            printed_at = float(server.read_log(job["id"], stream="stdout"))
            if number >= WARM_UP_JOBS:
                delays.append((printed_at - acknowledged_at) * 1000)
    note = f"{count} jobs, p95 {percentile(delays, 95):.0f} ms"
    return [Row("start: p50 to the first byte", percentile(delays, 50), "ms", below(20), note)]

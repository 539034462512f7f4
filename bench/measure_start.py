"""From the acknowledged submission to the command's first byte, one job at a time on an idle server.

The command prints the time as its first act; that clock and the client's are the same machine's.
"""

from __future__ import annotations

import time

from .harness import Options, say, server
from .rows import Row, below, percentile

WARM_UP = 5
JOB = 'name: start\ncommand: echo "$EPOCHREALTIME"\nresources: {cpu: 1, memory: 256Mi}\n'


def measure(options: Options) -> list[Row]:
    count = options.pick(100, 20)
    say(f"start: {count} jobs, one after the other")
    delays = []
    with server("start", options) as running, running.connect() as connection:
        for number in range(WARM_UP + count):
            job = connection.submit(JOB)
            acknowledged = time.time()
            running.wait(job["id"])
            printed = float(running.log(job["id"], stream="stdout"))
            if number >= WARM_UP:
                delays.append((printed - acknowledged) * 1000)
    note = f"{count} jobs, p95 {percentile(delays, 95):.0f} ms"
    return [Row("start: p50 to the first byte", percentile(delays, 50), "ms", below(20), note)]

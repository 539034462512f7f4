"""What a server costs that has nothing to do."""

from __future__ import annotations

import time

from .harness import Options, say, server
from .rows import Row, below

WARM_UP_JOBS = 20
SETTLE = 5.0  # seconds after the last job


def measure(options: Options) -> list[Row]:
    span = options.pick(20, 5)
    with server("idle", options) as running:
        for _ in range(WARM_UP_JOBS):
            running.run("name: warm-up\ncommand: 'true'\nresources: {cpu: 0.1, memory: 64Mi}\n")
        time.sleep(SETTLE)
        say(f"idle: watching for {span} s")
        before, began = running.cpu_seconds(), time.monotonic()
        time.sleep(span)
        share = (running.cpu_seconds() - before) / (time.monotonic() - began) * 100
        note = f"after {WARM_UP_JOBS} jobs"
        return [
            Row("idle: memory", running.rss(), "MB", below(110), note),
            Row("idle: CPU", share, "%", below(1), f"over {span} s"),
        ]

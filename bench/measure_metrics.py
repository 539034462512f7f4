"""What metrics of 200 running tasks cost a whole server: sampling them, saving the samples, and answers."""

from __future__ import annotations

import time

from .harness import TIMEOUT, BenchServer, Options, say, server
from .rows import Row, below, percentile

COUNT = 200
A_JOB = (
    "name: crowd\nroles: {{w: {{instances: {count}, command: sleep 3600, resources: {{cpu: 0.1, memory: 64Mi}}}}}}\n"
)
YOUNG = 65.0  # seconds after which tasks are looked at every 10
SETTLE = 5.0  # seconds after the last start


def measure(options: Options) -> list[Row]:
    count, span, looks = options.pick(COUNT, 20), options.pick(60, 20), options.pick(40, 10)
    with server("metrics", options, HOLDFAST_NODE_CPUS="64", HOLDFAST_NODE_MEMORY=str(64 * 2**30)) as running:
        job = running.submit(A_JOB.format(count=count))
        running.wait_for_state(job, "Running")
        _until_all_were_seen(running, job, count)
        time.sleep(SETTLE if options.quick else YOUNG)
        say(f"metrics: {count} tasks, watching for {span} s")
        before, began = running.cpu_seconds(), time.monotonic()
        time.sleep(span)
        share = (running.cpu_seconds() - before) / (time.monotonic() - began) * 100
        size = sum(path.stat().st_size for path in running.home.glob("metrics.db*"))
        rows = [Row("metrics: of one core", share, "%", below(5), f"{count} tasks, {size / 1000:.0f} KB so far")]
        for ring in ("15m", "lifetime"):
            times = [_ask(running, job, ring, count) for _ in range(looks)]
            note = f"mean over {count} tasks"
            rows.append(Row(f"metrics: answer {ring} p95", 1000 * percentile(times, 95), "ms", None, note))
        return rows


def _until_all_were_seen(running: BenchServer, job: str, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    with running.connect() as connection:
        while any(task["metrics"] is None for task in connection.get(f"/jobs/{job}/metrics/now")["tasks"]):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all of the {count} tasks were looked at")
            time.sleep(1)


def _ask(running: BenchServer, job: str, ring: str, count: int) -> float:
    with running.connect() as connection:
        began = time.monotonic()
        found = connection.get(f"/jobs/{job}/metrics", ring=ring)
        took = time.monotonic() - began
    if found["averaged"] != count or not found["points"]:
        raise RuntimeError(f"an answer tells of {found['averaged']} tasks and has {len(found['points'])} points")
    return took

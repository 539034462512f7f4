"""Cost of the metrics of 200 running tasks for a whole server: sampling, saving the samples, and responses."""

from __future__ import annotations

import time

from .harness import TIMEOUT, BenchServer, Options, print_progress, start_server
from .rows import Row, below, percentile

TASK_COUNT = 200
JOB_FILE = (
    "name: crowd\nroles: {{w: {{instances: {count}, command: sleep 3600, resources: {{cpu: 0.1, memory: 64Mi}}}}}}\n"
)
INITIAL_SAMPLING_SECONDS = 65.0  # then tasks are sampled every 10 seconds
SETTLE_SECONDS = 5.0  # after the last start


def measure(options: Options) -> list[Row]:
    count, seconds, requests = options.pick_size(TASK_COUNT, 20), options.pick_size(60, 20), options.pick_size(40, 10)
    with start_server("metrics", options, HOLDFAST_NODE_CPUS="64", HOLDFAST_NODE_MEMORY=str(64 * 2**30)) as server:
        job = server.submit_job(JOB_FILE.format(count=count))
        server.wait_for_state(job, "Running")
        _wait_for_first_samples(server, job, count)
        time.sleep(SETTLE_SECONDS if options.quick else INITIAL_SAMPLING_SECONDS)
        print_progress(f"metrics: {count} tasks, watching for {seconds} s")
        cpu_before, started = server.read_cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        cpu_percent = (server.read_cpu_seconds() - cpu_before) / (time.monotonic() - started) * 100
        size = sum(path.stat().st_size for path in server.home.glob("metrics.db*"))
        rows = [Row("metrics: of one core", cpu_percent, "%", below(5), f"{count} tasks, {size / 1000:.0f} KB so far")]
        for ring in ("15m", "lifetime"):
            durations = [_measure_request(server, job, ring, count) for _ in range(requests)]
            note = f"mean over {count} tasks"
            rows.append(Row(f"metrics: answer {ring} p95", 1000 * percentile(durations, 95), "ms", None, note))
        return rows


def _wait_for_first_samples(server: BenchServer, job: str, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    with server.connect() as connection:
        while any(task["metrics"] is None for task in connection.get_json(f"/jobs/{job}/metrics/now")["tasks"]):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not all of the {count} tasks were looked at")
            time.sleep(1)


def _measure_request(server: BenchServer, job: str, ring: str, count: int) -> float:
    with server.connect() as connection:
        started = time.monotonic()
        metrics = connection.get_json(f"/jobs/{job}/metrics", ring=ring)
        duration = time.monotonic() - started
    if metrics["averaged"] != count or not metrics["points"]:
        raise RuntimeError(f"an answer tells of {metrics['averaged']} tasks and has {len(metrics['points'])} points")
    return duration

"""Durable submission by 8 concurrent clients. A job that uses every core keeps the others pending."""

from __future__ import annotations

from .harness import BenchServer, Options, print_progress, start_server
from .load_clients import Submission, submit_from_clients
from .rows import Row, at_least, below, percentile

CLIENTS = 8
WARM_UP_JOBS = 10  # submissions of each client that are not counted


def measure(options: Options) -> list[Row]:
    jobs_per_client = options.pick_size(300, 60)
    with start_server("submit", options) as server:
        occupy_every_core(server)
        submit_from_clients(server.port, server.token, _make_job_files(WARM_UP_JOBS))
        print_progress(f"submit: {CLIENTS} clients, {jobs_per_client} jobs each")
        submissions = submit_from_clients(server.port, server.token, _make_job_files(jobs_per_client))
        _check_durability(server, submissions)
    latencies = [submission.seconds * 1000 for submission in submissions]  # ms
    ended_at = max(submission.sent_at + submission.seconds for submission in submissions)
    rate = len(submissions) / (ended_at - min(submission.sent_at for submission in submissions))
    p50, worst = percentile(latencies, 50), max(latencies)
    note = f"{CLIENTS} clients, {len(submissions)} jobs, p50 {p50:.1f} ms, worst {worst:.0f} ms"
    return [
        Row("submit: p95", percentile(latencies, 95), "ms", below(50), note),
        Row("submit: rate", rate, "per s", at_least(200)),
    ]


def occupy_every_core(server: BenchServer) -> None:
    """Start a job that uses every core, so that later jobs stay pending."""
    with server.connect() as connection:
        cpu = connection.get_json("/capacity")["nodes"][0]["cpu"]
    job = server.submit_job(
        f"name: holds-all\ncommand: sleep 600\ngrace: 0s\nresources: {{cpu: {cpu:g}, memory: 64Mi}}\n"
    )
    server.wait_for_state(job, "Running")


def _make_job_files(jobs_per_client: int) -> list[list[str]]:
    return [
        [
            f"name: submit-{n}-{m}\ncommand: echo {m}\nresources: {{cpu: 1, memory: 64Mi}}\n"
            for m in range(jobs_per_client)
        ]
        for n in range(CLIENTS)
    ]


def _check_durability(server: BenchServer, submissions: list[Submission]) -> None:
    """Check that every acknowledged job exists after a SIGKILL of the server."""
    server.kill()
    server.start()
    with server.connect() as connection:
        stored = connection.get_json("/status")["jobs"].get("Pending", 0)
    if stored != len(submissions) + CLIENTS * WARM_UP_JOBS:
        raise RuntimeError(
            f"{len(submissions)} jobs were acknowledged, {stored - CLIENTS * WARM_UP_JOBS} are there after a kill"
        )

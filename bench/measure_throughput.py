"""Rate of no-op jobs, compared with a bare loop that starts the same sandbox, in turns on the same machine."""

from __future__ import annotations

import shutil
import subprocess
import time
from datetime import datetime
from statistics import median

from .bare_sandbox import BareLoop, read_sandbox_call
from .harness import BenchServer, Options, print_progress, start_server
from .load_clients import submit_from_clients
from .rows import Row, at_least

CLIENTS = 4
JOB_CPU = 0.1  # cores that each job requests, so that many run in parallel
COMPARISON_RUNS = 10


def measure(options: Options) -> list[Row]:
    rounds, jobs, bare_count = options.pick_size(3, 1), options.pick_size(400, 80), options.pick_size(120, 40)
    with start_server("throughput", options) as server:
        parallel_jobs = _count_parallel_jobs(server)
        loop = BareLoop(read_sandbox_call(server), server.home.parent / "bare", (2 * rounds + 2) * bare_count)
        loop.measure_rate(bare_count // 2)  # warm-up, as is the next line
        _measure_job_rate(server, jobs // 4)
        job_rates, bare_rates = [], []
        for number in range(rounds):
            print_progress(f"throughput: round {number + 1} of {rounds}")
            rate_before = loop.measure_rate(bare_count)
            job_rates.append(_measure_job_rate(server, jobs))
            bare_rates.append((rate_before + loop.measure_rate(bare_count)) / 2)
        parallel_rate = loop.measure_rate(bare_count, parallel_jobs)
    ratio = median(job_rate / bare_rate for job_rate, bare_rate in zip(job_rates, bare_rates, strict=True))
    parallel_ratio = median(job_rates) / parallel_rate
    return [
        Row("throughput: against a bare loop", ratio, "×", at_least(0.5), f"goal 0.8; median of {rounds} rounds"),
        Row(
            f"throughput: against {parallel_jobs} bare ones side by side",
            parallel_ratio,
            "×",
            at_least(0.4),
            "goal 0.65",
        ),
        Row("throughput: no-op jobs", median(job_rates), "per s", None, f"{rounds} × {jobs} jobs of {CLIENTS} clients"),
        Row(
            "throughput: bare sandbox, one after the other",
            median(bare_rates),
            "per s",
            None,
            "the same bubblewrap call",
        ),
        Row(f"throughput: bare sandbox, {parallel_jobs} side by side", parallel_rate, "per s"),
        _measure_docker(),
        _measure_slurm(),
    ]


def _count_parallel_jobs(server: BenchServer) -> int:
    with server.connect() as connection:
        cpu = connection.get_json("/capacity")["nodes"][0]["cpu"]
    return max(1, min(16, int(cpu / JOB_CPU)))


def _measure_job_rate(server: BenchServer, count: int) -> float:
    """Return the no-op jobs per second, from the first submission to the end of the last job."""
    first, last = run_no_op_jobs(server, count, JOB_CPU)
    return count // CLIENTS * CLIENTS / (last - first)


def run_no_op_jobs(server: BenchServer, count: int, cpu: float, image: str = "host") -> tuple[float, float]:
    """Return when the first was submitted and the last ended, in seconds since 1970."""
    text = f"name: no-op\ncommand: 'true'\nimage: {image}\nresources: {{cpu: {cpu}, memory: 16Mi}}\n"
    submissions = submit_from_clients(server.port, server.token, [[text] * (count // CLIENTS)] * CLIENTS)
    server.wait_until_idle()
    job_ids = {submission.id for submission in submissions}
    end_times = [
        _parse_time(job["finished_at"]) for job in _list_succeeded_jobs(server, len(job_ids)) if job["id"] in job_ids
    ]
    if len(end_times) != len(job_ids):
        raise RuntimeError(f"{len(end_times)} of {len(job_ids)} no-op jobs succeeded")
    return min(submission.sent_at for submission in submissions), max(end_times)


def _list_succeeded_jobs(server: BenchServer, count: int) -> list[dict[str, str]]:
    jobs: list[dict[str, str]] = []
    cursor = None
    with server.connect() as connection:
        while len(jobs) < count:
            page = connection.get_json("/jobs", state="Succeeded", limit=500, cursor=cursor)
            jobs += page["items"]
            cursor = page["next"]
            if not cursor:
                break
    return jobs


def _parse_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _measure_docker() -> Row:
    name = "throughput: docker run --rm, one after the other"
    if shutil.which("docker") is None:
        return _make_skipped_row(name, "Docker is not installed")
    image = _read_first_line(["docker", "image", "ls", "--quiet"])
    if not image:
        return _make_skipped_row(name, "no Docker daemon, or no image in it")
    return _measure_command(name, ["docker", "run", "--rm", "--entrypoint", "", image, "true"])


def _measure_slurm() -> Row:
    name = "throughput: srun true, one after the other"
    if shutil.which("srun") is None:
        return _make_skipped_row(name, "Slurm is not installed")
    if not _read_first_line(["sinfo", "--noheader"]):
        return _make_skipped_row(name, "no Slurm controller answers")
    return _measure_command(name, ["srun", "true"])


def _measure_command(name: str, command: list[str]) -> Row:
    try:
        for number in range(1 + COMPARISON_RUNS):
            if number == 1:
                started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return _make_skipped_row(name, f"it does not work here: {error}")
    return Row(name, COMPARISON_RUNS / (time.perf_counter() - started), "per s", None, "for comparison")


def _read_first_line(command: list[str]) -> str:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (process.stdout.splitlines() or [""])[0].strip()


def _make_skipped_row(name: str, reason: str) -> Row:
    return Row(name, None, "per s", None, f"skipped: {reason}")

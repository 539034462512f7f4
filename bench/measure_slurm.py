"""The Slurm engine against plain `sbatch` and `squeue`, on a small cluster of its own that is started and removed here.

Rates and delays are compared in turns, on the same cluster: other work on this machine slows down both.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.slurm_cluster import NODES, PROGRAMS, SlurmCluster, run_cluster

from .client import Connection
from .harness import TIMEOUT, BenchServer, Options, print_progress, start_server
from .measure_logs import read_events
from .measure_throughput import CLIENTS, run_no_op_jobs
from .rows import Bar, Row, at_least, at_most, below

QUEUED_TASKS = 500
TICK = 2.0  # seconds between two looks at the tasks, at most
SETTLE_SECONDS = 75.0  # after the last task was submitted, until the engine looks seldom
POLL_INTERVAL = 0.1  # seconds between two calls of squeue by the plain loop
# Both streams in files, and the exit code recorded, as a user's own script would do it.
NO_OP_SCRIPT = "#!/bin/sh\nbash -c true >{folder}/out 2>{folder}/err\necho $? >{folder}/code\n"
_LOOK_PATTERN = re.compile(r"REQUEST_JOB_INFO +\( *[0-9]+\) +count:([0-9]+)")


def measure(options: Options) -> list[Row]:
    reason = _find_obstacle()
    if reason:
        return [Row("slurm", None, "", None, f"skipped: {reason}")]
    with run_cluster() as cluster:
        with _start_server(cluster, options, isolation="none") as (server, plain):
            rows = _measure_throughput(server, plain, options, "without isolation", at_least(0.8))
        with _start_server(cluster, options, isolation="auto") as (server, plain):
            return [
                *_measure_delay(server, plain, options),
                *rows,
                *_measure_throughput(server, plain, options, "isolated"),
                *_measure_queue(server, cluster, options),
            ]


@contextmanager
def _start_server(cluster: SlurmCluster, options: Options, isolation: str) -> Iterator[tuple[BenchServer, PlainJobs]]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as shared:
        settings = {
            "HOLDFAST_ENGINE_KIND": "slurm",
            "HOLDFAST_SLURM_CONF": str(cluster.conf),
            "HOLDFAST_SLURM_FOLDER": shared,
            "HOLDFAST_SLURM_ISOLATION": isolation,
            "HOLDFAST_SLURM_MAX_QUEUED": str(QUEUED_TASKS),
        }
        with start_server("slurm", options, **settings) as server:
            yield server, PlainJobs(cluster, Path(shared))


def _find_obstacle() -> str:
    if os.geteuid() != 0:
        return "only root can start a Slurm cluster"
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    return f"{missing[0]} is not installed" if missing else ""


class PlainJobs:
    """Jobs without Holdfast, as a user's script would submit them."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def submit(self, script: str, output: str = "/dev/null") -> None:
        command = ["sbatch", "--parsable", "--job-name=plain", "--mem=16M", f"--output={output}", "--chdir=/"]
        subprocess.run(command, input=script, env=self._cluster.env, check=True, capture_output=True, text=True)

    def _submit_no_op(self, number: int) -> None:
        folder = self._folder / "plain" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        self.submit(NO_OP_SCRIPT.format(folder=folder))

    def measure_rate(self, count: int) -> float:
        """Return the no-op jobs per second, until `squeue` shows none."""
        started = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(self._submit_no_op, range(count)))
        while self._cluster.query("squeue", "-h", "--name=plain", "-o", "%i").strip():
            time.sleep(POLL_INTERVAL)
        return count / (time.monotonic() - started)

    def measure_first_byte(self) -> float:
        """Return the milliseconds from sbatch to the first byte of the output."""
        output = self._folder / "plain.out"
        output.unlink(missing_ok=True)
        started = time.perf_counter()
        self.submit("#!/bin/sh\necho begin\n", str(output))
        deadline = started + TIMEOUT
        while not (output.exists() and output.stat().st_size):
            if time.perf_counter() > deadline:
                raise RuntimeError("a plain job did not start")
            time.sleep(0.001)
        return (time.perf_counter() - started) * 1000


# -- from the submission to the first byte of the log


def _measure_delay(server: BenchServer, plain: PlainJobs, options: Options) -> list[Row]:
    count = options.pick_size(20, 5)
    print_progress(f"slurm: {count} jobs one at a time")
    pairs = []
    with server.connect() as connection:
        _measure_first_byte(server, connection)  # warm-up
        plain.measure_first_byte()
        for number in range(count):
            _wait_for_phase(number / count)
            ours = _measure_first_byte(server, connection)
            _wait_for_phase(number / count)
            pairs.append((ours, plain.measure_first_byte()))
    ours, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    note = f"{ours:.0f} ms against {theirs:.0f} ms, medians of {count}"
    return [Row("slurm: submit to first byte, above sbatch", ours - theirs, "ms", at_most(150), note)]


def _wait_for_phase(phase: float) -> None:
    """Wait until a part of a second. slurmctld starts jobs once a second, so the delay depends on the part in which a
    job is submitted: both kinds are submitted in all parts."""
    time.sleep((phase - time.time()) % 1)


def _measure_first_byte(server: BenchServer, connection: Connection) -> float:
    """Return the milliseconds from the request to the first byte that a client of the log gets."""
    started = time.perf_counter()
    job = connection.submit_job("name: first\ncommand: echo begin\nimage: host\nresources: {cpu: 1, memory: 16Mi}\n")
    with server.connect() as follower:
        first = next(received_at for text, received_at in read_events(follower, job["id"]) if text)
    seconds = first - (time.time() - (time.perf_counter() - started))
    server.wait_for_end(job["id"])
    return seconds * 1000


# -- throughput


def _measure_throughput(
    server: BenchServer, plain: PlainJobs, options: Options, name: str, bar: Bar | None = None
) -> list[Row]:
    rounds, count = options.pick_size(5, 1), options.pick_size(200, 40)
    run_no_op_jobs(server, 20, 1)  # warm-up
    plain.measure_rate(20)
    ratios, rates = [], []
    for number in range(rounds):
        print_progress(f"slurm: throughput, round {number + 1} of {rounds}")
        before = plain.measure_rate(count)
        first, last = run_no_op_jobs(server, count, 1)
        rates.append(count / (last - first))
        ratios.append(rates[-1] / ((before + plain.measure_rate(count)) / 2))
    note = f"median of {rounds} rounds, {min(ratios):.2f} to {max(ratios):.2f}"
    return [
        Row(f"slurm: no-op jobs {name}, against sbatch and squeue", median(ratios), "×", bar, note),
        Row(f"slurm: no-op jobs {name}", median(rates), "per s", None, f"{rounds} × {count} jobs of {CLIENTS} clients"),
    ]


# -- a long queue


def _measure_queue(server: BenchServer, cluster: SlurmCluster, options: Options) -> list[Row]:
    seconds, tasks = options.pick_size(60, 10), options.pick_size(QUEUED_TASKS, 50)
    busy = ["sbatch", "--parsable", f"--nodes={len(NODES)}", "--exclusive", "--output=/dev/null", "--wrap=sleep 3600"]
    cluster.query(*busy)
    command = "gang: false\nimage: host\nresources: {cpu: 1, memory: 16Mi}\ngrace: 0s\n"
    job = server.submit_job(f"name: queue\n{command}roles: {{a: {{instances: {tasks}, command: 'true'}}}}\n")
    print_progress(f"slurm: {tasks} tasks wait in the queue")
    _wait_for_queue(cluster, tasks)
    time.sleep(options.pick_size(int(SETTLE_SECONDS), 5))
    looks, cpu, started = _count_looks(cluster), server.read_cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - started
    cpu = (server.read_cpu_seconds() - cpu) / took * 100
    looks = _count_looks(cluster) - looks
    with server.connect() as connection:
        events = len(connection.get_json(f"/jobs/{job}/events", limit=500)["items"])
    cluster.query("scancel", "--state=RUNNING", "--user=root")
    note = f"{looks} in {took:.0f} s"
    return [
        Row(f"slurm: squeue calls, {tasks} tasks queued", looks / (took / TICK), "per tick", at_most(1), note),
        Row(f"slurm: CPU, {tasks} tasks queued", cpu, "%", below(2), f"with its commands, over {took:.0f} s"),
        Row(f"slurm: events of a job with {tasks} queued tasks", events, "", None),
    ]


def _wait_for_queue(cluster: SlurmCluster, tasks: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while len(cluster.query("squeue", "-h", "-t", "PENDING", "-o", "%i").splitlines()) < tasks:
        if time.monotonic() > deadline:
            raise RuntimeError("the tasks were not submitted")
        time.sleep(1)


def _count_looks(cluster: SlurmCluster) -> int:
    """Return how often jobs were listed since the controller started."""
    found = _LOOK_PATTERN.search(cluster.query("sdiag"))
    return int(found[1]) if found else 0

"""No-op jobs end to end, against a bare loop that starts the same sandbox, in turns on the same machine."""

from __future__ import annotations

import shutil
import subprocess
import time
from datetime import datetime
from statistics import median

from .bare import BareLoop, read_sandbox
from .harness import BenchServer, Options, say, server
from .load import submit_from_clients
from .rows import Row, at_least

CLIENTS = 4
CPU = 0.1  # cores each job asks for: many run side by side
NEIGHBOUR_RUNS = 10


def measure(options: Options) -> list[Row]:
    rounds, jobs, bare_count = options.pick(3, 1), options.pick(400, 80), options.pick(120, 40)
    with server("throughput", options) as running:
        at_once = _at_once(running)
        loop = BareLoop(read_sandbox(running), running.home.parent / "bare", (2 * rounds + 2) * bare_count)
        loop.per_second(bare_count // 2)  # warm-up, as is the next line
        _jobs_per_second(running, jobs // 4)
        ours, bare = [], []
        for number in range(rounds):
            say(f"throughput: round {number + 1} of {rounds}")
            before = loop.per_second(bare_count)
            ours.append(_jobs_per_second(running, jobs))
            bare.append((before + loop.per_second(bare_count)) / 2)
        parallel = loop.per_second(bare_count, at_once)
    ratio = median(mine / other for mine, other in zip(ours, bare, strict=True))
    shared = median(ours) / parallel
    return [
        Row("throughput: against a bare loop", ratio, "×", at_least(0.5), f"goal 0.8; median of {rounds} rounds"),
        Row(f"throughput: against {at_once} bare ones side by side", shared, "×", at_least(0.4), "goal 0.65"),
        Row("throughput: no-op jobs", median(ours), "per s", None, f"{rounds} × {jobs} jobs of {CLIENTS} clients"),
        Row("throughput: bare sandbox, one after the other", median(bare), "per s", None, "the same bubblewrap call"),
        Row(f"throughput: bare sandbox, {at_once} side by side", parallel, "per s"),
        _docker(),
        _slurm(),
    ]


def _at_once(running: BenchServer) -> int:
    with running.connect() as connection:
        cpu = connection.get("/capacity")["nodes"][0]["cpu"]
    return max(1, min(16, int(cpu / CPU)))


def _jobs_per_second(running: BenchServer, count: int) -> float:
    """From the first submission sent to the last job finished."""
    text = f"name: no-op\ncommand: 'true'\nresources: {{cpu: {CPU}, memory: 16Mi}}\n"
    done = submit_from_clients(running.port, running.token, [[text] * (count // CLIENTS)] * CLIENTS)
    running.wait_until_idle()
    wanted = {one.id for one in done}
    ends = [_instant(job["finished_at"]) for job in _succeeded(running, len(wanted)) if job["id"] in wanted]
    if len(ends) != len(wanted):
        raise RuntimeError(f"{len(ends)} of {len(wanted)} no-op jobs succeeded")
    return len(ends) / (max(ends) - min(one.sent_at for one in done))


def _succeeded(running: BenchServer, count: int) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    cursor = None
    with running.connect() as connection:
        while len(found) < count:
            page = connection.get("/jobs", state="Succeeded", limit=500, cursor=cursor)
            found += page["items"]
            cursor = page["next"]
            if not cursor:
                break
    return found


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _docker() -> Row:
    name = "throughput: docker run --rm, one after the other"
    if shutil.which("docker") is None:
        return _skipped(name, "Docker is not installed")
    image = _first_line(["docker", "image", "ls", "--quiet"])
    if not image:
        return _skipped(name, "no Docker daemon, or no image in it")
    return _timed(name, ["docker", "run", "--rm", "--entrypoint", "", image, "true"])


def _slurm() -> Row:
    name = "throughput: srun true, one after the other"
    if shutil.which("srun") is None:
        return _skipped(name, "Slurm is not installed")
    if not _first_line(["sinfo", "--noheader"]):
        return _skipped(name, "no Slurm controller answers")
    return _timed(name, ["srun", "true"])


def _timed(name: str, command: list[str]) -> Row:
    try:
        for number in range(1 + NEIGHBOUR_RUNS):
            if number == 1:
                began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return _skipped(name, f"it does not work here: {error}")
    return Row(name, NEIGHBOUR_RUNS / (time.perf_counter() - began), "per s", None, "for comparison")


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()


def _skipped(name: str, why: str) -> Row:
    return Row(name, None, "per s", None, f"skipped: {why}")

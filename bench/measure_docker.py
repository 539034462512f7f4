"""Rate of no-op jobs in Docker, compared with a bare loop of the same create, start, wait and remove calls.

Both use a Docker daemon of their own, which is started and removed here. The engine's code is not used for the bare
loop: a sleeping job is started on the server, and its container is read from the daemon. Only the command differs.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import aiodocker
from tests.container_daemons import IMAGE, ContainerDaemon, Dockerd, run_daemon

from .harness import BenchServer, Options, print_progress, start_server
from .measure_throughput import run_no_op_jobs
from .rows import Row, at_least

PARALLEL = 16
SLEEPER = f"name: sleeper\ncommand: sleep 3600\nimage: {IMAGE}\ngrace: 0s\nresources: {{cpu: 1, memory: 16Mi}}\n"
CORES = os.cpu_count() or 1


def measure(options: Options) -> list[Row]:
    reason = _find_obstacle()
    if reason:
        return [Row(f"docker: no-op jobs, {name}", None, "×", None, f"skipped: {reason}") for name in ("serial", "16")]
    with run_daemon(Dockerd) as daemon:
        settings = {"HOLDFAST_ENGINE_KIND": "docker", "HOLDFAST_ENGINE_SOCKET": daemon.socket}
        with start_server("docker", options, HOLDFAST_ENGINE_CPUS=str(CORES), **settings) as server:
            return _measure_rows(server, daemon, options)


def _find_obstacle() -> str:
    if os.geteuid() != 0:
        return "only root can start a Docker daemon"
    missing = [program for program in ("dockerd", "unshare", "busybox") if shutil.which(program) is None]
    return f"{missing[0]} is not installed" if missing else ""


def _measure_rows(server: BenchServer, daemon: ContainerDaemon, options: Options) -> list[Row]:
    loop = BareContainers(daemon, _read_container(server, daemon))
    rounds = options.pick_size(3, 1)
    rows = []
    for name, parallel, count in (
        ("one at a time", 1, options.pick_size(24, 8)),
        (f"{PARALLEL} at once", PARALLEL, options.pick_size(96, 32)),
    ):
        cpu = CORES / parallel  # so that no more jobs run at once
        loop.set_cpu_limit(cpu)
        loop.measure_rate(count // 2, parallel)  # warm-up, as is the next line
        _measure_job_rate(server, daemon, max(4, count // 2), cpu)
        ratios, rates = [], []
        for number in range(rounds):
            print_progress(f"docker: {name}, round {number + 1} of {rounds}")
            before = loop.measure_rate(count, parallel)
            rates.append(_measure_job_rate(server, daemon, count, cpu))
            ratios.append(rates[-1] / ((before + loop.measure_rate(count, parallel)) / 2))
        note = f"median of {rounds} rounds"
        rows.append(Row(f"docker: against a bare loop, {name}", median(ratios), "×", at_least(0.8), note))
        rows.append(Row(f"docker: no-op jobs, {name}", median(rates), "per s", None, f"{rounds} × {count} jobs"))
    return rows


def _measure_job_rate(server: BenchServer, daemon: ContainerDaemon, count: int, cpu: float) -> float:
    """Return the jobs per second, from the first submission until the last container is removed."""
    first, _ = run_no_op_jobs(server, count, cpu, IMAGE)
    with daemon.client() as client:
        while client.get("/containers/json", params={"all": "1"}).json():
            time.sleep(0.02)
    return count / (time.time() - first)


def _read_container(server: BenchServer, daemon: ContainerDaemon) -> dict[str, Any]:
    """Start a sleeping job, and return the body that creates its container, with a copy of its folder."""
    job = server.submit_job(SLEEPER)
    server.wait_for_state(job, "Running")
    with daemon.client() as client:
        (found,) = client.get("/containers/json").json()
        details = client.get(f"/containers/{found['Id']}/json").json()
    (folder,) = (server.home / "engines" / "docker" / "tasks").glob(f"{job}*")
    copy = server.home.parent / "bare"
    shutil.copytree(folder, copy, symlinks=True)
    with server.connect() as connection:
        connection.request("POST", f"/api/v1/jobs/{job}/stop")
    server.wait_for_end(job)
    kept = ("Image", "Entrypoint", "User", "WorkingDir", "Hostname", "Env", "StopSignal", "Healthcheck")
    body = {name: details["Config"][name] for name in kept if details["Config"].get(name)}
    for mount in details["HostConfig"]["Mounts"]:
        mount["Source"] = mount["Source"].replace(str(folder), str(copy))
    return {**body, "Cmd": ["-c", "true"], "HostConfig": details["HostConfig"]}


class BareContainers:
    def __init__(self, daemon: ContainerDaemon, body: dict[str, Any]) -> None:
        self._url = f"unix://{daemon.socket}"
        self._body = body
        self._numbers = itertools.count()

    def set_cpu_limit(self, cores: float) -> None:
        self._body["HostConfig"]["NanoCpus"] = int(cores * 1_000_000_000)

    def measure_rate(self, count: int, parallel: int) -> float:
        """Run `count` containers in parallel loops. Return the containers per second."""
        return asyncio.run(self._measure_rate(count, parallel))

    async def _measure_rate(self, count: int, parallel: int) -> float:
        async with aiodocker.Docker(url=self._url) as docker:
            remaining = iter(range(count))
            await docker.version()
            started = time.perf_counter()
            await asyncio.gather(*(self._run_containers(docker, remaining) for _ in range(parallel)))
            return count / (time.perf_counter() - started)

    async def _run_containers(self, docker: aiodocker.Docker, remaining: Iterator[int]) -> None:
        for _ in remaining:
            container = await docker.containers.create(self._body, name=f"bare-{next(self._numbers)}")
            await container.start()
            ended = await container.wait()
            if ended["StatusCode"] != 0:
                raise RuntimeError(f"a bare container ended with {ended}")
            await container.delete(v=True)

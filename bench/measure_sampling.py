"""Cost of sampling 200 running tasks, each a shell with a sleeping child and four TCP connections.

The engine runs in this process. Only the CPU time of the sampling thread is counted, as the share of one core with a
round every 10 seconds: with the control groups of this machine, and without.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.job import MIB, Resources
from holdfast.core.metrics.samples import Reading
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded import EmbeddedEngine, cgroups

from .harness import TIMEOUT, Options, create_bench_folder, print_progress
from .rows import Row, below, percentile

SAMPLING_INTERVAL = 10.0  # seconds between two rounds
CONNECTIONS = 4
TASK_SCRIPT = """
for each in {connections}; do exec {{line}}<>/dev/tcp/127.0.0.1/{port}; echo >&$line; done
echo up
while :; do sleep 600; done
"""


def measure(options: Options) -> list[Row]:
    count = options.pick_size(200, 20)
    rounds = options.pick_size(20, 5)
    rows = []
    for name, find_cgroups in (("control groups", None), ("no control groups", lambda **_: (None, "for comparison"))):
        with create_bench_folder("sampling", options) as folder:
            rows += asyncio.run(_measure(folder, count, rounds, name, find_cgroups))
    return rows


async def _measure(
    folder: Path, count: int, rounds: int, name: str, find_cgroups: Callable[..., Any] | None
) -> list[Row]:
    async with _run_tasks(folder, count, find_cgroups) as (engine, ids):
        print_progress(f"sampling: {count} tasks, {engine.get_health().limits}")
        _check_readings(await engine.measure_tasks(ids), ids)  # the first round also discovers the tasks' processes
        costs = [await engine._run_in_thread(lambda: _measure_round(engine, ids)) for _ in range(rounds)]
        end_costs = [_measure_final_sample(engine, attempt_id) for attempt_id in ids[:50]]
    cpu_percent = 100 * sum(costs) / len(costs) / SAMPLING_INTERVAL
    note = f"{count} tasks, {name}; a round takes {1000 * percentile(costs, 50):.0f} ms of processor time"
    return [
        Row(f"sampling: of one core, {name}", cpu_percent, "%", below(5), note),
        Row(f"sampling: final metrics of an ended task, {name}", 1000 * percentile(end_costs, 50), "ms", below(1)),
    ]


def _measure_round(engine: EmbeddedEngine, ids: list[str]) -> float:
    """Measure all tasks once. Return the CPU seconds of this thread."""
    tasks = engine._list_measured_tasks()
    started = time.thread_time()
    readings = engine._task_metrics._rounds.measure_tasks(tasks, ids)
    seconds = time.thread_time() - started
    _check_readings(readings, ids)
    return seconds


def _measure_final_sample(engine: EmbeddedEngine, attempt_id: str) -> float:
    """Read the final metrics of a task, as at its end. Return the CPU seconds of this thread."""
    note = engine._task_folders.get_folder(attempt_id).read_start_note()
    started = time.thread_time()
    engine._task_metrics.read_final_usage(attempt_id, note, 0.0)
    return time.thread_time() - started


def _check_readings(readings: Mapping[str, Reading], ids: list[str]) -> None:
    if set(readings) != set(ids) or any(reading.net_out is None for reading in readings.values()):
        raise RuntimeError("not every task was measured")
    if sum(reading.net_out or 0 for reading in readings.values()) < len(ids) * CONNECTIONS:
        raise RuntimeError("the connections of tasks were not found")


@asynccontextmanager
async def _run_tasks(
    folder: Path, count: int, find_cgroups: Callable[..., Any] | None
) -> AsyncIterator[tuple[EmbeddedEngine, list[str]]]:
    """Run that many idle tasks with open connections. At the end, stop and remove them."""
    original = cgroups.find_cgroups
    if find_cgroups is not None:
        cgroups.find_cgroups = find_cgroups
    engine = EmbeddedEngine(folder / "engine")
    connected = 0
    all_connected = asyncio.Event()
    ended: asyncio.Queue[Observation] = asyncio.Queue()

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        await reader.readline()
        connected += 1
        if connected >= count * CONNECTIONS:
            all_connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(handle_connection, "127.0.0.1", 0)
    try:
        await engine.open(
            lambda observation: ended.put_nowait(observation) if observation.seen is ObservedState.EXITED else None
        )
        port = server.sockets[0].getsockname()[1]
        ids = [f"bench-{number}" for number in range(count)]
        for attempt_id in ids:
            await engine.start(_make_launch(attempt_id, port))
        await asyncio.wait_for(all_connected.wait(), TIMEOUT)
        yield engine, ids
        await _remove_tasks(engine, ids, ended)
        await asyncio.wrap_future(engine._cleaner._executor.submit(lambda: None))  # after all removals
    finally:
        await engine.close()
        server.close()
        cgroups.find_cgroups = original


async def _remove_tasks(engine: EmbeddedEngine, ids: list[str], ended: asyncio.Queue[Observation]) -> None:
    for attempt_id in ids:
        await engine.stop(attempt_id, 0)
    for _ in ids:
        await engine.remove((await asyncio.wait_for(ended.get(), TIMEOUT)).attempt_id)


def _make_launch(attempt_id: str, port: int) -> LaunchSpec:
    return LaunchSpec(
        attempt_id=attempt_id,
        job_id="bench",
        task="worker-0",
        user="bench",
        group="bench",
        image="host",
        script=TASK_SCRIPT.format(connections=" ".join("x" * CONNECTIONS), port=port),
        shell_options=(),
        env={},
        resources=Resources(cpu=0.1, memory=64 * MIB),
    )

"""What it costs to measure running tasks: 200 of them, each a shell with a sleeping child and four TCP connections.

The engine runs in this process, and only the processor time of the thread that does the rounds is counted, as the
share of one core that a round every 10 seconds takes: with the control groups of this machine, and without any.
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

from .harness import TIMEOUT, Options, folder, say
from .rows import Row, below, percentile

INTERVAL = 10.0  # seconds between two rounds of a server
CONNECTIONS = 4
SCRIPT = """
for each in {connections}; do exec {{line}}<>/dev/tcp/127.0.0.1/{port}; echo >&$line; done
echo up
while :; do sleep 600; done
"""


def measure(options: Options) -> list[Row]:
    count = options.pick(200, 20)
    rounds = options.pick(20, 5)
    rows = []
    for name, find in (("control groups", None), ("no control groups", lambda **_: (None, "for comparison"))):
        with folder("sampling", options) as place:
            rows += asyncio.run(_measure(place, count, rounds, name, find))
    return rows


async def _measure(place: Path, count: int, rounds: int, name: str, find: Callable[..., Any] | None) -> list[Row]:
    async with _crowd(place, count, find) as (engine, ids):
        say(f"sampling: {count} tasks, {engine.get_health().limits}")
        _check(await engine.measure_tasks(ids), ids)  # the first one also finds out what there is
        costs = [await engine._run_in_thread(lambda: _round(engine, ids)) for _ in range(rounds)]
        ends = [_end(engine, attempt_id) for attempt_id in ids[:50]]
    share = 100 * sum(costs) / len(costs) / INTERVAL
    note = f"{count} tasks, {name}; a round takes {1000 * percentile(costs, 50):.0f} ms of processor time"
    return [
        Row(f"sampling: of one core, {name}", share, "%", below(5), note),
        Row(f"sampling: final metrics of an ended task, {name}", 1000 * percentile(ends, 50), "ms", below(1)),
    ]


def _round(engine: EmbeddedEngine, ids: list[str]) -> float:
    """Seconds of this thread's processor time."""
    tasks = [engine._task_watch.get(attempt_id) for attempt_id in ids]
    subjects = [engine._make_subject(task, task.note) for task in tasks if task is not None and task.note is not None]
    began = time.thread_time()
    found = engine._task_metrics._rounds.measure_tasks(subjects, ids)
    spent = time.thread_time() - began
    _check(found, ids)
    return spent


def _end(engine: EmbeddedEngine, attempt_id: str) -> float:
    """Seconds of processor time for what is read when a task ends: the same files."""
    note = engine._task_folders.get_folder(attempt_id).read_start_note()
    began = time.thread_time()
    engine._task_metrics.read_final_usage(attempt_id, note, 0.0)
    return time.thread_time() - began


def _check(found: Mapping[str, Reading], ids: list[str]) -> None:
    if set(found) != set(ids) or any(reading.net_out is None for reading in found.values()):
        raise RuntimeError("not every task was measured")
    if sum(reading.net_out or 0 for reading in found.values()) < len(ids) * CONNECTIONS:
        raise RuntimeError("the connections of tasks were not found")


@asynccontextmanager
async def _crowd(
    place: Path, count: int, find: Callable[..., Any] | None
) -> AsyncIterator[tuple[EmbeddedEngine, list[str]]]:
    """That many tasks, all at rest with their connections open."""
    real = cgroups.find_cgroups
    if find is not None:
        cgroups.find_cgroups = find
    engine = EmbeddedEngine(place / "engine")
    connected = 0
    all_there = asyncio.Event()
    ended: asyncio.Queue[Observation] = asyncio.Queue()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        await reader.readline()
        connected += 1
        if connected >= count * CONNECTIONS:
            all_there.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    try:
        await engine.open(lambda seen: ended.put_nowait(seen) if seen.seen is ObservedState.EXITED else None)
        port = server.sockets[0].getsockname()[1]
        ids = [f"bench-{number}" for number in range(count)]
        for attempt_id in ids:
            await engine.start(_launch(attempt_id, port))
        await asyncio.wait_for(all_there.wait(), TIMEOUT)
        yield engine, ids
        await _remove(engine, ids, ended)
        await asyncio.wrap_future(engine._cleaner._executor.submit(lambda: None))  # after all removals
    finally:
        await engine.close()
        server.close()
        cgroups.find_cgroups = real


async def _remove(engine: EmbeddedEngine, ids: list[str], ended: asyncio.Queue[Observation]) -> None:
    for attempt_id in ids:
        await engine.stop(attempt_id, 0)
    for _ in ids:
        await engine.remove((await asyncio.wait_for(ended.get(), TIMEOUT)).attempt_id)


def _launch(attempt_id: str, port: int) -> LaunchSpec:
    return LaunchSpec(
        attempt_id=attempt_id,
        job_id="bench",
        task="worker-0",
        user="bench",
        group="bench",
        image="host",
        script=SCRIPT.format(connections=" ".join("x" * CONNECTIONS), port=port),
        shell_options=(),
        env={},
        resources=Resources(cpu=0.1, memory=64 * MIB),
    )

"""Many schedules that are due at the same time: how long until all their jobs exist, also if the server is killed.

A job that uses every core keeps these jobs pending.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.core.job import Job, Resources, Role
from holdfast.core.schedule import Recurrence, RecurrenceKind, Schedule
from holdfast.store import schedules
from holdfast.store.database import Store
from holdfast.store.vault import Vault

from .harness import TIMEOUT, BenchServer, Options, create_bench_folder, kill_processes_below, print_progress
from .measure_submit import occupy_every_core
from .rows import Row, at_most, below, percentile

START_SECONDS = 4.0  # for the server's start, before the schedules are due
POLL_INTERVAL = 0.05  # seconds


@dataclass(slots=True)
class RunResult:
    seconds: float  # from the due time until all jobs existed
    lost: int
    duplicates: int  # schedules with more than one job
    response_times: list[float]  # of another client's requests meanwhile, in seconds


def measure(options: Options) -> list[Row]:
    count = options.pick_size(10_000, 1000)
    rows = []
    for name, with_kill in (("", False), (", killed in the middle", True)):
        print_progress(f"schedules: {count} due at one moment{name}")
        with create_bench_folder("schedules", options) as folder:
            rows += _make_rows(name, count, _measure_run(folder / "home", count, with_kill=with_kill))
    return rows


def _make_rows(name: str, count: int, result: RunResult) -> list[Row]:
    worst = max(result.response_times, default=0.0) * 1000
    note = f"others are answered in {percentile(result.response_times, 50) * 1000:.0f} ms, worst {worst:.0f} ms"
    return [
        Row(
            f"schedules: until {count} jobs exist{name}",
            result.seconds,
            "s",
            below(60),
            note if result.response_times else "",
        ),
        Row(f"schedules: jobs lost{name}", result.lost, "jobs", at_most(0)),
        Row(f"schedules: jobs made twice{name}", result.duplicates, "jobs", at_most(0)),
    ]


def _measure_run(home: Path, count: int, *, with_kill: bool) -> RunResult:
    server = BenchServer(home)
    server.start()
    try:
        occupy_every_core(server)
        server.kill()
        due_at = asyncio.run(_create_schedules(home, count))
        server.start()
        return _watch_jobs(server, count, due_at, with_kill)
    finally:
        server.kill()
        kill_processes_below(home)


async def _create_schedules(home: Path, count: int) -> datetime:
    """Create schedules that are due at a full minute, late enough to start a server before it. Return that time."""
    store = Store.open(f"sqlite:///{home / 'holdfast.db'}", vault=Vault.open(home / "secret.key"))
    try:
        now = datetime.now(UTC)
        due_at = (now + timedelta(seconds=60 + START_SECONDS + count / 1000)).replace(second=0, microsecond=0)
        new_schedules = [_make_schedule(n, due_at, now) for n in range(count)]
        await asyncio.gather(
            *(store.write(schedules.create_schedule, schedule=schedule, job=schedule.job) for schedule in new_schedules)
        )
    finally:
        await store.close()
    return due_at


def _make_schedule(number: int, due_at: datetime, now: datetime) -> Schedule:
    role = Role(name="main", commands=("true",), resources=Resources(cpu=1, memory=64 * 2**20))
    job = Job(name=f"due-{number}", group="default", roles=(role,))
    cron = f"{due_at.minute} {due_at.hour} * * *"
    return Schedule(
        id="",
        name=job.name,
        user="admin",
        group=job.group,
        job=job,
        source=f"name: {job.name}\ncommand: 'true'\nresources: {{cpu: 1, memory: 64Mi}}\n",
        recurrence=Recurrence(kind=RecurrenceKind.CUSTOM, cron=cron, timezone="UTC"),
        next_run_at=due_at,
        created_at=now,
        updated_at=now,
    )


def _watch_jobs(server: BenchServer, count: int, due_at: datetime, with_kill: bool) -> RunResult:
    response_times: list[float] = []
    while (wait := due_at.timestamp() - time.time()) > 0:
        time.sleep(min(wait, 1.0))
    with closing(sqlite3.connect(f"file:{server.home / 'holdfast.db'}?mode=ro", uri=True)) as database:
        while (created := _count_schedules_with_job(database)) < count:
            if with_kill and created > count // 3:
                with_kill = False
                server.kill()
                server.start()
            if time.time() > due_at.timestamp() + TIMEOUT:
                break
            response_times.append(_measure_request(server))
            time.sleep(POLL_INTERVAL)
        seconds = time.time() - due_at.timestamp()
        lost = count - created
        duplicates = database.execute(
            "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE schedule_id IS NOT NULL GROUP BY schedule_id"
            " HAVING count(*) > 1)"
        ).fetchone()[0]
    return RunResult(seconds, lost, duplicates, response_times)


def _count_schedules_with_job(database: sqlite3.Connection) -> int:
    """Count the schedules that have a job."""
    query = "SELECT count(DISTINCT schedule_id) FROM jobs WHERE schedule_id IS NOT NULL"
    return int(database.execute(query).fetchone()[0])


def _measure_request(server: BenchServer) -> float:
    started = time.monotonic()
    with server.connect() as connection:
        connection.get_json("/jobs", limit=10)
    return time.monotonic() - started

"""Many schedules that are due at one moment: how long until all their jobs exist, also when the server dies meanwhile.

The jobs wait behind one that holds every core: nothing else happens.
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

from .harness import TIMEOUT, BenchServer, Options, end_tasks_below, folder, say
from .measure_submit import hold_every_core
from .rows import Row, at_most, below, percentile

LEAD = 4.0  # seconds from the server's start until the minute at which they are due
LOOK_INTERVAL = 0.05


@dataclass(slots=True)
class Outcome:
    took: float  # seconds from the moment they were due until all jobs existed
    lost: int
    twice: int
    answers: list[float]  # seconds that the server took to answer somebody else meanwhile


def measure(options: Options) -> list[Row]:
    count = options.pick(10_000, 1000)
    rows = []
    for name, kill in (("", False), (", killed in the middle", True)):
        say(f"schedules: {count} due at one moment{name}")
        with folder("schedules", options) as place:
            rows += _rows(name, count, _measure_one(place / "home", count, kill=kill))
    return rows


def _rows(name: str, count: int, found: Outcome) -> list[Row]:
    worst = max(found.answers, default=0.0) * 1000
    note = f"others are answered in {percentile(found.answers, 50) * 1000:.0f} ms, worst {worst:.0f} ms"
    return [
        Row(f"schedules: until {count} jobs exist{name}", found.took, "s", below(60), note if found.answers else ""),
        Row(f"schedules: jobs lost{name}", found.lost, "jobs", at_most(0)),
        Row(f"schedules: jobs made twice{name}", found.twice, "jobs", at_most(0)),
    ]


def _measure_one(home: Path, count: int, *, kill: bool) -> Outcome:
    running = BenchServer(home)
    running.start()
    try:
        hold_every_core(running)
        running.kill()
        due_at = asyncio.run(_fill(home, count))
        running.start()
        return _watch(running, count, due_at, kill)
    finally:
        running.kill()
        end_tasks_below(home)


async def _fill(home: Path, count: int) -> datetime:
    """All of them due at the next full minute, with a little time left to start a server."""
    store = Store.open(f"sqlite:///{home / 'holdfast.db'}", vault=Vault.open(home / "secret.key"))
    try:
        now = datetime.now(UTC)
        due_at = (now + timedelta(seconds=60 + LEAD + count / 1000)).replace(second=0, microsecond=0)
        made = [_schedule(n, due_at, now) for n in range(count)]
        await asyncio.gather(*(store.write(schedules.create_schedule, schedule=one, job=one.job) for one in made))
    finally:
        await store.close()
    return due_at


def _schedule(number: int, due_at: datetime, now: datetime) -> Schedule:
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


def _watch(running: BenchServer, count: int, due_at: datetime, kill: bool) -> Outcome:
    answers: list[float] = []
    while (wait := due_at.timestamp() - time.time()) > 0:
        time.sleep(min(wait, 1.0))
    with closing(sqlite3.connect(f"file:{running.home / 'holdfast.db'}?mode=ro", uri=True)) as database:
        while (made := _made(database)) < count:
            if kill and made > count // 3:
                kill = False
                running.kill()
                running.start()
            if time.time() > due_at.timestamp() + TIMEOUT:
                break
            answers.append(_asked(running))
            time.sleep(LOOK_INTERVAL)
        took = time.time() - due_at.timestamp()
        lost = count - made
        twice = database.execute(
            "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE schedule_id IS NOT NULL GROUP BY schedule_id"
            " HAVING count(*) > 1)"
        ).fetchone()[0]
    return Outcome(took, lost, twice, answers)


def _made(database: sqlite3.Connection) -> int:
    """Schedules that have a job."""
    query = "SELECT count(DISTINCT schedule_id) FROM jobs WHERE schedule_id IS NOT NULL"
    return int(database.execute(query).fetchone()[0])


def _asked(running: BenchServer) -> float:
    began = time.monotonic()
    with running.connect() as connection:
        connection.get("/jobs", limit=10)
    return time.monotonic() - began

"""Many schedules are due when the server starts, and it is killed again and again while it makes their jobs.

Afterwards: each has one job, none is lost, none was made twice, and all of them have run.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.core.job import Job, Resources, Role
from holdfast.core.schedule import Recurrence, RecurrenceKind, Schedule
from holdfast.store import schedules
from holdfast.store.database import Store
from holdfast.store.vault import Vault

from .server import TIMEOUT, Server

pytestmark = pytest.mark.release

MANY = 300
KILLS = 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "home")
    running.start()
    yield running
    running.stop()


def test_each_schedule_has_one_job_however_often_the_server_dies(server: Server) -> None:
    server.stop()
    ids = asyncio.run(fill(server.home))
    server.start()
    with closing(sqlite3.connect(f"file:{server.home / 'holdfast.db'}?mode=ro", uri=True)) as database:
        for kill in range(1, KILLS + 1):
            wait_for_jobs(database, MANY * kill // (KILLS + 1))
            server.kill()
            server.start()
        wait_for_jobs(database, MANY)
        found = [row[0] for row in database.execute("SELECT schedule_id FROM jobs")]
        runs = [row[0] for row in database.execute("SELECT schedule_id FROM schedule_runs WHERE job_id IS NOT NULL")]
    assert sorted(found) == sorted(ids)
    assert sorted(runs) == sorted(ids)
    wait_until_idle(server)  # the controller has heard of every one of them
    page = server.get("/jobs", state="Succeeded", limit=500).json()
    assert len(page["items"]) == MANY


async def fill(home: Path) -> list[str]:
    """Due a moment ago, every one."""
    store = Store.open(f"sqlite:///{home / 'holdfast.db'}", vault=Vault.open(home / "secret.key"))
    try:
        made = [a_schedule(number) for number in range(MANY)]
        work = (store.write(schedules.create_schedule, schedule=one, job=one.job) for one in made)
        return [schedule.id for schedule in await asyncio.gather(*work)]
    finally:
        await store.close()


def a_schedule(number: int) -> Schedule:
    now = datetime.now(UTC)
    role = Role(name="main", commands=("true",), resources=Resources(cpu=0.1, memory=64 * 2**20))
    job = Job(name=f"due-{number}", group="default", roles=(role,))
    return Schedule(
        id="",
        name=job.name,
        user="admin",
        group="default",
        job=job,
        source=f"name: {job.name}\ncommand: 'true'\n",
        recurrence=Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 0 29 2 *", timezone="UTC"),
        next_run_at=now - timedelta(seconds=1),
        created_at=now,
        updated_at=now,
    )


def wait_for_jobs(database: sqlite3.Connection, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while database.execute("SELECT count(*) FROM jobs").fetchone()[0] < count:
        assert time.monotonic() < deadline, "the jobs were not made"
        time.sleep(0.01)


def wait_until_idle(server: Server) -> None:
    deadline = time.monotonic() + TIMEOUT * 3
    while sum(server.get("/status").json()["jobs"].values()):
        assert time.monotonic() < deadline, "jobs are still active"
        time.sleep(0.1)

"""Fills a SQLite store with finished jobs quickly, as after years of use.

    python -m bench.fill_store HOME 1000000

writes HOME/holdfast.db and HOME/secret.key, as the server expects them. A few hundred jobs are written through
the store; the others are copies of them, each with its own id, user and times, inserted directly into the file.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import string
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.exits.exit import Exit, ExitKind, RetryBehaviour, classify_exit
from holdfast.core.job import GIB, Job, Resources, Role
from holdfast.core.records import Group, NewEvent
from holdfast.core.states import JobState, TaskState
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.jobs import records as jobs
from holdfast.store.rows import MICROS_PER_HOUR, duration_to_micros
from holdfast.store.vault import Vault

USERS = tuple(f"user{i:02}" for i in range(50))
GROUPS = tuple(f"team{i:02}" for i in range(20))
_VERBS = ("train", "eval", "prepare", "export", "tune", "index", "render")
_SUBJECTS = ("resnet50", "bert-base", "llama", "whisper", "tables", "images", "speech", "ranking")
_ID_CHARACTERS = string.ascii_lowercase + string.digits
_HISTORY_LENGTH = timedelta(days=365)  # of the jobs' submission times


def fill_store(path: Path, count: int, *, vault: Vault, template_count: int = 500, seed: int = 1) -> None:
    """Create a store at `path` with `count` finished jobs, each with one task attempt and four events.

    `template_count` of them are different, the others are copies.
    """
    template_count = min(count, template_count)
    rng = random.Random(seed)
    start = datetime.now(UTC) - _HISTORY_LENGTH
    asyncio.run(_submit_templates(path, vault, template_count, rng, start))
    connection = _open_unsafe(path)
    try:
        indexes = _drop_indexes(connection)
        connection.execute("CREATE TEMP TABLE copies (seq INTEGER PRIMARY KEY, template, shift, id, user_name)")
        connection.executemany(
            "INSERT INTO copies VALUES (?, ?, ?, ?, ?)", _iter_copies(count, template_count, rng, start)
        )
        _copy_rows(connection, "jobs")
        with ThreadPoolExecutor(1) as executor, TemporaryDirectory(dir=path.parent) as folder:
            search = Path(folder) / "search.db"
            search_indexing = executor.submit(
                _write_search_index, search, _read_search_table_sql(connection), _read_search_texts(connection)
            )
            for table in ("job_specs", "task_attempts", "events"):
                _copy_rows(connection, table)
            for sql in indexes:
                connection.execute(sql)
            search_indexing.result()
            _import_search_index(connection, search)
        _write_job_hours(connection)
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _open_unsafe(path: Path) -> sqlite3.Connection:
    """Open a database for fast writes that a crash would corrupt."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _drop_indexes(connection: sqlite3.Connection) -> list[str]:
    """Drop all indexes except those of keys. Return the SQL that creates them again."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    indexes = connection.execute(query).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    return [sql for _, sql in indexes]


# -- templates: jobs that the store writes


async def _submit_templates(path: Path, vault: Vault, count: int, rng: random.Random, at: datetime) -> None:
    store = Store.open(f"sqlite:///{path}", vault=vault)
    try:
        for group in GROUPS:
            await store.write(people.create_group, group=Group(name=group))
        await asyncio.gather(*(_run_template(store, _make_job(rng), _make_end(rng), at) for _ in range(count)))
    finally:
        await store.close()


def _make_job(rng: random.Random) -> Job:
    name = f"{rng.choice(_VERBS)}-{rng.choice(_SUBJECTS)}-{rng.randrange(1000)}"
    memory = rng.choice((2, 8, 64)) * GIB
    resources = Resources(cpu=rng.choice((1, 4, 16)), memory=memory, gpu=rng.choice((0, 1, 8)))
    commands = (f"python {name}.py --epochs {rng.randrange(100)}", "echo done")
    role = Role(name="main", commands=commands, resources=resources, env={"SEED": "1"})
    return Job(name=name, group=rng.choice(GROUPS), roles=(role,))


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ends."""

    job: JobState
    task: TaskState
    exit: Exit
    duration: timedelta


def _make_end(rng: random.Random) -> JobEnd:
    draw, duration = rng.random(), timedelta(seconds=rng.randrange(1, 7200))
    if draw < 0.7:
        return JobEnd(JobState.SUCCEEDED, TaskState.SUCCEEDED, classify_exit(0), duration)
    if draw < 0.9:
        return JobEnd(JobState.FAILED, TaskState.FAILED, classify_exit(rng.choice((1, 2, 137))), duration)
    stopped = Exit(kind=ExitKind.CANCELLED, message="Stopped by user00", behaviour=RetryBehaviour.PERMANENT)
    return JobEnd(JobState.CANCELLED, TaskState.STOPPED, stopped, duration)


async def _run_template(store: Store, job: Job, end: JobEnd, at: datetime) -> None:
    event = NewEvent(kind="submitted", message="Submitted", at=at, actor="user00", state=JobState.PENDING)
    new = jobs.NewJob(job=job, user="user00", source="name: x\n" * 20, submitted_at=at, event=event)
    inserted = await store.write(jobs.insert_job, new=new)
    snapshot = await store.read(jobs.load_snapshot, inserted.summary.id)
    task = TaskAttempt(role="main", index=0, state=TaskState.PREPARING, node="node-0", placed_at=at)
    snapshot = await _save_step(store, replace(snapshot, state=JobState.PREPARING, message="Placed"), task, at)
    task = replace(task, state=TaskState.RUNNING, started_at=at)
    snapshot = await _save_step(store, replace(snapshot, state=JobState.RUNNING, started_at=at), task, at)
    task = replace(task, state=end.task, finished_at=at + end.duration, exit=end.exit)
    ended = replace(snapshot, state=end.job, message=end.exit.message, exit=end.exit, finished_at=at + end.duration)
    await _save_step(store, ended, task, at + end.duration)


async def _save_step(store: Store, after: JobSnapshot, task: TaskAttempt, at: datetime) -> JobSnapshot:
    """Save the job's next state with an event. Return the saved snapshot."""
    event = NewEvent(kind=after.state.lower(), message=after.message, at=at, state=after.state)
    after = replace(after, version=after.version + 1)
    change = jobs.JobChange(before_version=after.version - 1, after=after, tasks=(task,), events=(event,))
    await store.write(jobs.save_job_changes, [change])
    return after


# -- copies

_TIME_COLUMNS = ("at", "submitted_at", "placed_at", "started_at", "finished_at", "job_finished_at")
# Columns of a copy c that differ from its template p, besides times.
_COPY_EXPRESSIONS = {
    "jobs": {"seq": "c.seq", "id": "c.id", "user_name": "c.user_name", "search": "replace(p.search, p.id, c.id)"},
    "job_specs": {"job_seq": "c.seq"},
    "task_attempts": {"job_seq": "c.seq"},
    "events": {"job_seq": "c.seq", "seq": "NULL"},
}


def _copy_rows(connection: sqlite3.Connection, table: str) -> None:
    expressions = _COPY_EXPRESSIONS[table]
    key = next(iter(expressions))
    connection.execute(f"CREATE TEMP TABLE p AS SELECT * FROM {table}")
    connection.execute(f"CREATE INDEX temp.p_key ON p ({key})")
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    values = [
        expressions.get(name) or (f"p.{name} + c.shift" if name in _TIME_COLUMNS else f"p.{name}") for name in columns
    ]
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
        f" FROM copies c CROSS JOIN p ON p.{key} = c.template ORDER BY c.seq"
    )
    connection.execute("DROP TABLE p")


def _iter_copies(
    count: int, template_count: int, rng: random.Random, start: datetime
) -> Iterator[tuple[int, int, int, str, str]]:
    """Iterate over the rows of the table `copies`, evenly spread in time. Few users have many jobs, most have few."""
    step = duration_to_micros(_HISTORY_LENGTH) // max(count, 1)
    for seq in range(template_count + 1, count + 1):
        shift = seq * step
        at = start + timedelta(microseconds=shift)
        id = f"job-{at:%Y%m%d%H%M}-{''.join(rng.choices(_ID_CHARACTERS, k=6))}"
        user = USERS[min(int(rng.expovariate(0.15)), len(USERS) - 1)]
        yield seq, rng.randint(1, template_count), shift, id, user


# -- search index and hours


def _read_search_texts(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    return connection.execute("SELECT seq, search FROM jobs").fetchall()


def _write_search_index(path: Path, table_sql: str, texts: list[tuple[int, str]]) -> None:
    """Write the text index to a separate file. It takes longest, and runs in parallel with the rest."""
    connection = _open_unsafe(path)
    connection.execute(table_sql)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO job_search (rowid, text) VALUES (?, ?)", texts)
    connection.execute("COMMIT")
    connection.close()


def _read_search_table_sql(connection: sqlite3.Connection) -> str:
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'job_search'").fetchone()
    return str(sql)


def _import_search_index(connection: sqlite3.Connection, search: Path) -> None:
    """Copy the plain tables that the virtual table consists of."""
    connection.execute("ATTACH ? AS other", (str(search),))
    connection.execute("BEGIN")
    for (table,) in connection.execute(
        "SELECT name FROM other.sqlite_master WHERE name LIKE 'job_search_%'"
    ).fetchall():
        connection.execute(f"DELETE FROM main.{table}")
        connection.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table}")
    connection.execute("COMMIT")
    connection.execute("DETACH other")


def _write_job_hours(connection: sqlite3.Connection) -> None:
    """Write the first and last job of each hour."""
    connection.execute("DELETE FROM job_hours")
    connection.execute(
        "INSERT INTO job_hours (hour, first_seq, last_seq)"
        f" SELECT submitted_at / {MICROS_PER_HOUR} AS hour, min(seq), max(seq) FROM jobs GROUP BY hour"
    )


def main() -> None:
    home, count = Path(sys.argv[1]), int(sys.argv[2])
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    started = time.perf_counter()
    fill_store(home / "holdfast.db", count, vault=Vault.open(home / "secret.key"))
    print(f"{count} jobs in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()

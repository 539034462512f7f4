"""A SQLite store full of finished jobs, made fast: what a place looks like after years.

    python -m bench.fill HOME 1000000

writes HOME/holdfast.db and HOME/secret.key, as the server expects them. A few hundred jobs go through the store
like any other; the rest are their copies, each with its own id, user and times, put straight into the file.
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
_THINGS = ("resnet50", "bert-base", "llama", "whisper", "tables", "images", "speech", "ranking")
_LETTERS = string.ascii_lowercase + string.digits
_SPAN = timedelta(days=365)  # the jobs are spread over


def fill(path: Path, count: int, *, vault: Vault, patterns: int = 500, seed: int = 1) -> None:
    """Make a new store at `path` with `count` finished jobs, each with one task attempt and four events.

    `patterns` of them are different, the rest are copies.
    """
    patterns = min(count, patterns)
    chance = random.Random(seed)
    begin = datetime.now(UTC) - _SPAN
    asyncio.run(_submit_patterns(path, vault, patterns, chance, begin))
    connection = _open_fast(path)
    try:
        indexes = _drop_indexes(connection)
        connection.execute("CREATE TEMP TABLE copies (seq INTEGER PRIMARY KEY, pattern, shift, id, user_name)")
        connection.executemany("INSERT INTO copies VALUES (?, ?, ?, ?, ?)", _copies(count, patterns, chance, begin))
        _copy(connection, "jobs")
        with ThreadPoolExecutor(1) as helper, TemporaryDirectory(dir=path.parent) as folder:
            search = Path(folder) / "search.db"
            searching = helper.submit(_index_text, search, _search_table(connection), _texts(connection))
            for table in ("job_specs", "task_attempts", "events"):
                _copy(connection, table)
            for sql in indexes:
                connection.execute(sql)
            searching.result()
            _take_over(connection, search)
        _count_hours(connection)
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _open_fast(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _drop_indexes(connection: sqlite3.Connection) -> list[str]:
    """All but those of keys; returns what makes them anew."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    found = connection.execute(query).fetchall()
    for name, _ in found:
        connection.execute(f"DROP INDEX {name}")
    return [sql for _, sql in found]


# -- patterns: jobs as the store writes them


async def _submit_patterns(path: Path, vault: Vault, count: int, chance: random.Random, at: datetime) -> None:
    store = Store.open(f"sqlite:///{path}", vault=vault)
    try:
        for group in GROUPS:
            await store.write(people.create_group, group=Group(name=group))
        await asyncio.gather(*(_run_pattern(store, _job(chance), _end(chance), at) for _ in range(count)))
    finally:
        await store.close()


def _job(chance: random.Random) -> Job:
    name = f"{chance.choice(_VERBS)}-{chance.choice(_THINGS)}-{chance.randrange(1000)}"
    memory = chance.choice((2, 8, 64)) * GIB
    resources = Resources(cpu=chance.choice((1, 4, 16)), memory=memory, gpu=chance.choice((0, 1, 8)))
    commands = (f"python {name}.py --epochs {chance.randrange(100)}", "echo done")
    role = Role(name="main", commands=commands, resources=resources, env={"SEED": "1"})
    return Job(name=name, group=chance.choice(GROUPS), roles=(role,))


@dataclass(frozen=True, slots=True)
class End:
    job: JobState
    task: TaskState
    exit: Exit
    after: timedelta


def _end(chance: random.Random) -> End:
    luck, after = chance.random(), timedelta(seconds=chance.randrange(1, 7200))
    if luck < 0.7:
        return End(JobState.SUCCEEDED, TaskState.SUCCEEDED, classify_exit(0), after)
    if luck < 0.9:
        return End(JobState.FAILED, TaskState.FAILED, classify_exit(chance.choice((1, 2, 137))), after)
    stopped = Exit(kind=ExitKind.CANCELLED, message="Stopped by user00", behaviour=RetryBehaviour.PERMANENT)
    return End(JobState.CANCELLED, TaskState.STOPPED, stopped, after)


async def _run_pattern(store: Store, job: Job, end: End, at: datetime) -> None:
    event = NewEvent(kind="submitted", message="Submitted", at=at, actor="user00", state=JobState.PENDING)
    new = jobs.NewJob(job=job, user="user00", source="name: x\n" * 20, submitted_at=at, event=event)
    inserted = await store.write(jobs.insert_job, new=new)
    snapshot = await store.read(jobs.load_snapshot, inserted.summary.id)
    task = TaskAttempt(role="main", index=0, state=TaskState.PREPARING, node="node-0", placed_at=at)
    snapshot = await _step(store, replace(snapshot, state=JobState.PREPARING, message="Placed"), task, at)
    task = replace(task, state=TaskState.RUNNING, started_at=at)
    snapshot = await _step(store, replace(snapshot, state=JobState.RUNNING, started_at=at), task, at)
    task = replace(task, state=end.task, finished_at=at + end.after, exit=end.exit)
    ended = replace(snapshot, state=end.job, message=end.exit.message, exit=end.exit, finished_at=at + end.after)
    await _step(store, ended, task, at + end.after)


async def _step(store: Store, after: JobSnapshot, task: TaskAttempt, at: datetime) -> JobSnapshot:
    event = NewEvent(kind=after.state.lower(), message=after.message, at=at, state=after.state)
    after = replace(after, version=after.version + 1)
    change = jobs.JobChange(before_version=after.version - 1, after=after, tasks=(task,), events=(event,))
    await store.write(jobs.save_job_changes, [change])
    return after


# -- copies

_TIMES = ("at", "submitted_at", "placed_at", "started_at", "finished_at", "job_finished_at")
# How a copy c differs from its pattern p, besides its times.
_OWN = {
    "jobs": {
        "seq": "c.seq",
        "id": "c.id",
        "user_name": "c.user_name",
        "search": "replace(p.search, p.id, c.id)",
    },
    "job_specs": {"job_seq": "c.seq"},
    "task_attempts": {"job_seq": "c.seq"},
    "events": {"job_seq": "c.seq", "seq": "NULL"},
}


def _copy(connection: sqlite3.Connection, table: str) -> None:
    own = _OWN[table]
    key = next(iter(own))
    connection.execute(f"CREATE TEMP TABLE p AS SELECT * FROM {table}")
    connection.execute(f"CREATE INDEX temp.p_key ON p ({key})")
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    values = [own.get(name) or (f"p.{name} + c.shift" if name in _TIMES else f"p.{name}") for name in columns]
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
        f" FROM copies c CROSS JOIN p ON p.{key} = c.pattern ORDER BY c.seq"
    )
    connection.execute("DROP TABLE p")


def _copies(
    count: int, patterns: int, chance: random.Random, begin: datetime
) -> Iterator[tuple[int, int, int, str, str]]:
    """Evenly spread in time. Few people submit much, many little."""
    step = duration_to_micros(_SPAN) // max(count, 1)
    for seq in range(patterns + 1, count + 1):
        shift = seq * step
        at = begin + timedelta(microseconds=shift)
        id = f"job-{at:%Y%m%d%H%M}-{''.join(chance.choices(_LETTERS, k=6))}"
        user = USERS[min(int(chance.expovariate(0.15)), len(USERS) - 1)]
        yield seq, chance.randint(1, patterns), shift, id, user


# -- what the store keeps beside the rows


def _texts(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    return connection.execute("SELECT seq, search FROM jobs").fetchall()


def _index_text(path: Path, table: str, texts: list[tuple[int, str]]) -> None:
    """Text search, in a file of its own: it is the longest part, and can go on beside the others."""
    connection = _open_fast(path)
    connection.execute(table)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO job_search (rowid, text) VALUES (?, ?)", texts)
    connection.execute("COMMIT")
    connection.close()


def _search_table(connection: sqlite3.Connection) -> str:
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'job_search'").fetchone()
    return str(sql)


def _take_over(connection: sqlite3.Connection, search: Path) -> None:
    """A virtual table is a few plain ones."""
    connection.execute("ATTACH ? AS other", (str(search),))
    connection.execute("BEGIN")
    for (table,) in connection.execute(
        "SELECT name FROM other.sqlite_master WHERE name LIKE 'job_search_%'"
    ).fetchall():
        connection.execute(f"DELETE FROM main.{table}")
        connection.execute(f"INSERT INTO main.{table} SELECT * FROM other.{table}")
    connection.execute("COMMIT")
    connection.execute("DETACH other")


def _count_hours(connection: sqlite3.Connection) -> None:
    """Which jobs fell into each hour."""
    connection.execute("DELETE FROM job_hours")
    connection.execute(
        "INSERT INTO job_hours (hour, first_seq, last_seq)"
        f" SELECT submitted_at / {MICROS_PER_HOUR} AS hour, min(seq), max(seq) FROM jobs GROUP BY hour"
    )


def main() -> None:
    home, count = Path(sys.argv[1]), int(sys.argv[2])
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    began = time.perf_counter()
    fill(home / "holdfast.db", count, vault=Vault.open(home / "secret.key"))
    print(f"{count} jobs in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.core.access import Actor
from holdfast.core.attempt import TaskAttempt
from holdfast.core.errors import Forbidden, UserError
from holdfast.core.exits.exit import classify_exit
from holdfast.core.job import GIB, Job, Resources, Role
from holdfast.core.records import NewEvent
from holdfast.core.states import JobState, TaskState
from holdfast.services.metrics.usage import UsageReports
from holdfast.store.database import Store
from holdfast.store.jobs import records as jobs
from holdfast.store.jobs.records import JobChange, NewJob
from holdfast.timezones import get_zone

from .house import open_store

pytestmark = pytest.mark.anyio

ADMIN = Actor(name="admin", admin=True)
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    await opened.close()


def usage(store: Store, timezone: str = "UTC") -> UsageReports:
    return UsageReports(store, get_zone(timezone), clock=lambda: NOW)


def role(name: str, cpu: float = 1, gpu: int = 0, instances: int = 1) -> Role:
    resources = Resources(cpu=cpu, memory=2 * GIB, gpu=gpu)
    return Role(name=name, commands=("true",), instances=instances, resources=resources)


async def ran(
    store: Store,
    *spans: tuple[datetime, datetime | None],
    user: str = "ann",
    group: str = "vision",
    name: str = "job",
    roles: tuple[Role, ...] = (role("main", 4, 1),),
) -> str:
    """A job whose tasks, in the order of its roles, ran in these spans."""
    job, at = Job(name=name, group=group, roles=roles), spans[0][0]
    event = NewEvent(kind="submitted", message="", at=at)
    new = NewJob(job=job, user=user, source="", submitted_at=at, event=event)
    inserted = await store.write(jobs.insert_job, new=new)
    before = await store.read(jobs.load_snapshot, inserted.summary.id)
    places = [(each.name, index) for each in roles for index in range(each.instances)]
    tasks = tuple(
        TaskAttempt(
            role=where[0],
            index=where[1],
            state=TaskState.RUNNING if end is None else TaskState.SUCCEEDED,
            node="here",
            placed_at=start,
            started_at=start,
            finished_at=end,
            exit=None if end is None else classify_exit(0),
        )
        for where, (start, end) in zip(places, spans, strict=True)
    )
    open_ended = any(end is None for _, end in spans)
    after = replace(
        before,
        state=JobState.RUNNING if open_ended else JobState.SUCCEEDED,
        tasks=tasks,
        started_at=spans[0][0],
        finished_at=None if open_ended else max(end for _, end in spans if end),
        version=before.version + 1,
    )
    await store.write(jobs.save_job_changes, [JobChange(before_version=before.version, after=after, tasks=tasks)])
    return inserted.summary.id


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


async def summary(store: Store, year: int, month: int, timezone: str = "UTC") -> list[tuple[str, ...]]:
    rows = table(await usage(store, timezone).render_summary(ADMIN, year, month))
    keys = ("group", "user", "tasks", "cpu_hours", "gpu_hours", "memory_gb_hours")
    assert all(row["component"] == "job" for row in rows)
    return [tuple(row[key] for key in keys) for row in rows]


async def details(store: Store, year: int, month: int) -> list[dict[str, str]]:
    return table("".join([piece async for piece in usage(store).render_details(ADMIN, year, month)]))


async def test_hours_are_summed_up_by_user_and_group(store: Store) -> None:
    begin = datetime(2026, 10, 5, tzinfo=UTC)
    await ran(store, (begin, begin + 2 * HOUR))
    await ran(store, (begin, begin + HOUR))
    await ran(store, (begin, begin + HOUR), group="speech")
    await ran(store, (begin, begin + HOUR / 2), user="bob", roles=(role("main", 0.5),))
    assert await summary(store, 2026, 10) == [
        ("speech", "ann", "1", "4", "1", "2"),
        ("vision", "ann", "2", "12", "3", "6"),
        ("vision", "bob", "1", "0.25", "0", "1"),
    ]
    assert await summary(store, 2026, 9) == []
    assert len(await details(store, 2026, 10)) == 4


async def test_tasks_of_one_role_share_what_the_job_asks_for(store: Store) -> None:
    begin = datetime(2026, 10, 5, tzinfo=UTC)
    spans = [(begin, begin + hours * HOUR) for hours in (1, 2, 3)]
    await ran(store, *spans, roles=(role("main", 2, 1, instances=3),))
    assert await summary(store, 2026, 10) == [("vision", "ann", "3", "12", "6", "12")]


async def test_each_role_counts_with_its_own_size(store: Store) -> None:
    begin = datetime(2026, 10, 5, tzinfo=UTC)
    roles = (role("chief", 8, 2), role("worker", 1, instances=2))
    await ran(store, *[(begin, begin + hours * HOUR) for hours in (1, 10, 10)], roles=roles)
    assert await summary(store, 2026, 10) == [("vision", "ann", "3", "28", "2", "42")]
    rows = await details(store, 2026, 10)
    assert [(row["task"], row["cpu"], row["gpu"], row["cpu_hours"]) for row in rows] == [
        ("chief-0", "8", "2", "8"),
        ("worker-0", "1", "0", "10"),
        ("worker-1", "1", "0", "10"),
    ]


async def test_a_task_across_months_counts_in_each(store: Store) -> None:
    await ran(store, (datetime(2026, 8, 31, 23, tzinfo=UTC), datetime(2026, 10, 1, 2, tzinfo=UTC)))
    assert await summary(store, 2026, 8) == [("vision", "ann", "1", "4", "1", "2")]
    assert await summary(store, 2026, 9) == [("vision", "ann", "1", "2880", "720", "1440")]
    assert await summary(store, 2026, 10) == [("vision", "ann", "1", "8", "2", "4")]
    assert await summary(store, 2026, 7) == await summary(store, 2026, 11) == []
    assert await usage(store).list_months(ADMIN) == [(2026, 10), (2026, 9), (2026, 8)]


async def test_what_runs_counts_until_now(store: Store) -> None:
    await ran(store, (NOW - HOUR, None))
    await ran(store, (datetime(2026, 6, 30, 22, tzinfo=UTC), None), user="bob")
    assert await summary(store, 2026, 11) == [
        ("vision", "ann", "1", "4", "1", "2"),
        ("vision", "bob", "1", "1392", "348", "696"),
    ]
    assert await summary(store, 2026, 6) == [("vision", "bob", "1", "8", "2", "4")]
    assert [row["finished_at"] for row in await details(store, 2026, 7)] == [""]
    assert await usage(store).list_months(ADMIN) == [(2026, month) for month in (11, 10, 9, 8, 7, 6)]


async def test_months_begin_where_the_place_is(store: Store) -> None:
    midnight = datetime(2026, 9, 30, 16, tzinfo=UTC)  # in Taipei
    await ran(store, (midnight - HOUR, midnight + 2 * HOUR))
    assert await summary(store, 2026, 9, "Asia/Taipei") == [("vision", "ann", "1", "4", "1", "2")]
    assert await summary(store, 2026, 10, "Asia/Taipei") == [("vision", "ann", "1", "8", "2", "4")]
    assert await usage(store).list_months(ADMIN) == [(2026, 9)]
    assert await usage(store, "Asia/Taipei").list_months(ADMIN) == [(2026, 10), (2026, 9)]


async def test_a_clock_that_went_back_takes_nothing_away(store: Store) -> None:
    begin = datetime(2026, 10, 5, tzinfo=UTC)
    await ran(store, (begin, begin - 3 * HOUR))
    await ran(store, (begin, begin + HOUR))
    assert [row[3:] for row in await summary(store, 2026, 10)] == [("4", "1", "2")]


async def test_details_come_in_portions_with_every_try_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.services.metrics.usage.PAGE_SIZE", 3)
    begin = datetime(2026, 10, 5, tzinfo=UTC)
    ids = [await ran(store, (begin + number // 4 * HOUR, begin + 9 * HOUR)) for number in range(10)]
    long = await ran(store, (datetime(2026, 9, 1, tzinfo=UTC), begin))
    rows = await details(store, 2026, 10)
    assert sorted(row["job"] for row in rows) == sorted([*ids, long])


async def test_names_cannot_be_formulas(store: Store) -> None:
    begin = datetime(2026, 10, 5, tzinfo=UTC)
    for name in ("=1+1", "+1", "-1", "@x", 'a,"b', "plain"):
        await ran(store, (begin, begin + HOUR), name=name)
    shown = {row["name"] for row in await details(store, 2026, 10)}
    assert shown == {"'=1+1", "'+1", "'-1", "'@x", 'a,"b', "plain"}


async def test_reports_are_for_admins(store: Store) -> None:
    ann = Actor(name="ann", groups={"vision": True})
    reports = usage(store)
    with pytest.raises(Forbidden):
        await reports.list_months(ann)
    with pytest.raises(Forbidden):
        await reports.render_summary(ann, 2026, 10)
    with pytest.raises(Forbidden):
        await anext(reports.render_details(ann, 2026, 10))
    for year, month in ((2026, 13), (2026, 0), (0, 1), (99999, 1)):
        with pytest.raises(UserError):
            await reports.render_summary(ADMIN, year, month)

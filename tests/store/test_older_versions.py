"""Databases of earlier versions are brought to the present with all they hold, or left as they were."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

from holdfast.core.codec import job_to_json
from holdfast.core.errors import UserError
from holdfast.core.job import Job, Role
from holdfast.core.records import JobFilter, OffsetPageQuery
from holdfast.store import people
from holdfast.store.connections import create_database_engine, parse_database_url
from holdfast.store.jobs import records as jobs
from holdfast.store.locks import acquire_advisory_lock, release_advisory_lock
from holdfast.store.rows import to_micros
from holdfast.store.schema import HEAD_REVISION, MIGRATIONS_FOLDER, read_schema_version
from tests.postgres import Postgres

from .open_store import NOW, VAULT, Opened, a_job

_JOB = text(
    "INSERT INTO jobs (id, name, user_name, group_name, state, message, submitted_at, attempt, task_count, cpu,"
    " memory, gpu, priority, dialect, tags_json, user_retries, platform_retries, version, search)"
    " VALUES (:id, :name, 'ann', 'red', 'Succeeded', '', :at, 0, :tasks, 1, 1, 0, 0, 'holdfast', :tags, 0, 0, 1,"
    " :search)"
)
_SPEC = text("INSERT INTO job_specs (job_seq, spec_json, source) VALUES (:seq, :spec, 'name: x')")
_HOUR = text("INSERT INTO job_hours (hour, first_seq, last_seq) VALUES (0, 1, 3)")
_USER = text("INSERT INTO users (name, admin, email, created_at, disabled) VALUES ('ann', true, '', 0, false)")
_TASK = text(
    "INSERT INTO task_attempts (job_seq, attempt, role, task_index, number, state, user_retries, platform_retries)"
    " VALUES (1, 0, 'main', 0, 0, 'Succeeded', 0, 0)"
)
_GROUP = text("INSERT INTO groups (name, description) VALUES ('red', 'The reds')")
MANY = 4500  # jobs: more than are filled together


@pytest.fixture(params=["sqlite", "postgresql"])
def first(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Engine]]:
    """A database of the first version, empty."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.url(postgres.new_database())
    engine = create_database_engine(parse_database_url(url), VAULT, read_only=False)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS_FOLDER))
    with engine.begin() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "0001")
    yield url, engine
    engine.dispose()


def test_jobs_people_and_tags_of_the_first_version(first: tuple[str, Engine]) -> None:
    url, engine = first
    two_roles = a_job(tags=("x", "ä\0"))
    roles = (two_roles.roles[0], Role(name="other", commands=("true",), instances=2))
    spec = {**job_to_json(two_roles), "roles": job_to_json(a_job_of(roles))["roles"]}
    with engine.begin() as conn:
        conn.execute(_JOB, _row(1))
        conn.execute(_JOB, {**_row(2), "tasks": 3, "tags": json.dumps(["x", "ä\0", "x"])})
        conn.execute(_JOB, {**_row(3), "tags": json.dumps(["x"])})
        specs = [job_to_json(a_job()), spec, job_to_json(a_job(tags=("x",)))]
        conn.execute(_SPEC, [{"seq": n, "spec": json.dumps(each)} for n, each in enumerate(specs, 1)])
        for statement in (_TASK, _HOUR, _USER, _GROUP):
            conn.execute(statement)
    opened = Opened(url)
    found = opened.pages(JobFilter(), 10)
    assert [(job.seq, job.role_count, job.tags) for job in found] == [
        (3, 1, ("x",)),
        (2, 2, ("x", "ä\0", "x")),
        (1, 1, ()),
    ]
    page = opened.read(jobs.list_numbered_page, OffsetPageQuery(tags_any=("x",)), count=True)
    assert [job.seq for job in page.items] == [3, 2]
    assert opened.read(jobs.find_newest_named_job, "ann", "n2") == found[1]
    assert opened.read(jobs.list_past_attempts, "job-2") == []
    user, group = opened.read(people.get_user, "ann"), opened.read(people.get_group, "red")
    assert user is not None
    assert group is not None
    assert (user.extension, group.extension, group.hold) == ({}, {}, None)
    (tried,) = opened.read(jobs.list_job_tries, "job-1")
    assert (tried.task.held, tried.task.engine, tried.task.host) == (None, "", "")
    opened.submit("one more")
    opened.close()


@pytest.mark.release_after(1)
def test_many_jobs_are_filled(first: tuple[str, Engine]) -> None:
    url, engine = first
    role = a_job().roles[0]
    spec = json.dumps(job_to_json(a_job_of((role, Role(name="b", commands=("true",))))))
    with engine.begin() as conn:
        numbers = range(1, MANY + 1)
        conn.execute(_JOB, [{**_row(n), "tasks": 2, "tags": json.dumps([f"t{n % 2}"])} for n in numbers])
        conn.execute(_SPEC, [{"seq": n, "spec": spec} for n in numbers])
    opened = Opened(url)
    query = OffsetPageQuery(tags_any=("t0",), limit=MANY)
    page = opened.read(jobs.list_numbered_page, query, count=True)
    assert page.total == MANY // 2
    assert {job.role_count for job in page.items} == {2}
    opened.close()


def test_what_fails_half_way_leaves_the_database_as_it_was_and_can_run_again(first: tuple[str, Engine]) -> None:
    url, engine = first
    with engine.begin() as conn:
        conn.execute(_JOB, {**_row(1), "tasks": 2})
        conn.execute(_SPEC, {"seq": 1, "spec": "{"})
    with pytest.raises((UserError, ValueError)):
        Opened(url)
    with engine.begin() as conn:
        assert read_schema_version(conn) == "0001"
        assert not conn.dialect.has_table(conn, "job_tags")
        conn.execute(text("UPDATE job_specs SET spec_json = :spec"), {"spec": json.dumps(job_to_json(a_job()))})
    opened = Opened(url)
    assert opened.read(read_schema_version) == HEAD_REVISION
    opened.close()


def a_job_of(roles: tuple[Role, ...]) -> Job:
    return replace(a_job(), roles=roles)


def _row(number: int) -> dict[str, object]:
    name = f"n{number}"
    values: dict[str, object] = {"id": f"job-{number}", "name": name, "at": to_micros(NOW), "tasks": 1}
    return {**values, "tags": None, "search": f"{name}\njob-{number}\n\n"}


@pytest.mark.parametrize("first", ["postgresql"], indirect=True)
def test_the_lock_of_a_server_that_died_just_now_is_waited_for(first: tuple[str, Engine]) -> None:
    """PostgreSQL takes a moment to notice that a connection is gone, longer on a busy machine."""
    url, engine = first
    with engine.connect() as held:
        assert acquire_advisory_lock(held)
        noticing = threading.Timer(0.5, lambda: release_advisory_lock(held))
        noticing.start()
        Opened(url).close()
        noticing.join()

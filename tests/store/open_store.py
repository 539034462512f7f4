"""A store opened for a test, and jobs to put into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import Job, Role
from holdfast.core.records import JobFilter, JobSummary, NewEvent, User
from holdfast.core.states import JobState
from holdfast.store.database import Store
from holdfast.store.jobs import records as jobs
from holdfast.store.vault import Vault

P = ParamSpec("P")
T = TypeVar("T")

NOW = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)
VAULT = Vault(bytes(range(32)))


class Opened:
    """A store with an event loop of its own, so that tests read like what they test."""

    def __init__(self, url: str, vault: Vault = VAULT) -> None:
        self.url = url
        self.store = Store.open(url, vault=vault)
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(self.store.read(fn, *args, **kwargs))

    def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(self.store.write(fn, *args, **kwargs))

    def close(self) -> None:
        self.store.close_sync()
        self._runner.close()

    def submit(self, name: str = "hello", **more: Any) -> JobSummary:
        return self.write(jobs.insert_job, new=a_new_job(name, **more)).summary

    def advance(self, id: str, state: JobState, *tasks: TaskAttempt, **more: Any) -> JobSnapshot:
        """The job in a later state, saved."""
        before = self.read(jobs.load_snapshot, id)
        after = replace(before, state=state, version=before.version + 1, **more)
        self.write(jobs.save_job_changes, [jobs.JobChange(before_version=before.version, after=after, tasks=tasks)])
        return after

    def finish(self, id: str, state: JobState = JobState.SUCCEEDED, at: datetime = NOW) -> None:
        self.advance(id, state, TaskAttempt(role="main", index=0), finished_at=at)

    def names(self, filter: JobFilter, limit: int = 50) -> list[str]:
        """Of all pages."""
        return [job.name for job in self.pages(filter, limit)]

    def pages(self, filter: JobFilter, limit: int, **more: Any) -> list[JobSummary]:
        found: list[JobSummary] = []
        cursor = None
        while True:
            page = self.read(jobs.list_job_page, filter, limit, cursor, **more)
            assert len(page.items) <= limit
            found += page.items
            if page.next is None:
                return found
            cursor = page.next


def a_job(name: str = "hello", group: str = "default", **more: Any) -> Job:
    return Job(name=name, group=group, roles=(Role(name="main", commands=("echo hello",)),), **more)


def a_new_job(
    name: str = "hello",
    *,
    user: str = "ann",
    group: str = "default",
    job: Job | None = None,
    at: datetime = NOW,
    **more: Any,
) -> jobs.NewJob:
    return jobs.NewJob(
        job=job or a_job(name, group),
        user=user,
        submitted_at=at,
        event=an_event("submitted", at, actor=user, state=JobState.PENDING),
        **{"source": f"name: {name}\n", **more},
    )


def an_event(kind: str, at: datetime = NOW, **more: Any) -> NewEvent:
    return NewEvent(kind=kind, message=f"It was {kind}", at=at, **more)


def a_user(name: str, **more: Any) -> User:
    return User(name=name, **{"admin": False, "email": f"{name}@example.org", "created_at": NOW, **more})


def later(**span: float) -> datetime:
    return NOW + timedelta(**span)

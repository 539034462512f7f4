"""Calls about jobs: plan, submit, list, show, stop, rerun, extend, release, wait, events, attempts."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from holdfast import api
from holdfast.core.states import JobState

from .exchange import (
    Call,
    Flow,
    Give,
    Steps,
    as_a,
    as_items,
    as_text,
    call,
    endpoint,
    exchange,
    flow,
    given,
    segment,
)

JobText = str | bytes | Mapping[str, Any]

RESTART_TIMEOUT = 60.0  # seconds for a server that is being restarted
POLL = 20.0  # seconds of one long poll
EVENT_POLL = 1.0  # seconds between two looks for events; the end is told at once
PAGE = 500


class JobFilters(TypedDict, total=False):
    """Which jobs to list; every condition given must hold."""

    groups: Iterable[str]
    user: str | None
    mine: bool
    states: Iterable[JobState | str]
    text: str | None  # part of the name or the id
    after: datetime | None  # submitted after
    before: datetime | None


class JobCalls:
    @endpoint
    def plan(
        self,
        job: JobText,
        *,
        group: str | None = None,
        dialect: str | None = None,
        hold: str | None = None,
        notify: str | None = None,
    ) -> Call[api.jobs.Plan]:
        """What would happen to this job if it were submitted now."""
        params = {"group": group, "dialect": dialect, "hold": hold, "notify": notify}
        return call("POST", "/jobs/plan", as_a(api.jobs.Plan), params=params, repeatable=True, **_body(job))

    @endpoint
    def submit(
        self,
        job: JobText,
        *,
        group: str | None = None,
        dialect: str | None = None,
        hold: str | None = None,
        notify: str | None = None,
        key: str | None = None,
    ) -> Call[api.jobs.SubmittedJob]:
        """Submit a job: text in any dialect, or a mapping. Safe to repeat with the same `key`; without one, a fresh key
        lets this very call be repeated when the connection breaks, so that the job is never submitted twice. `hold`
        keeps tasks that fail, whatever the job says: true, 7d, files, files:7d; false: not. `notify` are events to be
        told of, such as failed,held."""
        return call(
            "POST",
            "/jobs",
            as_a(api.jobs.SubmittedJob),
            params={"group": group, "dialect": dialect, "hold": hold, "notify": notify},
            headers=_key(key),
            repeatable=True,
            **_body(job),
        )

    @endpoint
    def jobs(
        self, *, limit: int | None = None, cursor: str | None = None, **filters: Unpack[JobFilters]
    ) -> Call[api.pages.Page[api.jobs.ListedJob]]:
        """One page of the job list, newest first; `cursor` is the `next` of the page before."""
        return _list_jobs(filters, limit, cursor)

    @endpoint
    def job(self, ref: str) -> Call[api.jobs.JobDetail]:
        """One job: by id, by a unique part of it, or the newest of that name."""
        return call("GET", _job(ref), as_a(api.jobs.JobDetail))

    @endpoint
    def stop(self, ref: str) -> Call[api.jobs.JobSummary]:
        """Ask for a job to end; no change when it has ended."""
        return call("POST", f"{_job(ref)}/stop", as_a(api.jobs.JobSummary), repeatable=True)

    @endpoint
    def stop_many(self, refs: Iterable[str]) -> Call[api.jobs.StopReport]:
        """Ask for several jobs to end; says which could not be asked, and why."""
        return call(
            "POST", "/jobs/stop", as_a(api.jobs.StopReport), body=api.jobs.StopMany(jobs=list(refs)), repeatable=True
        )

    @endpoint
    def rerun(
        self, ref: str, *, hold: str | None = None, notify: str | None = None, key: str | None = None
    ) -> Call[api.jobs.SubmittedJob]:
        """Submit the same job anew; `hold`, `notify` and `key` as with `submit`."""
        params = {"hold": hold, "notify": notify}
        return call(
            "POST", f"{_job(ref)}/rerun", as_a(api.jobs.SubmittedJob), params=params, headers=_key(key), repeatable=True
        )

    @endpoint
    def hold(self, ref: str) -> Call[api.jobs.Holds]:
        """What of a job is held now."""
        return call("GET", f"{_job(ref)}/hold", as_a(api.jobs.Holds))

    @endpoint
    def extend(
        self,
        ref: str,
        task: str | None = None,
        *,
        longer: float | None = None,
        until: datetime | None = None,
        files_only: bool = False,
    ) -> Call[api.jobs.Holds]:
        """Hold failed tasks for so many seconds `longer`, or `until` then; with neither, as long again as is usual.
        With `files_only`, their processes end and only the files are kept on."""
        keep = "files" if files_only else None
        body = given(**{"for": longer}, until=_instant(until), keep=keep, task=task)
        return call("POST", f"{_job(ref)}/hold", as_a(api.jobs.Holds), body=body)

    @endpoint
    def release(self, ref: str, task: str | None = None) -> Call[api.jobs.Released]:
        """Let held tasks go, all of the job or one: they end as failed as they were."""
        return call("DELETE", f"{_job(ref)}/hold", as_a(api.jobs.Released), params={"task": task})

    @endpoint
    def tag(self, ref: str, tag: str) -> Call[api.jobs.JobSummary]:
        """Mark a job with a word; no change when it has it."""
        return call("PUT", f"{_job(ref)}/tags/{segment(tag)}", as_a(api.jobs.JobSummary), repeatable=True)

    @endpoint
    def untag(self, ref: str, tag: str) -> Call[api.jobs.JobSummary]:
        """Take such a word away again."""
        return call("DELETE", f"{_job(ref)}/tags/{segment(tag)}", as_a(api.jobs.JobSummary))

    @endpoint
    def job_yaml(self, ref: str) -> Call[str]:
        """The job as a file to change and submit again, secrets masked: OpenPAI's as v2 YAML, others in our own."""
        return call("GET", f"{_job(ref)}/yaml", as_text)

    @endpoint
    def job_source(self, ref: str) -> Call[str]:
        """The job as it was submitted, secrets masked."""
        return call("GET", f"{_job(ref)}/source", as_text)

    @endpoint
    def events(self, ref: str, *, after: int | None = None, limit: int | None = None) -> Call[api.jobs.EventPage]:
        """What happened to a job, oldest first, from the event after number `after` on."""
        return _events(ref, after, limit)

    @endpoint
    def tasks(self, ref: str) -> Call[tuple[api.jobs.Task, ...]]:
        """The tasks of the current attempt."""
        return call("GET", f"{_job(ref)}/tasks", as_items(api.jobs.Task))

    @endpoint
    def attempts(self, ref: str) -> Call[tuple[api.jobs.Attempt, ...]]:
        """Every attempt, newest first."""
        return call("GET", f"{_job(ref)}/attempts", as_items(api.jobs.Attempt))

    @exchange
    def wait(
        self,
        ref: str,
        *,
        timeout: float | None = None,
        through_hold: bool = False,
        patience: float = RESTART_TIMEOUT,
    ) -> Steps[api.jobs.JobSummary]:
        """Wait until a job has ended, or is held for debugging unless `through_hold`. After `timeout` seconds it is
        returned as it is. Outlives restarts of the server that take less than `patience` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = POLL if end is None else max(0.0, end - time.monotonic())
            job = yield from _poll(ref, min(POLL, left), held=not through_hold).steps(patience)
            if job.state.final or (job.state is JobState.HELD and not through_hold):
                return job
            if end is not None and time.monotonic() >= end:
                return job

    @flow
    def iter_jobs(self, *, limit: int | None = None, **filters: Unpack[JobFilters]) -> Flow[api.jobs.ListedJob]:
        """Every job that `jobs` would list, page by page, at most `limit`."""
        cursor, left = None, limit if limit is not None else sys.maxsize
        while left > 0:
            page = yield from _list_jobs(filters, min(PAGE, left), cursor).steps(RESTART_TIMEOUT)
            for job in page.items:
                yield Give(job)
            left -= len(page.items)
            cursor = page.next
            if cursor is None:
                return

    @flow
    def follow_events(
        self, ref: str, *, after: int | None = None, patience: float = RESTART_TIMEOUT
    ) -> Flow[api.jobs.Event]:
        """What happened and happens to a job, until it has ended."""
        seen, final = after, False
        while True:
            page = yield from _events(ref, seen).steps(patience)
            for event in page.items:
                seen = event.seq
                yield Give(event)
            if page.items:
                continue
            if final:
                return  # looked once more after the end, so that the last event is not missed
            job = yield from _poll(ref, EVENT_POLL).steps(patience)
            final = job.state.final


def _list_jobs(filters: JobFilters, limit: int | None, cursor: str | None) -> Call[api.pages.Page[api.jobs.ListedJob]]:
    params = {
        "group": tuple(filters.get("groups", ())),
        "user": filters.get("user"),
        "mine": filters.get("mine"),
        "state": tuple(str(state) for state in filters.get("states", ())),
        "text": filters.get("text"),
        "after": _instant(filters.get("after")),
        "before": _instant(filters.get("before")),
        "limit": limit,
        "cursor": cursor,
    }
    return call("GET", "/jobs", as_a(api.pages.Page[api.jobs.ListedJob]), params=params)


def _events(ref: str, after: int | None, limit: int | None = None) -> Call[api.jobs.EventPage]:
    return call("GET", f"{_job(ref)}/events", as_a(api.jobs.EventPage), params={"after": after, "limit": limit})


def _poll(ref: str, seconds: float, *, held: bool = False) -> Call[api.jobs.JobSummary]:
    params = {"timeout": f"{seconds:g}", "held": held or None}
    return call("GET", f"{_job(ref)}/wait", as_a(api.jobs.JobSummary), params=params, timeout=seconds + 15)


def _job(ref: str) -> str:
    return f"/jobs/{segment(ref)}"


def _key(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key or uuid.uuid4().hex}


def _body(job: JobText) -> dict[str, Any]:
    if isinstance(job, Mapping):
        return {"body": job}
    content = job.encode("utf-8", "surrogateescape") if isinstance(job, str) else job
    return {"content": content, "content_type": "text/plain; charset=utf-8"}


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()

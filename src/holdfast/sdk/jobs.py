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

from .calls import (
    Call,
    Flow,
    Steps,
    StreamItem,
    build_call,
    build_path,
    drop_none,
    endpoint,
    format_time,
    make_list_parser,
    multi_call,
    parse_text,
    stream_method,
)

JobInput = str | bytes | Mapping[str, Any]

RESTART_TIMEOUT = 60.0  # seconds to wait for a restarting server
POLL_TIMEOUT = 20.0  # seconds of one long poll
EVENT_POLL_INTERVAL = 1.0  # seconds between polls for events; the end is reported at once
PAGE_SIZE = 500


class JobFilters(TypedDict, total=False):
    """Filters of the job list; all given filters must match."""

    groups: Iterable[str]
    user: str | None
    mine: bool
    states: Iterable[JobState | str]
    text: str | None  # part of the name or the id
    after: datetime | None  # submitted after
    before: datetime | None


class SubmitOptions(TypedDict, total=False):
    """Options of a submitted or planned job."""

    group: str | None
    dialect: str | None  # default: detected
    file_name: str | None  # name of a batch script that sets no name
    hold: str | None  # overrides the job: true, 7d, files, files:7d or false
    notify: str | None  # notification events, such as failed,held
    engine: str | None  # overrides the job, such as docker


class JobCalls:
    @endpoint
    def plan_job(self, job: JobInput, **options: Unpack[SubmitOptions]) -> Call[api.jobs.Plan]:
        """Return what would happen if the job were submitted now."""
        params = _check_option_names(options, SubmitOptions)
        return build_call(
            "POST", "/jobs/plan", api.jobs.Plan, params=params, repeatable=True, **_build_body_arguments(job)
        )

    @endpoint
    def submit_job(
        self, job: JobInput, *, key: str | None = None, **options: Unpack[SubmitOptions]
    ) -> Call[api.jobs.SubmittedJob]:
        """Submit a job: text in any supported format, or a mapping. `key` is an idempotency key; default: a random one,
        so that retries after a lost connection never submit twice. `hold` overrides the job: true, 7d, files,
        files:7d or false; so does `engine`. `notify`: notification events, such as failed,held."""
        return build_call(
            "POST",
            "/jobs",
            api.jobs.SubmittedJob,
            params=_check_option_names(options, SubmitOptions),
            headers=_build_key_header(key),
            repeatable=True,
            **_build_body_arguments(job),
        )

    @endpoint
    def list_jobs(
        self, *, limit: int | None = None, cursor: str | None = None, **filters: Unpack[JobFilters]
    ) -> Call[api.pages.Page[api.jobs.ListedJob]]:
        """Return a page of jobs, newest first; `cursor` is the `next` of the previous page."""
        return _build_list_jobs_call(filters, limit, cursor)

    @endpoint
    def get_job(self, ref: str) -> Call[api.jobs.JobDetail]:
        """Return a job by id, by a unique part of it, or the newest with that name."""
        return build_call("GET", build_path("jobs", ref), api.jobs.JobDetail)

    @endpoint
    def stop_job(self, ref: str) -> Call[api.jobs.JobSummary]:
        """Stop a job; no change if it has ended."""
        return build_call("POST", build_path("jobs", ref, "stop"), api.jobs.JobSummary, repeatable=True)

    @endpoint
    def stop_jobs(self, refs: Iterable[str]) -> Call[api.jobs.StopReport]:
        """Stop several jobs; the report lists those that failed."""
        body = api.jobs.StopJobsRequest(jobs=list(refs))
        return build_call("POST", "/jobs/stop", api.jobs.StopReport, body=body, repeatable=True)

    @endpoint
    def rerun_job(
        self, ref: str, *, hold: str | None = None, notify: str | None = None, key: str | None = None
    ) -> Call[api.jobs.SubmittedJob]:
        """Submit a job again as a new job; `hold`, `notify` and `key` as in `submit`."""
        return build_call(
            "POST",
            build_path("jobs", ref, "rerun"),
            api.jobs.SubmittedJob,
            params={"hold": hold, "notify": notify},
            headers=_build_key_header(key),
            repeatable=True,
        )

    @endpoint
    def get_holds(self, ref: str) -> Call[api.jobs.Holds]:
        """Return the held tasks of a job."""
        return build_call("GET", build_path("jobs", ref, "hold"), api.jobs.Holds)

    @endpoint
    def extend_hold(
        self,
        ref: str,
        task: str | None = None,
        *,
        longer: float | None = None,
        until: datetime | None = None,
        files_only: bool = False,
    ) -> Call[api.jobs.Holds]:
        """Extend the hold on failed tasks by `longer` seconds or `until` a time; default: by the default hold time.
        `files_only`: end their processes and hold only the files."""
        keep = "files" if files_only else None
        body = drop_none(**{"for": longer}, until=format_time(until), keep=keep, task=task)
        return build_call("POST", build_path("jobs", ref, "hold"), api.jobs.Holds, body=body)

    @endpoint
    def release_hold(self, ref: str, task: str | None = None) -> Call[api.jobs.ReleasedJob]:
        """Release held tasks, all of the job or one; they end as failed."""
        return build_call("DELETE", build_path("jobs", ref, "hold"), api.jobs.ReleasedJob, params={"task": task})

    @endpoint
    def add_tag(self, ref: str, tag: str) -> Call[api.jobs.JobSummary]:
        """Add a tag to a job; idempotent."""
        return build_call("PUT", build_path("jobs", ref, "tags", tag), api.jobs.JobSummary)

    @endpoint
    def remove_tag(self, ref: str, tag: str) -> Call[api.jobs.JobSummary]:
        return build_call("DELETE", build_path("jobs", ref, "tags", tag), api.jobs.JobSummary)

    @endpoint
    def get_job_yaml(self, ref: str) -> Call[str]:
        """Return the job file to edit and submit again, secrets masked: OpenPAI jobs as v2 YAML, others in Holdfast
        format."""
        return build_call("GET", build_path("jobs", ref, "yaml"), parse_text)

    @endpoint
    def get_job_source(self, ref: str) -> Call[str]:
        """Return the job file as submitted, secrets masked."""
        return build_call("GET", build_path("jobs", ref, "source"), parse_text)

    @endpoint
    def list_events(self, ref: str, *, after: int | None = None, limit: int | None = None) -> Call[api.jobs.EventPage]:
        """Return the events of a job after number `after`, oldest first."""
        return _build_list_events_call(ref, after, limit)

    @endpoint
    def list_tasks(self, ref: str) -> Call[tuple[api.jobs.Task, ...]]:
        """Return the tasks of the current attempt."""
        return build_call("GET", build_path("jobs", ref, "tasks"), make_list_parser(api.jobs.Task))

    @endpoint
    def list_attempts(self, ref: str) -> Call[tuple[api.jobs.Attempt, ...]]:
        """Return all attempts, newest first."""
        return build_call("GET", build_path("jobs", ref, "attempts"), make_list_parser(api.jobs.Attempt))

    @multi_call
    def wait_for_job(
        self,
        ref: str,
        *,
        timeout: float | None = None,
        through_hold: bool = False,
        retry_timeout: float = RESTART_TIMEOUT,
    ) -> Steps[api.jobs.JobSummary]:
        """Wait until a job has ended, or is held unless `through_hold`, and return it; at the latest after `timeout`
        seconds. Survives server restarts of up to `retry_timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = POLL_TIMEOUT if end is None else max(0.0, end - time.monotonic())
            job = yield from _build_wait_call(ref, min(POLL_TIMEOUT, left), held=not through_hold).iter_steps(
                retry_timeout
            )
            if job.state.final or (job.state is JobState.HELD and not through_hold):
                return job
            if end is not None and time.monotonic() >= end:
                return job

    @stream_method
    def iter_jobs(self, *, limit: int | None = None, **filters: Unpack[JobFilters]) -> Flow[api.jobs.ListedJob]:
        """Iterate over all matching jobs, at most `limit`, page by page."""
        cursor, left = None, limit if limit is not None else sys.maxsize
        while left > 0:
            page = yield from _build_list_jobs_call(filters, min(PAGE_SIZE, left), cursor).iter_steps(RESTART_TIMEOUT)
            for job in page.items:
                yield StreamItem(job)
            left -= len(page.items)
            cursor = page.next
            if cursor is None:
                return

    @stream_method
    def follow_events(
        self, ref: str, *, after: int | None = None, retry_timeout: float = RESTART_TIMEOUT
    ) -> Flow[api.jobs.Event]:
        """Iterate over past and new events of a job until it has ended."""
        seen, final = after, False
        while True:
            page = yield from _build_list_events_call(ref, seen).iter_steps(retry_timeout)
            for event in page.items:
                seen = event.seq
                yield StreamItem(event)
            if page.items:
                continue
            if final:
                return  # polled once more after the end, to get the last event
            job = yield from _build_wait_call(ref, EVENT_POLL_INTERVAL).iter_steps(retry_timeout)
            final = job.state.final


def _build_list_jobs_call(
    filters: JobFilters, limit: int | None, cursor: str | None
) -> Call[api.pages.Page[api.jobs.ListedJob]]:
    _check_option_names(filters, JobFilters)
    params = {
        "group": tuple(filters.get("groups", ())),
        "user": filters.get("user"),
        "mine": filters.get("mine"),
        "state": tuple(str(state) for state in filters.get("states", ())),
        "text": filters.get("text"),
        "after": format_time(filters.get("after")),
        "before": format_time(filters.get("before")),
        "limit": limit,
        "cursor": cursor,
    }
    return build_call("GET", "/jobs", api.pages.Page[api.jobs.ListedJob], params=params)


def _check_option_names(options: Mapping[str, Any], known: type) -> Mapping[str, Any]:
    """Return the options. The server would ignore one that it does not know, such as a misspelled one."""
    for name in options.keys() - known.__annotations__.keys():
        raise TypeError(f"unexpected keyword argument {name!r}")
    return options


def _build_list_events_call(ref: str, after: int | None, limit: int | None = None) -> Call[api.jobs.EventPage]:
    params = {"after": after, "limit": limit}
    return build_call("GET", build_path("jobs", ref, "events"), api.jobs.EventPage, params=params)


def _build_wait_call(ref: str, seconds: float, *, held: bool = False) -> Call[api.jobs.JobSummary]:
    params = {"timeout": f"{seconds:g}", "held": held or None}
    path = build_path("jobs", ref, "wait")
    return build_call("GET", path, api.jobs.JobSummary, params=params, timeout=seconds + 15)


def _build_key_header(key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": key or uuid.uuid4().hex}


def _build_body_arguments(job: JobInput) -> dict[str, Any]:
    if isinstance(job, Mapping):
        return {"body": job}
    content = job.encode("utf-8", "surrogateescape") if isinstance(job, str) else job
    return {"content": content, "content_type": "text/plain; charset=utf-8"}

"""Calls about schedules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Unpack

from holdfast import api

from .calls import Call, build_call, build_path, drop_none, endpoint, format_time, ignore_body, make_list_parser
from .jobs import JobInput

UNCHANGED: Any = object()  # keeps ends_at unchanged; None removes it


class ScheduleCalls:
    @endpoint
    def list_schedules(
        self,
        *,
        groups: Iterable[str] = (),
        user: str | None = None,
        mine: bool = False,
        text: str | None = None,
        order: str | None = None,
        descending: bool | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> Call[api.schedules.SchedulePage]:
        """Return a page of schedules, last changed first. `order`: updated, created, name, group, user or next-run."""
        params = {
            "group": ",".join(groups) or None,
            "user": user,
            "mine": mine or None,
            "text": text,
            "order": order,
            "descending": descending,
            "offset": offset,
            "limit": limit,
        }
        return build_call("GET", "/schedules", api.schedules.SchedulePage, params=params)

    @endpoint
    def get_schedule(self, id: str) -> Call[api.schedules.ScheduleDetail]:
        return build_call("GET", build_path("schedules", id), api.schedules.ScheduleDetail)

    @endpoint
    def add_schedule(
        self,
        job: JobInput,
        cron: str | None = None,
        *,
        kind: str | None = None,
        timezone: str | None = None,
        ends_at: datetime | None = None,
        **fields: Unpack[api.schedules.ScheduleFields],
    ) -> Call[api.schedules.ScheduleDetail]:
        """Add a schedule with a five-field cron expression, or the `kind` daily, weekly, monthly or inactive.

        You own its jobs; each is submitted with the permissions you have at that time.
        """
        recurrence = _build_recurrence(cron, kind, timezone)
        body = drop_none(job=_encode_job(job), recurrence=recurrence, ends_at=format_time(ends_at), **fields)
        return build_call("POST", "/schedules", api.schedules.ScheduleDetail, body=body)

    @endpoint
    def change_schedule(
        self,
        id: str,
        *,
        job: JobInput | None = None,
        cron: str | None = None,
        kind: str | None = None,
        timezone: str | None = None,
        form: Mapping[str, Any] | None = None,
        ends_at: datetime | None = UNCHANGED,
        **fields: Unpack[api.schedules.ScheduleFields],
    ) -> Call[api.schedules.ScheduleDetail]:
        """Change the given fields. A recurrence is replaced as a whole, with its time zone. `ends_at=None`: no end.
        `form`: fields of PrimeHub's job form, if the job file has that format."""
        changed = None if (cron, kind, timezone) == (None, None, None) else _build_recurrence(cron, kind, timezone)
        body = drop_none(job=None if job is None else _encode_job(job), recurrence=changed, form=form, **fields)
        if ends_at is not UNCHANGED:
            body["ends_at"] = format_time(ends_at)
        return _build_change_schedule_call(id, body)

    @endpoint
    def pause_schedule(self, id: str) -> Call[api.schedules.ScheduleDetail]:
        """Pause a schedule until it is resumed."""
        return _build_change_schedule_call(id, {"paused": True})

    @endpoint
    def resume_schedule(self, id: str) -> Call[api.schedules.ScheduleDetail]:
        """Resume a schedule; runs missed while paused are skipped."""
        return _build_change_schedule_call(id, {"paused": False})

    @endpoint
    def remove_schedule(self, id: str) -> Call[None]:
        """Remove a schedule and its history; its jobs are kept."""
        return build_call("DELETE", build_path("schedules", id), ignore_body)

    @endpoint
    def run_schedule(self, id: str) -> Call[api.jobs.SubmittedJob]:
        """Submit the job of a schedule now, as the user's job."""
        return build_call("POST", build_path("schedules", id, "run"), api.jobs.SubmittedJob)

    @endpoint
    def list_schedule_runs(
        self, id: str, *, before: int | None = None, limit: int | None = None
    ) -> Call[tuple[api.schedules.Run, ...]]:
        """List the runs of a schedule, newest first."""
        params = {"before": before, "limit": limit}
        return build_call(
            "GET", build_path("schedules", id, "runs"), make_list_parser(api.schedules.Run), params=params
        )

    @endpoint
    def preview_schedule(
        self,
        cron: str | None = None,
        *,
        kind: str | None = None,
        timezone: str | None = None,
        count: int | None = None,
        ends_at: datetime | None = None,
    ) -> Call[api.schedules.SchedulePreview]:
        """Return the next run times of a recurrence."""
        body = drop_none(recurrence=_build_recurrence(cron, kind, timezone), count=count, ends_at=format_time(ends_at))
        return build_call("POST", "/schedules/preview", api.schedules.SchedulePreview, body=body, repeatable=True)


def _build_change_schedule_call(id: str, body: Mapping[str, object]) -> Call[api.schedules.ScheduleDetail]:
    path = build_path("schedules", id)
    return build_call("PATCH", path, api.schedules.ScheduleDetail, body=body, repeatable=True)


def _build_recurrence(cron: str | None, kind: str | None, timezone: str | None) -> api.schedules.Recurrence:
    return api.schedules.Recurrence(
        kind=kind or ("custom" if cron is not None else "inactive"), cron=cron, timezone=timezone or ""
    )


def _encode_job(job: JobInput) -> str:
    if isinstance(job, Mapping):
        return json.dumps(job)
    return job.decode() if isinstance(job, bytes) else job

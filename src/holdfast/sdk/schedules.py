"""Calls about schedules: jobs that are submitted again and again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Unpack

from holdfast import api

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment
from .jobs import JobText

KEEP: Any = object()  # leaves an end as it is, where None takes it away


class ScheduleCalls:
    @endpoint
    def schedules(
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
        """A page of them, those changed last first. `order`: updated, created, name, group, user or next-run."""
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
        return call("GET", "/schedules", as_a(api.schedules.SchedulePage), params=params)

    @endpoint
    def schedule(self, id: str) -> Call[api.schedules.ScheduleDetail]:
        return call("GET", _schedule(id), as_a(api.schedules.ScheduleDetail))

    @endpoint
    def add_schedule(
        self,
        job: JobText,
        cron: str | None = None,
        *,
        kind: str | None = None,
        timezone: str | None = None,
        ends_at: datetime | None = None,
        **fields: Unpack[api.schedules.ScheduleFields],
    ) -> Call[api.schedules.ScheduleDetail]:
        """Submit a job file again and again: by five-field cron text, or daily, weekly, monthly or inactive (`kind`).

        Its jobs are yours, and are submitted with the rights you have at each time.
        """
        recurrence = _recurrence(cron, kind, timezone)
        body = given(job=_text(job), recurrence=recurrence, ends_at=_time(ends_at), **fields)
        return call("POST", "/schedules", as_a(api.schedules.ScheduleDetail), body=body)

    @endpoint
    def change_schedule(
        self,
        id: str,
        *,
        job: JobText | None = None,
        cron: str | None = None,
        kind: str | None = None,
        timezone: str | None = None,
        form: Mapping[str, Any] | None = None,
        ends_at: datetime | None = KEEP,
        **fields: Unpack[api.schedules.ScheduleFields],
    ) -> Call[api.schedules.ScheduleDetail]:
        """Change what is given. A recurrence is changed as a whole: give its time zone with it. `ends_at=None`: no end.
        `form`: some fields of PrimeHub's job form, where the job file is in that form."""
        changed = None if (cron, kind, timezone) == (None, None, None) else _recurrence(cron, kind, timezone)
        body = given(job=None if job is None else _text(job), recurrence=changed, form=form, **fields)
        if ends_at is not KEEP:
            body["ends_at"] = _time(ends_at)
        return call("PATCH", _schedule(id), as_a(api.schedules.ScheduleDetail), body=body, repeatable=True)

    @endpoint
    def pause_schedule(self, id: str) -> Call[api.schedules.ScheduleDetail]:
        """Nothing is due until it is resumed."""
        return call("PATCH", _schedule(id), as_a(api.schedules.ScheduleDetail), body={"paused": True}, repeatable=True)

    @endpoint
    def resume_schedule(self, id: str) -> Call[api.schedules.ScheduleDetail]:
        """From its next time on; what was due meanwhile is not made up for."""
        return call("PATCH", _schedule(id), as_a(api.schedules.ScheduleDetail), body={"paused": False}, repeatable=True)

    @endpoint
    def remove_schedule(self, id: str) -> Call[None]:
        """With its history; its jobs stay."""
        return call("DELETE", _schedule(id), as_nothing)

    @endpoint
    def run_schedule(self, id: str) -> Call[api.jobs.SubmittedJob]:
        """One job from its template, now, and yours."""
        return call("POST", f"{_schedule(id)}/run", as_a(api.jobs.SubmittedJob))

    @endpoint
    def schedule_runs(
        self, id: str, *, before: int | None = None, limit: int | None = None
    ) -> Call[tuple[api.schedules.Run, ...]]:
        """What came of each time it was due or was asked to run, newest first."""
        params = {"before": before, "limit": limit}
        return call("GET", f"{_schedule(id)}/runs", as_items(api.schedules.Run), params=params)

    @endpoint
    def preview_schedule(
        self,
        cron: str | None = None,
        *,
        kind: str | None = None,
        timezone: str | None = None,
        count: int | None = None,
        ends_at: datetime | None = None,
    ) -> Call[api.schedules.Preview]:
        """When a schedule of that kind would be due next."""
        body = given(recurrence=_recurrence(cron, kind, timezone), count=count, ends_at=_time(ends_at))
        return call("POST", "/schedules/preview", as_a(api.schedules.Preview), body=body, repeatable=True)


def _schedule(id: str) -> str:
    return f"/schedules/{segment(id)}"


def _recurrence(cron: str | None, kind: str | None, timezone: str | None) -> api.schedules.Recurrence:
    return api.schedules.Recurrence(
        kind=kind or ("custom" if cron is not None else "inactive"), cron=cron, timezone=timezone or ""
    )


def _text(job: JobText) -> str:
    if isinstance(job, Mapping):
        return json.dumps(job)
    return job.decode() if isinstance(job, bytes) else job


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()

"""Rows of the job list, cached while they look the same: many pages show the same jobs, and a live page reloads all
its rows whenever one of them changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from zlib import crc32

from markupsafe import Markup

from holdfast.core.access import Actor, can_act_on
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState
from holdfast.services import Services

from ..rendering import create_environment
from ..visit import Visit
from ..waiting_debuggers import WaitingDebugger, list_waiting_debuggers

ROW_CACHE_SIZE = 2000  # rows, of about 2 KB
ROW_CACHE_TTL = 10  # seconds that a row with a running duration is reused


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    job: JobSummary
    can_act: bool
    held_until: datetime | None = None  # end of the hold
    schedule: str = ""  # name of its schedule
    debugger: WaitingDebugger | None = None  # waiting in the job

    @property
    def can_stop(self) -> bool:
        return self.can_act and not self.job.state.final and not self.job.stopping

    @property
    def reason(self) -> str:
        """Why the job is in this state; empty if the state is enough."""
        return "" if self.job.message == self.job.state else self.job.message

    @property
    def version(self) -> str:
        """A hash that changes when the row looks different."""
        job = self.job
        shown = (job.state, job.stopping, job.message, job.started_at, job.finished_at, job.attempt)
        return f"{crc32(repr((shown, self.can_act, self.held_until, self.schedule, self.debugger)).encode()):08x}"


def render_rows(visit: Visit, jobs: tuple[JobSummary, ...], schedules: Mapping[str, str]) -> tuple[Markup, ...]:
    now = int(time.monotonic()) // ROW_CACHE_TTL
    rows = (
        _build_job_row(visit.services, visit.current_actor, job, schedules.get(job.schedule or "", "")) for job in jobs
    )
    return tuple(_render_job_row(row, visit.words.code, 0 if row.job.state.final else now) for row in rows)


def _build_job_row(services: Services, actor: Actor, job: JobSummary, schedule: str) -> JobRow:
    return JobRow(
        job=job,
        can_act=can_act_on(actor, job.group, job.user),
        held_until=services.job_pages.get_hold_end(job.id) if job.state is JobState.HELD else None,
        schedule=schedule,
        debugger=next(iter(list_waiting_debuggers(services, actor, job)), None),
    )


@lru_cache(maxsize=ROW_CACHE_SIZE)
def _render_job_row(row: JobRow, language: str, moment: int) -> Markup:
    return Markup(create_environment(language).get_template("jobs/_row.html").render(row=row))

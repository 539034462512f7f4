"""Rows of the job list. Each is put together once for as long as it looks the same: many pages show the same jobs,
and a live one asks for all of its rows whenever one of them changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from zlib import crc32

from markupsafe import Markup

from holdfast.core.access import Actor, may_act
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState
from holdfast.services import Services

from ..rendering import environment
from ..visit import Visit
from ..waiting_debuggers import WaitingDebugger, waiting_debuggers

CACHE_SIZE = 2000  # rows, of about 2 KB
FRESH = 10  # seconds that a row with a duration which counts on may be reused


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    job: JobSummary
    may_act: bool
    held_until: datetime | None = None  # how long a held job stays
    schedule: str = ""  # the name of the recurring job that it is of
    debugger: WaitingDebugger | None = None  # that waits in it

    @property
    def may_stop(self) -> bool:
        return self.may_act and not self.job.state.final and not self.job.stopping

    @property
    def reason(self) -> str:
        """Why it is in this state; empty where the state says it all."""
        return "" if self.job.message == self.job.state else self.job.message

    @property
    def version(self) -> str:
        """Another whenever the row looks different."""
        job = self.job
        shown = (job.state, job.stopping, job.message, job.started_at, job.finished_at, job.attempt)
        return f"{crc32(repr((shown, self.may_act, self.held_until, self.schedule, self.debugger)).encode()):08x}"


def render_rows(visit: Visit, jobs: tuple[JobSummary, ...], schedules: Mapping[str, str]) -> tuple[Markup, ...]:
    now = int(time.monotonic()) // FRESH
    rows = (_row(visit.services, visit.who, job, schedules.get(job.schedule or "", "")) for job in jobs)
    return tuple(_render(row, visit.words.code, 0 if row.job.state.final else now) for row in rows)


def _row(services: Services, actor: Actor, job: JobSummary, schedule: str) -> Row:
    return Row(
        job=job,
        may_act=may_act(actor, job.group, job.user),
        held_until=services.closeup.held_until(job.id) if job.state is JobState.HELD else None,
        schedule=schedule,
        debugger=next(iter(waiting_debuggers(services, actor, job)), None),
    )


@lru_cache(maxsize=CACHE_SIZE)
def _render(row: Row, language: str, moment: int) -> Markup:
    return Markup(environment(language).get_template("jobs/_row.html").render(row=row))

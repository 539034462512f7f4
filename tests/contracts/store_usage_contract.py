"""What every store must find of tries that ran in a span of time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from holdfast.core.attempt import TaskAttempt
from holdfast.core.job import GIB, Job, Resources, Role
from holdfast.core.metrics.usage import TaskUsage, TimeSpan
from holdfast.core.states import JobState, TaskState
from holdfast.store.jobs import usage
from tests.store.open_store import NOW, Opened

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
SPAN = TimeSpan(NOW - 30 * DAY, NOW)


class UsageContract:
    def ran(self, opened: Opened, start: datetime, end: datetime | None, roles: tuple[str, ...] = ("main",)) -> str:
        resources = {"main": Resources(cpu=2, memory=4 * GIB, gpu=1), "side": Resources(cpu=1, memory=GIB)}
        made = tuple(Role(name=name, commands=("true",), resources=resources[name]) for name in roles)
        job = opened.submit(job=Job(name="a", roles=made))
        tasks = tuple(
            TaskAttempt(role=name, index=0, state=TaskState.RUNNING, started_at=start, finished_at=end)
            for name in roles
        )
        state = JobState.RUNNING if end is None else JobState.SUCCEEDED
        opened.advance(job.id, state, *tasks, started_at=start, finished_at=end)
        return job.id

    def found(self, opened: Opened, span: TimeSpan = SPAN, **more: Any) -> list[TaskUsage]:
        uses: list[TaskUsage] = []
        after: tuple[Any, ...] | None = None
        while True:
            portion = opened.read(usage.list_task_usage, span, NOW, after, 2, **more)
            uses += portion.uses
            after = portion.next
            if after is None:
                return uses

    def test_exactly_what_overlaps_the_span_is_found(self, opened: Opened) -> None:
        inside = [
            self.ran(opened, NOW - 2 * HOUR, NOW - HOUR),
            self.ran(opened, NOW - 2 * HOUR, None),
            self.ran(opened, SPAN.start - HOUR, SPAN.start + HOUR),
            self.ran(opened, SPAN.start - 20 * DAY, SPAN.start + HOUR),
            self.ran(opened, SPAN.start - 20 * DAY, None),
            self.ran(opened, SPAN.start - HOUR, NOW + DAY),
        ]
        self.ran(opened, SPAN.start - 2 * HOUR, SPAN.start - HOUR)
        self.ran(opened, SPAN.start - 40 * DAY, SPAN.start - DAY)
        self.ran(opened, NOW + HOUR, NOW + 2 * HOUR)
        opened.submit("never started")
        assert sorted(use.job_id for use in self.found(opened)) == sorted(inside)
        assert sum(total.tasks for total in opened.read(usage.compute_usage_totals, SPAN, NOW)) == len(inside)
        assert opened.read(usage.find_first_task_start) == SPAN.start - 40 * DAY

    def test_sums_and_single_tries_agree(self, opened: Opened) -> None:
        self.ran(opened, NOW - 3 * HOUR, NOW - HOUR)
        self.ran(opened, SPAN.start - 10 * DAY, SPAN.start + HOUR)
        self.ran(opened, NOW - HOUR / 2, None)
        totals = opened.read(usage.compute_usage_totals, SPAN, NOW)
        assert round(sum(total.cpu_hours for total in totals), 6) == 7
        assert round(sum(total.gpu_hours for total in totals), 6) == 3.5
        assert round(sum(total.gb_hours for total in totals), 6) == 14

    def test_roles_have_their_own_sizes(self, opened: Opened) -> None:
        self.ran(opened, NOW - HOUR, NOW, ("main", "side"))
        self.ran(opened, NOW - HOUR, NOW)
        assert [total.tasks for total in opened.read(usage.compute_usage_totals, SPAN, NOW)] == [1], (
            "only of jobs with one role"
        )
        found = self.found(opened, many_roles=True)
        assert {use.task: use.resources.cpu for use in found} == {"main-0": 2, "side-0": 1}

    def test_whether_anything_ran(self, opened: Opened) -> None:
        assert opened.read(usage.find_first_task_start) is None
        assert not opened.read(usage.has_usage, SPAN, NOW)
        self.ran(opened, SPAN.start - 2 * HOUR, SPAN.start - HOUR)
        assert not opened.read(usage.has_usage, SPAN, NOW)
        self.ran(opened, SPAN.start - 20 * DAY, NOW + DAY)
        assert opened.read(usage.has_usage, SPAN, NOW)

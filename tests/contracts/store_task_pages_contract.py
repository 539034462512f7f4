"""What every store must do with the many tasks, tries, attempts and events of one job: give them a page at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.attempt import Outcome, OutcomeResult, TaskAttempt
from holdfast.core.exits.exit import Exit, ExitKind, classify_exit
from holdfast.core.job import Job, Role
from holdfast.core.records import JobAttempt
from holdfast.core.states import JobState, TaskState
from holdfast.core.task_filter import TaskFilter
from holdfast.store.jobs import events, task_pages
from holdfast.store.jobs import records as jobs
from tests.store.open_store import NOW, Opened, an_event, later

ROLES = ("worker", "Chief_1%")
JOB = Job(name="many", roles=tuple(Role(name=name, commands=("true",), instances=3) for name in ROLES))
LIAR = 'said ,"code":7,"signal":null'


def _exit(code: int, message: str = "") -> Exit:
    return replace(classify_exit(code), message=message) if message else classify_exit(code)


TASKS = (
    TaskAttempt(role="worker", index=0, state=TaskState.FAILED, node="n1", exit=_exit(1)),
    TaskAttempt(role="worker", index=0, number=1, state=TaskState.FAILED, node="n1", exit=_exit(7)),
    TaskAttempt(role="worker", index=1, state=TaskState.SUCCEEDED, node="N2", exit=_exit(0)),
    TaskAttempt(role="worker", index=2, state=TaskState.RUNNING, node="n1", host="Rack-7"),
    TaskAttempt(role="Chief_1%", index=0, state=TaskState.FAILED, node="n1", exit=_exit(17, LIAR)),
    TaskAttempt(role="Chief_1%", index=1, state=TaskState.WAITING),
)
NEWEST = TASKS[1:]


class TaskPagesContract:
    @pytest.fixture
    def job_id(self, opened: Opened) -> str:
        id = opened.submit(job=JOB).id
        snapshot = opened.read(jobs.load_snapshot, id)
        after = replace(snapshot, state=JobState.PREPARING, version=1)
        opened.write(jobs.save_job_changes, [jobs.JobChange(before_version=0, after=after, tasks=TASKS)])
        return id

    def page(
        self, opened: Opened, id: str, filter: TaskFilter, offset: int = 0, limit: int = 9
    ) -> tuple[list[str], int]:
        found = opened.read(task_pages.list_task_page, id, 0, filter, roles=ROLES, offset=offset, limit=limit)
        total = opened.read(task_pages.count_matching_tasks, id, 0, filter)
        return [f"{record.task.task}.{record.task.number}" for record in found], total

    def test_the_newest_try_of_each_task_comes_in_the_order_of_the_roles(self, opened: Opened, job_id: str) -> None:
        names = ["worker-0.1", "worker-1.0", "worker-2.0", "Chief_1%-0.0", "Chief_1%-1.0"]
        assert self.page(opened, job_id, TaskFilter()) == (names, 5)
        assert self.page(opened, job_id, TaskFilter(), offset=3, limit=1) == (names[3:4], 5)
        assert self.page(opened, job_id, TaskFilter(), offset=9) == ([], 5)
        assert self.page(opened, "nothing", TaskFilter()) == ([], 0)

    @pytest.mark.release_after(8)
    @pytest.mark.parametrize(
        "filter",
        [
            TaskFilter(role="worker"),
            TaskFilter(role="nobody\0"),
            TaskFilter(state=TaskState.FAILED),
            TaskFilter(kind=ExitKind.USER_ERROR),
            TaskFilter(kind=ExitKind.SUCCEEDED),
            TaskFilter(code=7),
            TaskFilter(code=0),
            TaskFilter(code=17),
            TaskFilter(node="n1", state=TaskState.FAILED),
            TaskFilter(text="WORKER-1"),
            TaskFilter(text="n2"),
            TaskFilter(node="Rack-7"),
            TaskFilter(text="rack"),
            TaskFilter(text="f_1%-"),
            TaskFilter(text="%"),
            TaskFilter(text="_"),
            TaskFilter(text="\\"),
            TaskFilter(text="'; DROP TABLE jobs; --"),
        ],
    )
    def test_a_filter_finds_what_it_would_find_in_memory(self, opened: Opened, job_id: str, filter: TaskFilter) -> None:
        expected = [f"{task.task}.{task.number}" for task in NEWEST if filter.matches(task)]
        assert self.page(opened, job_id, filter) == (expected, len(expected))

    def test_tasks_are_counted_by_role_and_state(self, opened: Opened, job_id: str) -> None:
        assert opened.read(task_pages.count_tasks_by_state, job_id, 0) == {
            "worker": {TaskState.FAILED: 1, TaskState.SUCCEEDED: 1, TaskState.RUNNING: 1},
            "Chief_1%": {TaskState.FAILED: 1, TaskState.WAITING: 1},
        }
        assert opened.read(task_pages.count_tasks_by_state, job_id, 1) == {}

    def test_the_tries_of_one_task_come_newest_first(self, opened: Opened, job_id: str) -> None:
        def numbers(task: str, limit: int) -> list[int]:
            return [record.task.number for record in opened.read(task_pages.list_newest_tries, job_id, task, limit)]

        assert numbers("worker-0", 9) == [1, 0]
        assert numbers("worker-0", 1) == [1]
        assert numbers("worker", 9) == numbers("worker-9", 9) == numbers("\0-0", 9) == []

    def test_attempts_that_are_over_come_newest_first(self, opened: Opened, job_id: str) -> None:
        outcome = Outcome(result=OutcomeResult.FAILED, message="it failed", exit=_exit(1))
        past = tuple(
            JobAttempt(number=n, started_at=NOW, finished_at=later(hours=n), outcome=outcome, counted=True)
            for n in range(3)
        )
        snapshot = opened.read(jobs.load_snapshot, job_id)
        after = replace(snapshot, attempt=3, version=2)
        opened.write(jobs.save_job_changes, [jobs.JobChange(before_version=1, after=after, attempts=past)])
        assert [each.number for each in opened.read(task_pages.list_newest_attempts, job_id, 2)] == [2, 1]
        assert opened.read(task_pages.list_newest_attempts, job_id, 9) == list(reversed(past))

    def test_events_come_newest_first_and_go_on_where_they_stopped(self, opened: Opened, job_id: str) -> None:
        snapshot = opened.read(jobs.load_snapshot, job_id)
        told = tuple(an_event(f"kind-{n}") for n in range(5))
        opened.write(
            jobs.save_job_changes, [jobs.JobChange(before_version=1, after=replace(snapshot, version=2), events=told)]
        )
        newest = opened.read(events.list_newest_events, job_id, None, 3)
        assert [event.kind for event in newest] == ["kind-4", "kind-3", "kind-2"]
        older = opened.read(events.list_newest_events, job_id, newest[-1].seq, 9)
        assert [event.kind for event in older] == ["kind-1", "kind-0", "submitted"]

    def test_the_first_event_of_a_kind_is_that_of_the_attempt(self, opened: Opened, job_id: str) -> None:
        snapshot = opened.read(jobs.load_snapshot, job_id)
        told = tuple(
            replace(an_event(kind), attempt=attempt, message=f"{kind} {at}")
            for at, (kind, attempt) in enumerate([("kind", 0), ("other", 1), ("kind", 1), ("kind", 1)])
        )
        opened.write(
            jobs.save_job_changes, [jobs.JobChange(before_version=1, after=replace(snapshot, version=2), events=told)]
        )
        found = [opened.read(events.find_first_event, job_id, "kind", attempt) for attempt in (0, 1, 2)]
        assert [event.message if event else None for event in found] == ["kind 0", "kind 2", None]
        assert opened.read(events.find_first_event, "nobody", "kind", 0) is None

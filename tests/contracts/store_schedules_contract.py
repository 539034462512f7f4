"""What every store must do with schedules: kept as they were, each due time taken once, history that does not grow."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast.core.codec import mask_values
from holdfast.core.errors import Conflict
from holdfast.core.job import Job
from holdfast.core.records import JobFilter
from holdfast.core.schedule import (
    InvalidReason,
    MissedRunPolicy,
    OverlapPolicy,
    Recurrence,
    RecurrenceKind,
    RunResult,
    Schedule,
    ScheduleOrder,
    ScheduleQuery,
)
from holdfast.core.states import JobState
from holdfast.store import schedules
from holdfast.store.schedules import NewScheduleRun, ScheduleStep, ScheduleStepResult
from tests.store.open_store import NOW, Opened, a_job, a_new_job, later

from .store_contract import FULL_JOB, STRANGE


def a_schedule(name: str = "hello", *, job: Job | None = None, **more: Any) -> Schedule:
    job = job or a_job(name)
    plain = {"source": f"name: {name}\n", "recurrence": Recurrence(), "created_at": NOW, "updated_at": NOW}
    return Schedule(
        **{"id": "", "name": name, "user": "ann", "group": job.group, "job": job, **plain, **more}  # type: ignore[arg-type]
    )


def add(opened: Opened, name: str = "hello", **more: Any) -> Schedule:
    schedule = a_schedule(name, **more)
    return opened.write(schedules.create_schedule, schedule=schedule, job=schedule.job)


def a_turn(schedule: Schedule, next_run_at: datetime | None = None, *, job: bool = True) -> ScheduleStep:
    run = NewScheduleRun(due_at=NOW, at=NOW, result=RunResult.STARTED if job else RunResult.SKIPPED)
    new = a_new_job(schedule.name, schedule=schedule.id) if job else None
    return ScheduleStep(after=replace(schedule, next_run_at=next_run_at), run=run, job=new)


def take(opened: Opened, *turns: ScheduleStep) -> list[ScheduleStepResult]:
    return opened.write(schedules.advance_schedules, turns)


class SchedulesContract:
    def test_all_of_it_is_kept_and_its_secrets_sealed(self, opened: Opened) -> None:
        full = a_schedule(
            STRANGE,
            job=FULL_JOB,
            source=STRANGE,
            recurrence=Recurrence(kind=RecurrenceKind.CUSTOM, cron="*/5 * * * *", timezone="Asia/Taipei"),
            overlap=OverlapPolicy.CANCEL,
            missed=MissedRunPolicy.ONCE,
            ends_at=later(days=9),
            paused=True,
            invalid=InvalidReason.IMAGE,
            message=STRANGE,
            next_run_at=later(minutes=5),
            queued_at=later(minutes=1),
            last_run_at=NOW,
        )
        made = opened.write(schedules.create_schedule, schedule=full, job=FULL_JOB)
        assert made.id.startswith("recurrence-")
        assert len(made.id) == len("recurrence-") + 6
        stored = opened.read(schedules.load_schedule, made.id)
        assert stored is not None
        masked = replace(FULL_JOB, secrets=mask_values(FULL_JOB.secrets))
        assert stored.job == FULL_JOB
        assert stored.schedule == replace(made, job=masked)
        for id in ("recurrence-none", "nul\0", "\ud800"):
            assert opened.read(schedules.load_schedule, id) is None

    def test_a_change_is_kept_only_where_it_was_read(self, opened: Opened) -> None:
        made = add(opened)
        changed = replace(made, name="other", paused=True)
        saved = opened.write(schedules.update_schedule, schedule=changed, job=FULL_JOB)
        assert saved == replace(changed, version=1)
        assert opened.write(schedules.update_schedule, schedule=replace(made, name="late")) is None
        stored = opened.read(schedules.load_schedule, made.id)
        assert stored is not None
        assert (stored.schedule.name, stored.job) == ("other", FULL_JOB)

    def test_due_times_come_in_order(self, opened: Opened) -> None:
        add(opened, "later", next_run_at=later(seconds=1))
        add(opened, "never")
        add(opened, "second", next_run_at=NOW)
        add(opened, "first", next_run_at=NOW - timedelta(hours=1))
        due = opened.read(schedules.list_due_schedules, NOW, 10)
        assert [stored.schedule.name for stored in due] == ["first", "second"]
        assert len(opened.read(schedules.list_due_schedules, NOW, 1)) == 1
        assert opened.read(schedules.find_next_due_time) == NOW - timedelta(hours=1)

    def test_no_schedule_no_due_time(self, opened: Opened) -> None:
        add(opened)
        assert opened.read(schedules.find_next_due_time) is None

    def test_a_turn_is_a_job_a_run_and_the_next_time_together(self, opened: Opened) -> None:
        made = add(opened, next_run_at=NOW)
        (taken,) = take(opened, a_turn(made, later(hours=1)))
        assert taken.applied
        assert taken.inserted is not None
        job = taken.inserted.summary
        assert job.schedule == made.id
        (run,) = opened.read(schedules.list_runs, made.id, None, 10)
        assert (run.job_id, run.job_state, run.result, run.due_at) == (job.id, JobState.PENDING, RunResult.STARTED, NOW)
        assert opened.read(schedules.find_next_due_time) == later(hours=1)
        assert opened.read(schedules.load_open_jobs_by_schedule, [made.id, "recurrence-none"]) == {made.id: (job.id,)}
        opened.finish(job.id)
        assert opened.read(schedules.load_open_jobs_by_schedule, [made.id]) == {}

    def test_a_turn_is_taken_once(self, opened: Opened) -> None:
        made, other = add(opened, next_run_at=NOW), add(opened, "other", next_run_at=NOW)
        turn = a_turn(made, later(hours=1))
        take(opened, turn)
        again = take(opened, turn, a_turn(other, later(hours=1)))
        assert [taken.applied for taken in again] == [False, True]
        found = opened.pages(JobFilter(), 10)
        assert sorted(job.schedule or "" for job in found) == sorted([made.id, other.id])
        assert len(opened.read(schedules.list_runs, made.id, None, 10)) == 1

    def test_a_turn_of_what_is_gone_is_nothing(self, opened: Opened) -> None:
        made = add(opened, next_run_at=NOW)
        take(opened, a_turn(made))
        assert opened.write(schedules.delete_schedule, made.id)
        assert not opened.write(schedules.delete_schedule, made.id)
        assert take(opened, a_turn(replace(made, version=1))) == [ScheduleStepResult(applied=False)]
        with pytest.raises(Conflict, match="has been deleted"):
            opened.write(schedules.insert_manual_run, made.id, a_turn(made).run, a_new_job())  # type: ignore[arg-type]
        assert len(opened.pages(JobFilter(), 10)) == 1

    def test_history_is_newest_first_and_bounded(self, opened: Opened) -> None:
        made, other = add(opened), add(opened, "other")
        take(opened, a_turn(other, job=False))
        turns = [a_turn(replace(made, version=n), job=False) for n in range(1120)]
        opened.write(lambda conn: [schedules.advance_schedules(conn, [turn]) for turn in turns])
        found = opened.read(schedules.list_runs, made.id, None, 5000)
        assert schedules.MAX_KEPT_RUNS <= len(found) <= schedules.MAX_KEPT_RUNS + schedules.TRIM_INTERVAL
        assert [run.seq for run in found] == sorted((run.seq for run in found), reverse=True)
        assert opened.read(schedules.list_runs, made.id, found[9].seq, 5) == found[10:15]
        assert len(opened.read(schedules.list_runs, other.id, None, 10)) == 1

    def test_runs_that_wait_are_found_with_their_secrets(self, opened: Opened) -> None:
        waiting = add(opened, job=FULL_JOB, queued_at=NOW)
        idle = add(opened)
        found = opened.read(schedules.list_queued_schedules, [waiting.id, idle.id, "recurrence-none"])
        assert [(stored.schedule.id, stored.job) for stored in found] == [(waiting.id, FULL_JOB)]
        assert opened.read(schedules.list_queued_schedules, []) == []

    def test_only_the_newest_job_is_wanted_where_runs_take_each_others_place(self, opened: Opened) -> None:
        made, kept = add(opened, overlap=OverlapPolicy.CANCEL), add(opened, "kept")
        ids = {}
        for schedule in (made, kept):
            first, second = take(opened, a_turn(schedule)), take(opened, a_turn(replace(schedule, version=1)))
            ids[schedule.id] = [one.inserted.summary.id for (one,) in (first, second) if one.inserted]
        assert opened.read(schedules.load_superseded_jobs) == {ids[made.id][0]: made.id}
        opened.finish(ids[made.id][0])
        assert opened.read(schedules.load_superseded_jobs) == {}

    def test_what_was_found_by_looking_does_not_undo_a_change(self, opened: Opened) -> None:
        made = add(opened, next_run_at=NOW)
        seen = replace(made, invalid=InvalidReason.GROUP, message="gone")
        opened.write(schedules.record_validity, [seen])
        assert opened.read(schedules.load_schedule, made.id).schedule == seen  # type: ignore[union-attr]
        opened.write(schedules.update_schedule, schedule=replace(made, message=""))
        opened.write(schedules.record_validity, [seen])
        assert opened.read(schedules.load_schedule, made.id).schedule.message == ""  # type: ignore[union-attr]

    @pytest.mark.parametrize("order", ScheduleOrder)
    def test_lists_are_sorted_both_ways(self, opened: Opened, order: ScheduleOrder) -> None:
        for n, name in enumerate("abc"):
            at = later(minutes=n)
            job = a_job(name, group=name)
            add(opened, name, job=job, user=name, created_at=at, updated_at=at, next_run_at=at)
        for descending, expected in ((False, "abc"), (True, "cba")):
            query = ScheduleQuery(order=order, descending=descending)
            page = opened.read(schedules.list_schedules, query)
            assert [schedule.name for schedule in page.items] == list(expected)

    def test_lists_are_narrowed_and_cut(self, opened: Opened) -> None:
        for name in ("Train %_", "train", "evaluate"):
            add(opened, name, user=name[:1].lower(), updated_at=NOW)
        for query, count in (
            (ScheduleQuery(text="TRAIN"), 2),
            (ScheduleQuery(text="%_"), 1),
            (ScheduleQuery(text="recurrence-"), 3),
            (ScheduleQuery(user="e"), 1),
            (ScheduleQuery(groups=("default", "nul\0")), 3),
            (ScheduleQuery(groups=()), 0),
            (ScheduleQuery(text="nul\0"), 0),
        ):
            assert opened.read(schedules.list_schedules, query).total == count
        page = opened.read(schedules.list_schedules, ScheduleQuery(offset=2, limit=5))
        assert (len(page.items), page.total) == (1, 3)

    def test_all_are_met_page_by_page(self, opened: Opened) -> None:
        made = {add(opened, f"s{n}").id for n in range(5)}
        seen, last = [], ""
        while page := opened.read(schedules.list_schedules_after, last, 2):
            last = page[-1].id
            seen += [schedule.id for schedule in page]
        assert set(seen) == made
        assert len(seen) == 5
        assert opened.read(schedules.count_user_schedules, "ann") == 5

    def test_the_newest_run_of_each(self, opened: Opened) -> None:
        ran, idle, never = add(opened, "ran"), add(opened, "idle"), add(opened, "never")
        (taken,) = take(opened, a_turn(ran))
        assert taken.inserted is not None
        take(opened, a_turn(idle))
        take(opened, a_turn(replace(idle, version=1), job=False))
        found = opened.read(schedules.load_newest_runs, [ran.id, idle.id, never.id, "nobody"])
        assert {id: run.result for id, run in found.items()} == {ran.id: RunResult.STARTED, idle.id: RunResult.SKIPPED}
        assert (found[ran.id].job_id, found[ran.id].job_state) == (taken.inserted.summary.id, JobState.PENDING)
        assert opened.read(schedules.load_newest_runs, []) == {}

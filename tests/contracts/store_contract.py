"""What every store must do with jobs: submitted once, saved step by step, loaded as they were.

A test module gives the class a fixture `opened`; see test_store_sqlite and test_store_postgres.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from holdfast.core.attempt import JobSnapshot, Outcome, OutcomeResult, StopRequest, TaskAttempt, TaskHold
from holdfast.core.errors import Conflict, NotFound
from holdfast.core.exits.exit import Exit, ExitKind, RetryBehaviour, classify_exit
from holdfast.core.job import Completion, Hold, HoldScope, Job, JobFormat, Mount, Resources, Role
from holdfast.core.records import JobAttempt
from holdfast.core.states import JobState, TaskState
from holdfast.core.volumes import HostFolder, NfsExport
from holdfast.store.errors import NameInUse, StaleVersion
from holdfast.store.jobs import events
from holdfast.store.jobs import records as jobs
from tests.store.open_store import NOW, Opened, a_job, a_new_job, an_event, later

STRANGE = 'naïve ‘quotes’ "double" \\ %_ 訓練 🚀 \u202e\ttab'

FULL_JOB = Job(
    name=STRANGE,
    group="team",
    description=STRANGE,
    roles=(
        Role(
            name="worker",
            commands=("echo 'a'", STRANGE),
            instances=2,
            image="busybox",
            resources=Resources(cpu=0.5, memory=123456789, gpu=2, shm=64),
            ports={"http": 2},
            env={"KEY": STRANGE},
            mounts=(
                Mount(volume=HostFolder("/a"), target="/b", read_only=False),
                Mount(volume=HostFolder("/data"), target="/datasets/d", dataset="d"),
                Mount(volume=NfsExport(server="files", path="/export"), target="/datasets/e", dataset="e"),
            ),
            completion=Completion(min_failed=None, min_succeeded=2),
            max_task_retries=3,
            workdir="/w",
        ),
        Role(name="ps", commands=("true",), resources=Resources(cpu=1.25, memory=2**40)),
    ),
    secrets={"token": "s3cret", "nested": {"list": ["pässword", 1]}},
    gang=False,
    max_retries=-1,
    time_limit=timedelta(hours=1),
    grace=timedelta(seconds=1.5),
    hold=Hold(duration=timedelta(days=1), keep=HoldScope.FILES),
    priority=7,
    tags=("a", STRANGE),
    datasets=("d",),
    dialect=JobFormat.OPENPAI_V2,
    extras={"x": [1, None, {"y": True}]},
)


class JobsContract:
    # -- submitting

    def test_a_submitted_job_is_listed_shown_and_loaded(self, opened: Opened) -> None:
        new = a_new_job(job=FULL_JOB, source=STRANGE, rerun_of="job-1")
        inserted = opened.write(jobs.insert_job, new=new)
        summary = inserted.summary
        assert inserted.created
        assert re.fullmatch(r"job-202603040506-[a-z0-9]{6}", summary.id)
        assert (summary.cpu, summary.memory, summary.gpu) == (2.25, 2 * 123456789 + 2**40, 4)
        assert (summary.task_count, summary.tags, summary.rerun_of) == (3, FULL_JOB.tags, "job-1")
        assert summary.role_count == 2
        detail = opened.read(jobs.load_job_detail, summary.id)
        assert detail.summary == summary
        assert detail.source == STRANGE
        assert replace(detail.job, secrets=FULL_JOB.secrets) == FULL_JOB
        assert opened.read(jobs.load_snapshot, summary.id) == JobSnapshot(
            id=summary.id, job=FULL_JOB, user="ann", submitted_at=NOW
        )

    def test_secrets_are_masked_where_people_look(self, opened: Opened) -> None:
        id = opened.submit(job=FULL_JOB)
        assert "s3cret" not in repr(opened.read(jobs.load_job_detail, id.id))

    def test_the_first_event_is_written_with_the_job(self, opened: Opened) -> None:
        (event,) = opened.read(events.list_events, opened.submit().id)
        assert (event.kind, event.actor, event.state, event.at) == ("submitted", "ann", JobState.PENDING, NOW)

    def test_times_of_other_zones_come_back_the_same_instant(self, opened: Opened) -> None:
        there = NOW.astimezone(timezone(timedelta(hours=8)))
        id = opened.submit(at=there).id
        assert id.startswith("job-202603040506-")
        assert opened.read(jobs.load_job_detail, id).summary.submitted_at == NOW

    def test_ids_differ_and_order_follows_submission(self, opened: Opened) -> None:
        made = [opened.submit() for _ in range(20)]
        assert len({job.id for job in made}) == 20
        assert [job.seq for job in made] == sorted(job.seq for job in made)

    def test_an_id_that_is_taken_is_drawn_again(self, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
        drawn = iter(["job-1-aaaaaa", "job-1-aaaaaa", "job-1-bbbbbb"])
        monkeypatch.setattr(jobs, "generate_job_id", lambda at: next(drawn))
        assert [opened.submit().id, opened.submit().id] == ["job-1-aaaaaa", "job-1-bbbbbb"]

    # -- idempotency

    def test_the_same_key_gives_the_same_job(self, opened: Opened) -> None:
        new = a_new_job(idempotency_key="k1")
        first = opened.write(jobs.insert_job, new=new)
        again = opened.write(jobs.insert_job, new=replace(new, submitted_at=later(hours=1)))
        assert (first.created, again.created) == (True, False)
        assert again.summary == first.summary
        assert len(opened.read(jobs.load_active_jobs)) == 1

    def test_the_same_key_for_another_job_is_a_conflict(self, opened: Opened) -> None:
        opened.submit("one", idempotency_key="k1")
        with pytest.raises(Conflict, match="already in use by another job"):
            opened.submit("two", idempotency_key="k1")

    def test_keys_of_different_users_are_different(self, opened: Opened) -> None:
        opened.submit(user="ann", idempotency_key="k1")
        opened.submit(user="bob", idempotency_key="k1")
        assert len(opened.read(jobs.load_active_jobs)) == 2

    def test_the_same_key_twice_in_one_batch_makes_one_job(self, opened: Opened) -> None:
        new = a_new_job(idempotency_key="k1")

        def both(conn):
            return [jobs.insert_job(conn, new=new), jobs.insert_job(conn, new=new)]

        first, second = opened.write(both)
        assert (first.created, second.created) == (True, False)

    # -- names

    def test_a_unique_name_is_one_its_user_never_had(self, opened: Opened) -> None:
        opened.submit("one", user="ann", group="red")
        opened.submit("one", user="bob", unique_name=True)
        opened.submit("One", user="ann", unique_name=True)
        with pytest.raises(NameInUse):
            opened.submit("one", user="ann", group="blue", unique_name=True)
        opened.submit("one", user="ann")  # where it need not be
        assert opened.read(jobs.is_name_used, "ann", "one")
        assert not opened.read(jobs.is_name_used, "ann", "on")
        assert not opened.read(jobs.is_name_used, "ann", "one\0")

    def test_two_of_one_name_in_one_batch_make_one_job(self, opened: Opened) -> None:
        async def both() -> list[object]:
            writes = [opened.store.write(jobs.insert_job, new=a_new_job("one", unique_name=True)) for _ in range(2)]
            return await asyncio.gather(*writes, return_exceptions=True)

        first, second = opened.run(both())
        assert isinstance(first, jobs.InsertedJob)
        assert isinstance(second, NameInUse)
        assert len(opened.read(jobs.load_active_jobs)) == 1

    def test_the_same_key_comes_before_the_name(self, opened: Opened) -> None:
        new = a_new_job("one", unique_name=True, idempotency_key="k1")
        first = opened.write(jobs.insert_job, new=new)
        assert opened.write(jobs.insert_job, new=new).summary == first.summary

    def test_the_newest_job_of_a_user_and_name(self, opened: Opened) -> None:
        old = opened.submit("one", group="red")
        new = opened.submit("one", group="blue")
        opened.submit("one", user="bob")
        assert opened.read(jobs.find_newest_named_job, "ann", "one") == new
        assert opened.read(jobs.find_newest_named_job, "ann", "one", ["red"]) == old
        for user, name in (("ann", "on"), ("eve", "one"), ("ann", "one\0"), ("\ud800", "one"), ("", ""), ("ann", "%")):
            assert opened.read(jobs.find_newest_named_job, user, name) is None
        assert opened.read(jobs.find_newest_named_job, "ann", "one", ["none"]) is None
        assert opened.read(jobs.find_newest_named_job, "ann", "one", []) is None

    # -- saving and loading

    def test_every_field_survives_saving(self, opened: Opened) -> None:
        id = opened.submit(job=FULL_JOB).id
        before = opened.read(jobs.load_snapshot, id)
        exit = Exit(kind=ExitKind.USER_ERROR, message=STRANGE, behaviour=RetryBehaviour.PERMANENT, code=-1, signal=9)
        tasks = (
            TaskAttempt(
                role="worker",
                index=0,
                number=2,
                state=TaskState.FAILED,
                node="node-1",
                gpus=(0, 3),
                ports={"http": (15000, 15001)},
                placed_at=later(seconds=1),
                started_at=later(seconds=2),
                finished_at=later(microseconds=1),
                exit=exit,
                stop=classify_exit(137, oom=True),
                user_retries=1,
                platform_retries=2,
                retry_at=later(days=400),
                held=TaskHold(since=later(hours=1), until=later(days=7), exit=exit, keep=HoldScope.FILES, ended=True),
            ),
            TaskAttempt(role="worker", index=1, state=TaskState.RUNNING),
            TaskAttempt(role="ps", index=0),
        )
        after = replace(
            before,
            state=JobState.RUNNING,
            message=STRANGE,
            attempt=4,
            tasks=tasks,
            stop=StopRequest(actor="bob", at=later(seconds=3), why=STRANGE),
            outcome=Outcome(result=OutcomeResult.FAILED, message=STRANGE, exit=exit, role="worker", index=1),
            exit=exit,
            user_retries=3,
            platform_retries=4,
            retry_at=later(minutes=1),
            started_at=later(minutes=2),
            attempt_started_at=later(minutes=3),
            finished_at=later(minutes=4),
            version=1,
        )
        opened.write(jobs.save_job_changes, [jobs.JobChange(before_version=0, after=after, tasks=tasks)])
        assert opened.read(jobs.load_snapshot, id) == after
        assert opened.read(jobs.load_active_jobs) == [after]
        detail = opened.read(jobs.load_job_detail, id)
        assert (detail.exit, detail.outcome, detail.stop) == (after.exit, after.outcome, after.stop)
        assert (detail.summary.exit_code, detail.summary.exit_kind) == (-1, "user-error")
        assert (detail.summary.stopping, detail.summary.stop_why) == (True, STRANGE)
        assert [record.task for record in opened.read(jobs.list_job_tries, id)] == [tasks[2], tasks[0], tasks[1]]

    def test_a_change_from_an_old_version_is_refused_whole(self, opened: Opened) -> None:
        one, two = opened.submit("one").id, opened.submit("two").id
        opened.advance(one, JobState.PREPARING)
        stale = self._moved(opened, one, before_version=0)
        fine = self._moved(opened, two, before_version=0)
        with pytest.raises(StaleVersion, match="is at version 1; expected version 0"):
            opened.write(jobs.save_job_changes, [fine, stale])
        assert opened.read(jobs.load_snapshot, two).version == 0
        assert len(opened.read(events.list_events, two)) == 1

    def test_a_change_to_no_job_is_refused(self, opened: Opened) -> None:
        id = opened.submit().id
        lost = self._moved(opened, id, before_version=0)
        lost = replace(lost, after=replace(lost.after, id="job-none"))
        with pytest.raises(StaleVersion, match="has been deleted"):
            opened.write(jobs.save_job_changes, [lost])

    def test_a_version_must_rise(self, opened: Opened) -> None:
        id = opened.submit().id
        snapshot = opened.read(jobs.load_snapshot, id)
        with pytest.raises(ValueError, match="must be higher than 0"):
            opened.write(jobs.save_job_changes, [jobs.JobChange(before_version=0, after=snapshot)])

    def test_two_steps_of_one_job_in_one_save(self, opened: Opened) -> None:
        id = opened.submit().id
        first = self._moved(opened, id, before_version=0, state=JobState.PREPARING)
        second = replace(first, before_version=1, after=replace(first.after, version=2, state=JobState.RUNNING))
        opened.write(jobs.save_job_changes, [first, second])
        assert opened.read(jobs.load_snapshot, id).state is JobState.RUNNING
        kinds = [event.kind for event in opened.read(events.list_events, id)]
        assert kinds == ["submitted", "moved", "moved"]

    def test_saving_nothing_is_nothing(self, opened: Opened) -> None:
        opened.write(jobs.save_job_changes, [])

    def test_text_no_database_takes_is_made_fit(self, opened: Opened) -> None:
        id = opened.submit().id
        before = opened.read(jobs.load_snapshot, id)
        text = "a\0b\ud800c"
        event = replace(an_event("moved"), message=text)
        after = replace(before, version=1, message=text)
        opened.write(jobs.save_job_changes, [jobs.JobChange(before_version=0, after=after, events=(event,))])
        assert opened.read(jobs.load_job_detail, id).summary.message == "a\ufffdb?c"
        assert opened.read(events.list_events, id)[-1].message == "a\ufffdb?c"

    def test_an_event_that_changes_nothing_of_its_job(self, opened: Opened) -> None:
        id = opened.submit().id
        before = opened.read(jobs.load_snapshot, id)
        opened.write(events.record_event, id, an_event("entered", actor="ann", task="worker-0", attempt=0))
        assert opened.read(jobs.load_snapshot, id) == before
        opened.finish(id)
        opened.write(events.record_event, id, an_event("entered", actor="ann", task="worker-0", attempt=0))
        found = [event for event in opened.read(events.list_events, id) if event.kind == "entered"]
        assert [(event.actor, event.task, event.state) for event in found] == [("ann", "worker-0", None)] * 2
        for nobody in ("job-none", "a\0"):
            opened.write(events.record_event, nobody, an_event("entered"))

    def test_active_jobs_are_those_not_final(self, opened: Opened) -> None:
        made = {state: opened.submit(state.value).id for state in JobState}
        for state, id in made.items():
            opened.advance(id, state)
        active = [snapshot.job.name for snapshot in opened.read(jobs.load_active_jobs)]
        assert active == [state.value for state in JobState if not state.final]

    def test_a_snapshot_has_the_newest_try_of_each_task_of_its_attempt(self, opened: Opened) -> None:
        job = replace(a_job(), roles=(replace(a_job().roles[0], instances=3),))
        id = opened.submit(job=job).id

        def task(index: int, number: int, state: TaskState) -> TaskAttempt:
            return TaskAttempt(role="main", index=index, number=number, state=state)

        opened.advance(id, JobState.RUNNING, task(0, 0, TaskState.FAILED), task(1, 0, TaskState.FAILED))
        opened.advance(id, JobState.RUNNING, task(1, 0, TaskState.RUNNING), attempt=1)
        opened.advance(
            id, JobState.RUNNING, *(task(1, n, TaskState.FAILED) for n in range(11)), task(0, 0, TaskState.RUNNING)
        )
        expected = (task(0, 0, TaskState.RUNNING), task(1, 10, TaskState.FAILED), TaskAttempt(role="main", index=2))
        assert opened.read(jobs.load_snapshot, id).tasks == expected
        assert opened.read(jobs.load_active_jobs)[0].tasks == expected
        assert len(opened.read(jobs.list_job_tries, id)) == 2 + 12

    def test_a_new_attempt_has_no_tasks_yet(self, opened: Opened) -> None:
        id = opened.submit().id
        opened.advance(id, JobState.RUNNING, TaskAttempt(role="main", index=0, state=TaskState.FAILED))
        opened.advance(id, JobState.PENDING, attempt=1)
        assert opened.read(jobs.load_snapshot, id).tasks == ()

    # -- history

    def test_tries_of_a_job_are_kept_whole(self, opened: Opened) -> None:
        id = opened.submit(job=FULL_JOB).id
        exit = Exit(kind=ExitKind.USER_ERROR, message=STRANGE, behaviour=RetryBehaviour.PERMANENT, code=3, cause="oom")
        outcome = Outcome(
            result=OutcomeResult.FAILED, message=STRANGE, exit=exit, role="w", index=1, reached=1, needed=2
        )
        first = JobAttempt(number=0, started_at=None, finished_at=later(hours=1), outcome=outcome, counted=False)
        second = replace(first, number=1, started_at=later(hours=2), finished_at=later(hours=3), counted=True)
        before = opened.read(jobs.load_snapshot, id)
        for version, attempt in enumerate((replace(first, counted=True), first, second), 1):
            after = replace(before, version=version, attempt=attempt.number)  # the first one is saved again
            opened.write(
                jobs.save_job_changes, [jobs.JobChange(before_version=version - 1, after=after, attempts=(attempt,))]
            )
        assert opened.read(jobs.list_past_attempts, id) == [first]  # the job itself tells of the newest
        opened.advance(id, JobState.PENDING, attempt=2)
        assert opened.read(jobs.list_past_attempts, id) == [first, second]
        assert opened.read(jobs.list_past_attempts, opened.submit().id) == []

    def test_the_cause_of_an_end_is_in_the_list(self, opened: Opened) -> None:
        exit = Exit(kind=ExitKind.USER_ERROR, message="", behaviour=RetryBehaviour.PERMANENT, code=3, cause="oom")
        ended = opened.advance(opened.submit().id, JobState.FAILED, exit=exit)
        assert opened.read(jobs.load_job_detail, ended.id).summary.exit_cause == "oom"
        assert opened.read(jobs.load_job_detail, opened.submit().id).summary.exit_cause == ""

    def test_a_task_is_found_by_its_attempt_id(self, opened: Opened) -> None:
        job = replace(a_job(), roles=(replace(a_job().roles[0], name="odd-1.name"),))
        id = opened.submit(job=job).id
        task = TaskAttempt(role="odd-1.name", index=12, number=3, state=TaskState.RUNNING)
        after = opened.advance(id, JobState.RUNNING, task, attempt=2)
        record = opened.read(jobs.find_task_try, after.build_attempt_id(task))
        assert record is not None
        assert (record.task, record.attempt, record.job_id) == (task, 2, id)
        assert record.attempt_id == f"{id}.2.odd-1.name-12.3"

    @pytest.mark.parametrize("id", ["", "x", "job.0.main-0.1", "a.b.c-d.e", "a\0.0.m-0.0", "\ud800.0.m-0.0"])
    def test_no_task_of_a_strange_id(self, opened: Opened, id: str) -> None:
        assert opened.read(jobs.find_task_try, id) is None

    def test_events_come_in_order_and_in_parts(self, opened: Opened) -> None:
        id, other = opened.submit().id, opened.submit().id
        for number in range(1, 8):
            change = self._moved(opened, id, before_version=number - 1, version=number)
            opened.write(
                jobs.save_job_changes, [change, self._moved(opened, other, before_version=number - 1, version=number)]
            )
        every = opened.read(events.list_events, id)
        assert [event.kind for event in every] == ["submitted", *["moved"] * 7]
        assert all(event.job_id == id for event in every)
        first = opened.read(events.list_events, id, 0, 3)
        rest = opened.read(events.list_events, id, first[-1].seq)
        assert [*first, *rest] == every

    def test_asking_for_a_job_that_is_not_there(self, opened: Opened) -> None:
        for id in ("job-none", "", "a\0b", "\ud800"):
            assert opened.read(events.list_events, id) == []
            assert opened.read(jobs.list_job_tries, id) == []
            assert opened.read(jobs.list_past_attempts, id) == []
            for ask in (jobs.load_job_detail, jobs.load_snapshot):
                with pytest.raises(NotFound):
                    opened.read(ask, id)

    # -- retention

    def test_which_jobs_there_are(self, opened: Opened) -> None:
        ids = [opened.submit(name).id for name in ("one", "two")]
        assert opened.read(jobs.filter_existing_jobs, [ids[1], "job-gone", "bad\0name", ids[0], "\ud800"]) == set(ids)
        assert opened.read(jobs.filter_existing_jobs, []) == set()

    def test_logs_are_due_some_time_after_the_job_ended(self, opened: Opened) -> None:
        ids = [opened.submit(f"job {day}").id for day in range(4)]
        for day, id in enumerate(ids[:3]):
            opened.advance(id, JobState.RUNNING, TaskAttempt(role="main", index=0, state=TaskState.FAILED))
            opened.advance(id, JobState.RUNNING, TaskAttempt(role="main", index=0), attempt=1)
            opened.advance(id, JobState.FAILED, finished_at=later(days=day))
        opened.advance(ids[3], JobState.RUNNING, TaskAttempt(role="main", index=0))
        due = opened.read(jobs.list_expired_logs, later(days=1, seconds=1))
        assert sorted(due) == sorted(f"{id}.{attempt}.main-0.0" for id in ids[:2] for attempt in (0, 1))
        assert opened.read(jobs.list_expired_logs, later(days=9), 2) == [f"{ids[0]}.0.main-0.0", f"{ids[0]}.1.main-0.0"]

    def test_removed_logs_are_not_due_again_and_say_when(self, opened: Opened) -> None:
        id = opened.submit().id
        opened.finish(id)
        (due,) = opened.read(jobs.list_expired_logs, later(days=8))
        opened.write(jobs.mark_logs_removed, [due, "no.0.such-0.0", "nonsense"], later(days=8))
        opened.write(jobs.mark_logs_removed, [due], later(days=9))
        assert opened.read(jobs.list_expired_logs, later(days=10)) == []
        record = opened.read(jobs.find_task_try, due)
        assert record is not None
        assert record.logs_removed_at == later(days=8)

    def test_a_job_that_is_tried_for_ever_keeps_logs_of_its_newest_tries(self, opened: Opened) -> None:
        id = opened.submit().id
        task = TaskAttempt(role="main", index=0, state=TaskState.FAILED)
        outcome = Outcome(result=OutcomeResult.FAILED, message="", exit=classify_exit(137))
        for number in (0, 1, 2, jobs.MAX_KEPT_TRIES + 1):
            after = opened.advance(id, JobState.RUNNING, task, attempt=number)
            ended = JobAttempt(number=number, started_at=None, finished_at=NOW, outcome=outcome, counted=False)
            after = replace(after, version=after.version + 1)
            opened.write(
                jobs.save_job_changes,
                [jobs.JobChange(before_version=after.version - 1, after=after, attempts=(ended,))],
            )
        assert opened.read(jobs.list_expired_logs, NOW) == [f"{id}.1.main-0.0"]
        tries = [replace(task, number=number) for number in (1, 2, jobs.MAX_KEPT_TRIES + 2)]
        opened.advance(id, JobState.RUNNING, *tries, attempt=2)
        assert sorted(opened.read(jobs.list_expired_logs, NOW)) == [f"{id}.1.main-0.0", f"{id}.2.main-0.2"]
        of_one = [record.task.number for record in opened.read(jobs.list_job_tries, id, 2)]
        assert of_one == [0, 1, 2, jobs.MAX_KEPT_TRIES + 2]

    @staticmethod
    def _moved(opened: Opened, id: str, *, before_version: int, version: int = 0, **more: object) -> jobs.JobChange:
        before = opened.read(jobs.load_snapshot, id)
        after = replace(before, version=version or before_version + 1, **more)
        return jobs.JobChange(before_version=before_version, after=after, events=(an_event("moved"),))

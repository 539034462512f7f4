"""What the tasks of a job wait for in an engine that queues them: shown as one message, with few events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from holdfast.core.attempt import JobSnapshot, Observation, ObservedState
from holdfast.core.planning.plan import plan_job
from holdfast.core.planning.start_progress import (
    QUICK_REPORTS,
    REPORT_INTERVAL,
    StartProgress,
    count_messages,
    find_quiet_end,
    summarize_counts,
)
from holdfast.core.planning.steps import Plan

from .jobs import NOON, job, role, snapshot
from .test_plan import POLICY, placed

LATER = NOON + REPORT_INTERVAL


def prepare() -> JobSnapshot:
    first = snapshot(job(role(instances=3)))
    return plan_job(first, {}, NOON, POLICY, decision=placed(first)).after


def plan_with(before: JobSnapshot, counts: Mapping[str, int], **more: object) -> Plan:
    progress = StartProgress(counts=counts, **more)  # type: ignore[arg-type]
    return plan_job(before, {}, NOON, POLICY, progress=progress)


def test_many_reasons_are_one_message() -> None:
    assert summarize_counts({}) == ""
    assert summarize_counts({"Resources": 500}) == "Resources"
    assert summarize_counts({"Resources": 1, "Priority": 499}) == "Priority (499 of 500 tasks)"
    assert summarize_counts({"b": 1, "a": 1}) == "a (1 of 2 tasks)"  # always the same of two


def test_only_tasks_that_wait_are_counted() -> None:
    seen = [
        Observation(attempt_id="a", seen=ObservedState.QUEUED, message="Priority"),
        Observation(attempt_id="b", seen=ObservedState.STARTING, message="Priority"),
        Observation(attempt_id="c", seen=ObservedState.QUEUED),
        Observation(attempt_id="d", seen=ObservedState.LOST, message="gone"),
    ]
    assert count_messages(seen) == {"Priority": 2}


def test_a_change_is_one_event_however_many_tasks_wait() -> None:
    made = plan_with(prepare(), {"Resources": 1, "Priority": 2})
    assert [(event.kind, event.task) for event in made.events] == [("starting", None)]
    assert made.after.message == "Priority (2 of 3 tasks)"
    again = plan_with(made.after, {"Resources": 1, "Priority": 2})
    assert (again.events, again.wake_in) == ((), None)


def test_a_change_in_a_quiet_time_is_reported_later() -> None:
    before = prepare()
    made = plan_with(before, {"Priority": 3}, quiet_until=LATER)
    assert (made.events, made.after.message) == ((), before.message)
    assert made.wake_in == REPORT_INTERVAL
    made = plan_job(before, {}, LATER, POLICY, progress=StartProgress(counts={"Priority": 3}, quiet_until=LATER))
    assert [event.message for event in made.events] == ["Priority"]
    assert made.wake_in is None


def test_the_first_events_are_written_at_once() -> None:
    assert find_quiet_end(0, None) is None
    assert find_quiet_end(QUICK_REPORTS - 1, NOON) is None
    assert find_quiet_end(QUICK_REPORTS, NOON) == NOON + timedelta(minutes=1)

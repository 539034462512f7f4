"""Failed tasks that are kept: what is granted, how long, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from holdfast.core.attempt import JobSnapshot, Observation, ObservedState, Outcome, OutcomeResult, StopRequest, TaskHold
from holdfast.core.exits.exit import ExitKind
from holdfast.core.holds import (
    HoldAction,
    HoldPolicy,
    HoldRequest,
    format_duration_in_words,
    render_hold_banner,
    resolve_hold_policy,
)
from holdfast.core.job import Hold, HoldScope
from holdfast.core.planning.plan import plan_job
from holdfast.core.planning.steps import AppendLogStep, JobPolicy, Plan, RemoveStep, StopStep
from holdfast.core.states import JobState, TaskState

from .jobs import NOON, job, role
from .test_plan import POLICY, running, see

WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
HOLD = replace(POLICY, hold=HoldPolicy())
FILES = replace(POLICY, hold=HoldPolicy(keep=HoldScope.FILES))

GUIDE = """\
job has finished with exit code 2
=============================================================================
======   The job container failed, so it will be reserved for 1 week   ======
======          After debugging, please stop the job manually.         ======
=============================================================================
"""


def fail(of: JobSnapshot, policy: JobPolicy = HOLD, code: int = 2, **fields: object) -> Plan:
    return plan_job(of, see(of, ObservedState.HELD, code=code, **fields), NOON, policy)


def gone(of: JobSnapshot, policy: JobPolicy = HOLD, now: datetime = NOON) -> Plan:
    return plan_job(of, see(of, ObservedState.EXITED, code=137), now, policy)


def ask(of: JobSnapshot, what: HoldAction, policy: JobPolicy = HOLD, **fields: object) -> Plan:
    request = HoldRequest(actor="ann", at=NOON, action=what, **fields)  # type: ignore[arg-type]
    return plan_job(of, {}, NOON, policy, requests=[request])


def held_of(of: JobSnapshot) -> TaskHold:
    (task,) = [task for task in of.tasks if task.held]
    assert task.held is not None
    return task.held


def test_the_banner_is_the_one_of_the_debugging_guide() -> None:
    assert render_hold_banner(2, HoldPolicy()) == GUIDE


@pytest.mark.parametrize("keep", [HoldScope.ALL, HoldScope.FILES])
@pytest.mark.parametrize("seconds", [1, 90, 3600, 36 * 3600, 86400 * 365])
def test_the_banner_is_a_box_however_long_the_time(keep: HoldScope, seconds: int) -> None:
    lines = render_hold_banner(1, HoldPolicy(duration=timedelta(seconds=seconds), keep=keep)).splitlines()[1:]
    assert len({len(line) for line in lines}) == 1
    assert format_duration_in_words(timedelta(seconds=seconds)) in lines[1]


def test_a_failed_task_is_held_with_all_it_has() -> None:
    made = fail(running())
    (task,) = made.after.tasks
    assert (made.after.state, task.state, task.occupies_node) == (JobState.HELD, TaskState.HELD, True)
    assert (task.finished_at, task.worked_until) == (None, NOON)  # what it has counts as used
    held = held_of(made.after)
    assert (held.until, held.exit.code, held.exit.kind) == (NOON + WEEK, 2, ExitKind.USER_ERROR)
    assert [(type(step), getattr(step, "text", "")) for step in made.steps] == [(AppendLogStep, GUIDE)]
    assert made.wake_in == WEEK - HOUR  # to tell that it ends soon
    assert [event.kind for event in made.events] == ["task-held", "held"]


def test_a_hold_of_files_gives_the_rest_back() -> None:
    made = fail(running(), FILES)
    assert [type(step) for step in made.steps] == [AppendLogStep, StopStep]
    assert made.after.tasks[0].occupies_node  # until its processes are gone
    made = gone(made.after, FILES, NOON + timedelta(seconds=1))
    (task,) = made.after.tasks
    assert task.finished_at == NOON + timedelta(seconds=1)
    assert (task.state, task.occupies_node, made.after.state) == (TaskState.HELD, False, JobState.HELD)
    assert not made.steps
    assert gone(made.after, FILES).tasks == ()


def test_nothing_is_held_where_nobody_asked_for_it() -> None:
    made = fail(running(), POLICY)
    assert [type(step) for step in made.steps] == [StopStep]
    made = gone(made.after, POLICY)
    assert (made.after.state, made.after.exit and made.after.exit.code) == (JobState.FAILED, 2)


def test_one_too_many_is_not_held_and_says_why() -> None:
    policy = replace(POLICY, hold=HoldPolicy(remaining_holds=0, refusal="ann holds 10 tasks already."))
    made = fail(running(), policy)
    assert "main-0 was not put on hold: ann holds 10 tasks already." in [event.message for event in made.events]
    made = gone(made.after, policy)
    assert (made.after.state, made.after.exit and made.after.exit.code) == (JobState.FAILED, 2)


def test_at_the_deadline_it_ends_as_it_would_have() -> None:
    held = fail(running()).after
    assert plan_job(held, {}, NOON + WEEK - timedelta(seconds=1), HOLD).steps == ()
    late = plan_job(held, {}, NOON + WEEK, HOLD)
    assert [type(step) for step in late.steps] == [StopStep]
    assert late.wake_in is None
    assert not plan_job(late.after, {}, NOON + WEEK, HOLD).steps  # asked once
    made = gone(late.after, now=NOON + WEEK)
    assert made.after.state is JobState.FAILED
    assert made.after.exit is not None
    assert (made.after.exit.code, made.after.exit.message) == (2, "Exit code 2")
    assert [type(step) for step in made.steps] == [RemoveStep]


def test_that_it_ends_soon_is_told_once_for_each_end() -> None:
    held = fail(running()).after
    assert plan_job(held, {}, NOON + WEEK - HOUR - timedelta(seconds=1), HOLD).events == ()
    made = plan_job(held, {}, NOON + WEEK - HOUR, HOLD)
    assert [(event.kind, event.task) for event in made.events] == [("hold-ending", "main-0")]
    assert made.wake_in == HOUR
    assert plan_job(made.after, {}, NOON + WEEK - HOUR / 2, HOLD).events == ()
    request = HoldRequest(actor="ann", at=NOON, action=HoldAction.EXTEND, until=NOON + 2 * WEEK)
    longer = plan_job(made.after, {}, NOON + WEEK - HOUR / 2, HOLD, requests=[request]).after
    assert plan_job(longer, {}, NOON + WEEK, HOLD).events == ()
    assert [event.kind for event in plan_job(longer, {}, NOON + 2 * WEEK - HOUR, HOLD).events] == ["hold-ending"]
    short = replace(POLICY, hold=HoldPolicy(duration=timedelta(minutes=9)))
    assert plan_job(fail(running(), short).after, {}, NOON + timedelta(seconds=539), short).events == ()


def test_a_hold_of_files_ends_at_once() -> None:
    held = gone(fail(running(), FILES).after, FILES).after
    made = plan_job(held, {}, NOON + WEEK, FILES)
    assert (made.after.state, [type(step) for step in made.steps]) == (JobState.FAILED, [RemoveStep])


def test_a_stop_ends_it_failed_and_not_cancelled() -> None:
    held = replace(fail(running()).after, stop=StopRequest(actor="ann", at=NOON))
    made = plan_job(held, {}, NOON, HOLD)
    assert [type(step) for step in made.steps] == [StopStep]
    made = gone(made.after)
    assert (made.after.state, made.after.exit and made.after.exit.code) == (JobState.FAILED, 2)


def test_a_released_one_is_not_tried_again() -> None:
    held = fail(running(job(max_retries=3))).after
    made = gone(ask(held, HoldAction.RELEASE).after)
    assert (made.after.state, made.after.retry_at) == (JobState.FAILED, None)


def test_an_extension_goes_no_further_than_the_admin_allows() -> None:
    policy = replace(POLICY, hold=HoldPolicy(longest=timedelta(days=10)))
    held = fail(running(), policy).after
    made = ask(held, HoldAction.EXTEND, policy, until=NOON + timedelta(days=9))
    assert (held_of(made.after).until, made.wake_in) == (NOON + timedelta(days=9), timedelta(days=9) - HOUR)
    made = ask(held, HoldAction.EXTEND, policy, until=NOON + timedelta(days=90))
    assert held_of(made.after).until == NOON + timedelta(days=10)


def test_all_can_become_files_only() -> None:
    made = ask(fail(running()).after, HoldAction.KEEP_FILES)
    assert [type(step) for step in made.steps] == [StopStep]
    made = gone(made.after)
    assert (made.after.state, made.after.tasks[0].occupies_node) == (JobState.HELD, False)


def test_processes_that_end_by_themselves_leave_their_files() -> None:
    made = gone(fail(running()).after)
    held = held_of(made.after)
    assert (made.after.state, held.keep, held.ended) == (JobState.HELD, HoldScope.FILES, True)


def test_files_that_are_gone_end_it() -> None:
    held = fail(running()).after
    made = plan_job(held, see(held, ObservedState.ABSENT), NOON, HOLD)
    assert (made.after.state, made.after.exit and made.after.exit.code) == (JobState.FAILED, 2)


@pytest.mark.parametrize("kind", ["stop", "limit"])
def test_what_was_asked_to_end_is_not_held(kind: str) -> None:
    before = running()
    if kind == "stop":
        before = plan_job(replace(before, stop=StopRequest(actor="ann", at=NOON)), {}, NOON, HOLD).after
    else:
        before = plan_job(before, {}, NOON, HOLD, elapsed=timedelta(days=2)).after
    made = fail(before, code=143)
    assert [type(step) for step in made.steps] == [StopStep]
    made = gone(made.after)
    assert made.after.state is (JobState.CANCELLED if kind == "stop" else JobState.FAILED)


def test_a_held_job_has_no_time_limit_but_what_runs_beside_it_has() -> None:
    held = fail(running()).after
    assert not plan_job(held, {}, NOON, HOLD, elapsed=timedelta(days=3)).steps
    two = running(job(role(instances=2)))
    first = two.build_attempt_id(two.tasks[0])
    made = plan_job(two, {first: Observation(attempt_id=first, seen=ObservedState.HELD, code=2)}, NOON, HOLD)
    assert made.after.state is JobState.HELD
    late = plan_job(made.after, {}, NOON, HOLD, elapsed=timedelta(days=3))
    assert [step.attempt_id for step in late.steps] == [two.build_attempt_id(two.tasks[1])]
    assert late.after.tasks[0].state is TaskState.HELD


def test_other_tasks_go_on_beside_a_held_one() -> None:
    two = running(job(role(instances=2)))
    ids = [two.build_attempt_id(task) for task in two.tasks]
    made = plan_job(two, {ids[0]: Observation(attempt_id=ids[0], seen=ObservedState.HELD, code=2)}, NOON, HOLD)
    assert [type(step) for step in made.steps] == [AppendLogStep]
    made = plan_job(made.after, {ids[1]: Observation(attempt_id=ids[1], seen=ObservedState.EXITED, code=0)}, NOON, HOLD)
    assert made.after.state is JobState.HELD
    made = gone(ask(made.after, HoldAction.RELEASE, task="main-0").after)
    assert made.after.state is JobState.FAILED


def test_a_role_whose_success_is_enough_succeeds_once_nothing_is_held() -> None:
    two = running(job(role(instances=2)))
    made = fail(two)
    won = Outcome(result=OutcomeResult.SUCCEEDED, message="enough", exit=replace(held_exit(made.after), code=0))
    late = gone(ask(replace(made.after, outcome=won), HoldAction.RELEASE).after)
    assert late.after.state is JobState.SUCCEEDED


def held_exit(of: JobSnapshot):  # type: ignore[no-untyped-def]
    return next(task.held.exit for task in of.tasks if task.held)


@pytest.mark.parametrize(
    ("hold", "expected"),
    [
        (None, None),
        (Hold(keep=HoldScope.NOTHING), None),
        (Hold(), HoldPolicy(duration=WEEK, longest=WEEK * 2)),
        (Hold(duration=timedelta(hours=1)), HoldPolicy(duration=timedelta(hours=1), longest=WEEK * 2)),
        (Hold(duration=WEEK * 9), HoldPolicy(duration=WEEK * 2, longest=WEEK * 2)),
    ],
)
def test_what_is_granted(hold: Hold | None, expected: HoldPolicy | None) -> None:
    assert resolve_hold_policy(hold, WEEK, WEEK * 2) == expected

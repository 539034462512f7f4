"""Completion, checked against a second, plainer reading of OpenPAI's rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.attempt import OutcomeResult, TaskAttempt
from holdfast.core.completion import decide_outcome
from holdfast.core.exits.exit import classify_exit
from holdfast.core.job import Completion, Job
from holdfast.core.planning.task_requests import build_task_attempts
from holdfast.core.states import TaskState

from .jobs import NOON, job, jobs, role

states = st.sampled_from([TaskState.RUNNING, TaskState.SUCCEEDED, TaskState.FAILED])


def ended(task: TaskAttempt, state: TaskState) -> TaskAttempt:
    if state is TaskState.RUNNING:
        return replace(task, state=state)
    return replace(task, state=state, exit=classify_exit(int(state is TaskState.FAILED)), finished_at=NOON)


def expected(of: Job, tasks: list[TaskAttempt]) -> OutcomeResult | None:
    def count(name: str, state: TaskState) -> int:
        return sum(task.role == name and task.state is state for task in tasks)

    for r in of.roles:
        needed = r.completion.min_failed
        if needed is not None and needed > 0 and count(r.name, TaskState.FAILED) >= needed:
            return OutcomeResult.FAILED
    for r in of.roles:
        needed = r.completion.min_succeeded
        if needed is not None and needed > 0 and count(r.name, TaskState.SUCCEEDED) >= needed:
            return OutcomeResult.SUCCEEDED
    over = all(task.state in (TaskState.FAILED, TaskState.SUCCEEDED) for task in tasks)
    return OutcomeResult.SUCCEEDED if over else None


@given(jobs(), st.data())
def test_agrees_with_the_rules(of: Job, data: st.DataObject) -> None:
    tasks = [ended(task, data.draw(states)) for task in build_task_attempts(of)]
    outcome = decide_outcome(of, tasks)
    assert (outcome.result if outcome else None) is expected(of, tasks)


def test_first_role_to_finish_ends_an_openpai_job() -> None:
    of = job(role("worker", completion=Completion(min_succeeded=1)), role("ps", completion=Completion(min_succeeded=1)))
    worker, ps = build_task_attempts(of)
    outcome = decide_outcome(of, [ended(worker, TaskState.SUCCEEDED), ended(ps, TaskState.RUNNING)])
    assert outcome is not None
    assert outcome.result is OutcomeResult.SUCCEEDED
    assert outcome.role == "worker"


def test_our_own_jobs_wait_for_every_role() -> None:
    of = job(role("worker"), role("ps"))
    worker, ps = build_task_attempts(of)
    assert decide_outcome(of, [ended(worker, TaskState.SUCCEEDED), ended(ps, TaskState.RUNNING)]) is None


@pytest.mark.parametrize("off", [None, 0, -1])
def test_failures_that_never_fail_the_job(off: int | None) -> None:
    of = job(role("main", instances=2, completion=Completion(min_failed=off, min_succeeded=off)))
    first, second = build_task_attempts(of)
    assert decide_outcome(of, [ended(first, TaskState.FAILED), ended(second, TaskState.RUNNING)]) is None
    outcome = decide_outcome(of, [ended(first, TaskState.FAILED), ended(second, TaskState.FAILED)])
    assert outcome is not None
    assert (outcome.result, outcome.exit.code) == (OutcomeResult.SUCCEEDED, 0)
    assert (outcome.role, outcome.index, outcome.reached, outcome.needed) == (None, None, 2, None)


def test_an_outcome_tells_which_rule_was_met_by_how_many() -> None:
    of = job(role("a", instances=3, completion=Completion(min_failed=2, min_succeeded=2)))
    first, second, third = build_task_attempts(of)
    failed = decide_outcome(of, [ended(first, TaskState.FAILED), second, ended(third, TaskState.FAILED)])
    assert failed is not None
    assert (failed.result, failed.role, failed.index) == (OutcomeResult.FAILED, "a", 0)
    assert (failed.reached, failed.needed) == (2, 2)
    won = decide_outcome(of, [ended(first, TaskState.SUCCEEDED), second, ended(third, TaskState.SUCCEEDED)])
    assert won is not None
    assert (won.result, won.role, won.index) == (OutcomeResult.SUCCEEDED, "a", 2)
    assert (won.reached, won.needed) == (2, 2)


def test_the_first_failure_is_named_with_its_own_exit_code() -> None:
    of = job(role("main", instances=2))
    first, second = build_task_attempts(of)
    failed = replace(first, state=TaskState.FAILED, exit=classify_exit(3), finished_at=NOON)
    outcome = decide_outcome(of, [failed, ended(second, TaskState.RUNNING)])
    assert outcome is not None
    assert outcome.exit.code == 3
    assert outcome.message == "main-0: Exit code 3"


def test_of_a_single_task_there_is_no_more_to_say() -> None:
    for rule in (Completion(min_succeeded=1), Completion(min_succeeded=None)):
        of = job(role("main", completion=rule))
        outcome = decide_outcome(of, [ended(task, TaskState.SUCCEEDED) for task in build_task_attempts(of)])
        assert outcome is not None
        assert outcome.message == "Succeeded"


def test_a_role_that_waits_for_all_fails_only_when_all_have_ended() -> None:
    of = job(role("case", instances=3, completion=Completion(wait_for_all=True)))
    first, second, third = build_task_attempts(of)
    failed, passed = ended(first, TaskState.FAILED), ended(second, TaskState.SUCCEEDED)
    assert decide_outcome(of, [failed, passed, ended(third, TaskState.RUNNING)]) is None
    outcome = decide_outcome(of, [failed, passed, ended(third, TaskState.SUCCEEDED)])
    assert outcome is not None
    assert (outcome.result, outcome.index) == (OutcomeResult.FAILED, 0)

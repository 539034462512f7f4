"""Each row of OpenPAI's table of states, and each of our states on its way there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from holdfast.core.attempt import TaskAttempt
from holdfast.core.exits.exit import Exit, ExitKind, classify_exit
from holdfast.core.job import JobFormat
from holdfast.core.records import JobPhase, JobSummary
from holdfast.core.states import JobState, TaskState
from holdfast.server.openpai.jobs import states
from holdfast.server.openpai.jobs.listing import HELD_TAG, build_job_fields, job_to_item

NOW = datetime(2026, 3, 1, tzinfo=UTC)

ROWS = [
    ("AttemptCreationPending", None, "WAITING"),
    ("AttemptCreationRequested", None, "WAITING"),
    ("AttemptPreparing", None, "WAITING"),
    ("AttemptRunning", None, "RUNNING"),
    *(
        (word, code, "STOPPING" if code in (-210, -220) else "RUNNING")
        for word in ("AttemptDeletionPending", "AttemptDeletionRequested", "AttemptDeleting", "AttemptCompleted")
        for code in (-210, -220, 255, 0, None)
    ),
    ("Completed", 0, "SUCCEEDED"),
    ("Completed", -210, "STOPPED"),
    ("Completed", -220, "STOPPED"),
    ("Completed", 255, "FAILED"),
    ("Completed", -1100, "FAILED"),
    ("Completed", -7351, "FAILED"),
    ("FRAMEWORK_WAITING", None, "WAITING"),
    ("APPLICATION_CREATED", None, "WAITING"),
    ("APPLICATION_LAUNCHED", None, "WAITING"),
    ("APPLICATION_WAITING", None, "WAITING"),
    ("APPLICATION_RETRIEVING_DIAGNOSTICS", None, "WAITING"),
    ("APPLICATION_COMPLETED", None, "WAITING"),
    ("APPLICATION_RUNNING", None, "RUNNING"),
    ("FRAMEWORK_COMPLETED", 0, "SUCCEEDED"),
    ("FRAMEWORK_COMPLETED", -7351, "STOPPED"),
    ("FRAMEWORK_COMPLETED", 255, "FAILED"),
    ("FRAMEWORK_COMPLETED", -210, "FAILED"),
    ("TASK_WAITING", None, "WAITING"),
    ("CONTAINER_REQUESTED", None, "WAITING"),
    ("CONTAINER_ALLOCATED", None, "WAITING"),
    ("CONTAINER_COMPLETED", None, "WAITING"),
    ("CONTAINER_RUNNING", None, "RUNNING"),
    ("TASK_COMPLETED", 0, "SUCCEEDED"),
    ("TASK_COMPLETED", -7400, "STOPPED"),
    ("TASK_COMPLETED", 1, "FAILED"),
    ("COMPLETING", None, "UNKNOWN"),
    ("Unknown", None, "UNKNOWN"),
    ("completed", 0, "UNKNOWN"),
    ("", None, "UNKNOWN"),
]


@pytest.mark.parametrize(("word", "code", "state"), ROWS)
def test_each_row(word: str, code: int | None, state: str) -> None:
    assert states.get_shown_state(word, code) == state


@pytest.mark.parametrize(("word", "code", "state"), ROWS)
def test_an_attempt_differs_only_once_it_is_over(word: str, code: int | None, state: str) -> None:
    over = {0: "SUCCEEDED", -210: "STOPPED", -220: "STOPPED"}.get(code if code is not None else 1, "FAILED")
    assert states.get_attempt_state(word, code) == (over if word == "AttemptCompleted" else state)


SUMMARY = JobSummary(
    id="j1",
    seq=1,
    name="train",
    user="alice",
    group="default",
    state=JobState.PENDING,
    message="",
    submitted_at=NOW,
    started_at=None,
    finished_at=None,
    exit_code=None,
    exit_kind=None,
    attempt=0,
    task_count=1,
    cpu=1,
    memory=1,
    gpu=0,
    priority=0,
    dialect=JobFormat.OPENPAI_V2,
)
JOBS = [
    ({}, "AttemptCreationPending", "WAITING", JobPhase.WAITING),
    ({"attempt": 1}, "AttemptCreationPending", "WAITING", JobPhase.WAITING),
    ({"retry_at": NOW}, "AttemptCompleted", "RUNNING", JobPhase.RUNNING),
    ({"stopping": True}, "AttemptDeletionPending", "STOPPING", JobPhase.STOPPING),
    ({"stopping": True, "retry_at": NOW}, "AttemptDeletionPending", "STOPPING", JobPhase.STOPPING),
    ({"state": JobState.PREPARING}, "AttemptPreparing", "WAITING", JobPhase.WAITING),
    ({"state": JobState.PREPARING, "stopping": True}, "AttemptDeletionRequested", "STOPPING", JobPhase.STOPPING),
    ({"state": JobState.RUNNING}, "AttemptRunning", "RUNNING", JobPhase.RUNNING),
    ({"state": JobState.RUNNING, "stopping": True}, "AttemptDeleting", "STOPPING", JobPhase.STOPPING),
    ({"state": JobState.HELD}, "AttemptRunning", "RUNNING", JobPhase.RUNNING),
    ({"state": JobState.HELD, "stopping": True}, "AttemptDeleting", "STOPPING", JobPhase.STOPPING),
    ({"state": JobState.UNKNOWN}, "Unknown", "UNKNOWN", None),
    (
        {"state": JobState.SUCCEEDED, "exit_kind": "succeeded", "exit_code": 0},
        "Completed",
        "SUCCEEDED",
        JobPhase.SUCCEEDED,
    ),
    ({"state": JobState.SUCCEEDED}, "Completed", "SUCCEEDED", JobPhase.SUCCEEDED),
    ({"state": JobState.CANCELLED, "exit_kind": "cancelled"}, "Completed", "STOPPED", JobPhase.CANCELLED),
    (
        {"state": JobState.CANCELLED, "exit_kind": "cancelled", "exit_code": 0},
        "Completed",
        "STOPPED",
        JobPhase.CANCELLED,
    ),
    ({"state": JobState.CANCELLED}, "Completed", "STOPPED", JobPhase.CANCELLED),
    *(
        ({"state": JobState.FAILED, "exit_kind": kind, "exit_code": code}, "Completed", "FAILED", JobPhase.FAILED)
        for kind, code in (
            ("user-error", 1),
            ("user-error", 137),
            ("out-of-memory", 137),
            ("time-limit", None),
            ("refused", None),
            ("platform", None),
            (None, None),
        )
    ),
]


@pytest.mark.parametrize(("changes", "word", "state", "phase"), JOBS)
def test_each_state_of_our_jobs(changes: dict[str, object], word: str, state: str, phase: JobPhase | None) -> None:
    """`phase` is what lists find it by: both have to tell the same."""
    summary = replace(SUMMARY, **changes)  # type: ignore[arg-type]
    assert states.get_job_sub_state(summary) == word
    assert states.get_job_state(summary) == state
    words = {"STOPPED": JobPhase.CANCELLED, "UNKNOWN": None}
    assert words.get(state, JobPhase(state.lower()) if state not in words else None) == phase


def test_a_held_job_says_so_in_a_tag() -> None:
    held = replace(SUMMARY, state=JobState.HELD, tags=("mine",))
    assert job_to_item(held)["tags"] == ["mine", HELD_TAG]
    assert job_to_item(held)["state"] == "RUNNING"
    assert job_to_item(replace(held, tags=(HELD_TAG,)))["tags"] == [HELD_TAG]


@pytest.mark.parametrize(
    ("kind", "code", "cause", "shown"),
    [
        ("user-error", 3, "", 255),
        ("user-error", 139, "", 139),
        ("user-error", 1, "import-error", 232),
        ("out-of-memory", 137, "", -1200),
        ("time-limit", 143, "", -1004),
        ("refused", None, "too-large", -1100),
        ("cancelled", 143, "", -210),
        ("succeeded", 0, "", 0),
    ],
)
def test_the_list_shows_the_code_clients_know(kind: str, code: int | None, cause: str, shown: int) -> None:
    ended = {"succeeded": JobState.SUCCEEDED, "cancelled": JobState.CANCELLED}.get(kind, JobState.FAILED)
    summary = replace(SUMMARY, state=ended, exit_kind=kind, exit_code=code, exit_cause=cause)
    assert job_to_item(summary)["appExitCode"] == shown


def test_stop_stays_visible_in_the_execution_type() -> None:
    assert build_job_fields(SUMMARY)["executionType"] == "START"
    assert build_job_fields(replace(SUMMARY, stopping=True))["executionType"] == "STOP"
    assert build_job_fields(replace(SUMMARY, state=JobState.CANCELLED))["executionType"] == "STOP"


def test_retries_are_told_apart() -> None:
    part = build_job_fields(replace(SUMMARY, user_retries=2, platform_retries=3, retry_at=NOW))
    assert part["retries"] == 5
    assert part["retryDetails"] == {"user": 2, "platform": 3, "resource": 0}
    assert part["retryDelayTime"] == 0  # due long ago
    assert build_job_fields(SUMMARY)["retryDelayTime"] is None


CANCELLED = Exit(kind=ExitKind.CANCELLED, message="Stopped by alice")
OVER = Exit(kind=ExitKind.ATTEMPT_OVER, message="Stopped: the attempt has ended")
LIMIT = Exit(kind=ExitKind.TIME_LIMIT, message="Ran too long")
TASKS = [
    (TaskState.WAITING, {}, "WAITING", "WAITING"),
    (TaskState.WAITING, {"retry_at": NOW, "number": 1}, "RUNNING", "WAITING"),
    (TaskState.PREPARING, {}, "WAITING", "WAITING"),
    (TaskState.PREPARING, {"stop": CANCELLED}, "STOPPING", "STOPPING"),
    (TaskState.RUNNING, {}, "RUNNING", "RUNNING"),
    (TaskState.RUNNING, {"stop": CANCELLED}, "STOPPING", "STOPPING"),
    (TaskState.RUNNING, {"stop": OVER}, "STOPPING", "STOPPING"),
    (TaskState.RUNNING, {"stop": LIMIT}, "RUNNING", "RUNNING"),
    (TaskState.HELD, {}, "RUNNING", "RUNNING"),
    (TaskState.SUCCEEDED, {"exit": classify_exit(0)}, "SUCCEEDED", "SUCCEEDED"),
    (TaskState.FAILED, {"exit": classify_exit(1)}, "FAILED", "FAILED"),
    (TaskState.FAILED, {"exit": classify_exit(137, oom=True)}, "FAILED", "FAILED"),
    (TaskState.FAILED, {"exit": LIMIT, "stop": LIMIT}, "FAILED", "FAILED"),
    (TaskState.STOPPED, {"exit": CANCELLED, "stop": CANCELLED}, "STOPPED", "STOPPED"),
    (TaskState.STOPPED, {"exit": OVER, "stop": OVER}, "STOPPED", "STOPPED"),
]


@pytest.mark.parametrize(("state", "changes", "shown", "shown_try"), TASKS)
def test_each_state_of_our_tasks(state: TaskState, changes: dict[str, object], shown: str, shown_try: str) -> None:
    task = TaskAttempt(role="worker", index=0, state=state, **changes)  # type: ignore[arg-type]
    assert states.get_task_state(task) == shown
    assert states.get_try_state(task) == shown_try

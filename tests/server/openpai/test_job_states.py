"""Each row of OpenPAI's table of states, and each of our states on its way there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from holdfast.core.attempt import TaskAttempt
from holdfast.core.exits.exit import Exit, ExitKind, classify
from holdfast.core.job import Dialect
from holdfast.core.records import JobSummary, Phase
from holdfast.core.states import JobState, TaskState
from holdfast.server.openpai.jobs import states
from holdfast.server.openpai.jobs.listing import HELD_TAG, job_part, list_item

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
    assert states.state_of(word, code) == state


@pytest.mark.parametrize(("word", "code", "state"), ROWS)
def test_an_attempt_differs_only_once_it_is_over(word: str, code: int | None, state: str) -> None:
    over = {0: "SUCCEEDED", -210: "STOPPED", -220: "STOPPED"}.get(code if code is not None else 1, "FAILED")
    assert states.attempt_state_of(word, code) == (over if word == "AttemptCompleted" else state)


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
    dialect=Dialect.OPENPAI_V2,
)
JOBS = [
    ({}, "AttemptCreationPending", "WAITING", Phase.WAITING),
    ({"attempt": 1}, "AttemptCreationPending", "WAITING", Phase.WAITING),
    ({"retry_at": NOW}, "AttemptCompleted", "RUNNING", Phase.RUNNING),
    ({"stopping": True}, "AttemptDeletionPending", "STOPPING", Phase.STOPPING),
    ({"stopping": True, "retry_at": NOW}, "AttemptDeletionPending", "STOPPING", Phase.STOPPING),
    ({"state": JobState.PREPARING}, "AttemptPreparing", "WAITING", Phase.WAITING),
    ({"state": JobState.PREPARING, "stopping": True}, "AttemptDeletionRequested", "STOPPING", Phase.STOPPING),
    ({"state": JobState.RUNNING}, "AttemptRunning", "RUNNING", Phase.RUNNING),
    ({"state": JobState.RUNNING, "stopping": True}, "AttemptDeleting", "STOPPING", Phase.STOPPING),
    ({"state": JobState.HELD}, "AttemptRunning", "RUNNING", Phase.RUNNING),
    ({"state": JobState.HELD, "stopping": True}, "AttemptDeleting", "STOPPING", Phase.STOPPING),
    ({"state": JobState.UNKNOWN}, "Unknown", "UNKNOWN", None),
    (
        {"state": JobState.SUCCEEDED, "exit_kind": "succeeded", "exit_code": 0},
        "Completed",
        "SUCCEEDED",
        Phase.SUCCEEDED,
    ),
    ({"state": JobState.SUCCEEDED}, "Completed", "SUCCEEDED", Phase.SUCCEEDED),
    ({"state": JobState.CANCELLED, "exit_kind": "cancelled"}, "Completed", "STOPPED", Phase.CANCELLED),
    (
        {"state": JobState.CANCELLED, "exit_kind": "cancelled", "exit_code": 0},
        "Completed",
        "STOPPED",
        Phase.CANCELLED,
    ),
    ({"state": JobState.CANCELLED}, "Completed", "STOPPED", Phase.CANCELLED),
    *(
        ({"state": JobState.FAILED, "exit_kind": kind, "exit_code": code}, "Completed", "FAILED", Phase.FAILED)
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
def test_each_state_of_our_jobs(changes: dict[str, object], word: str, state: str, phase: Phase | None) -> None:
    """`phase` is what lists find it by: both have to tell the same."""
    summary = replace(SUMMARY, **changes)  # type: ignore[arg-type]
    assert states.job_sub_state(summary) == word
    assert states.job_state(summary) == state
    words = {"STOPPED": Phase.CANCELLED, "UNKNOWN": None}
    assert words.get(state, Phase(state.lower()) if state not in words else None) == phase


def test_a_held_job_says_so_in_a_tag() -> None:
    held = replace(SUMMARY, state=JobState.HELD, tags=("mine",))
    assert list_item(held)["tags"] == ["mine", HELD_TAG]
    assert list_item(held)["state"] == "RUNNING"
    assert list_item(replace(held, tags=(HELD_TAG,)))["tags"] == [HELD_TAG]


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
    assert list_item(summary)["appExitCode"] == shown


def test_stop_stays_visible_in_the_execution_type() -> None:
    assert job_part(SUMMARY)["executionType"] == "START"
    assert job_part(replace(SUMMARY, stopping=True))["executionType"] == "STOP"
    assert job_part(replace(SUMMARY, state=JobState.CANCELLED))["executionType"] == "STOP"


def test_retries_are_told_apart() -> None:
    part = job_part(replace(SUMMARY, user_retries=2, platform_retries=3, retry_at=NOW))
    assert part["retries"] == 5
    assert part["retryDetails"] == {"user": 2, "platform": 3, "resource": 0}
    assert part["retryDelayTime"] == 0  # due long ago
    assert job_part(SUMMARY)["retryDelayTime"] is None


CANCELLED = Exit(kind=ExitKind.CANCELLED, message="Stopped by alice")
OVER = Exit(kind=ExitKind.ATTEMPT_OVER, message="Stopped: the attempt is over")
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
    (TaskState.SUCCEEDED, {"exit": classify(0)}, "SUCCEEDED", "SUCCEEDED"),
    (TaskState.FAILED, {"exit": classify(1)}, "FAILED", "FAILED"),
    (TaskState.FAILED, {"exit": classify(137, oom=True)}, "FAILED", "FAILED"),
    (TaskState.FAILED, {"exit": LIMIT, "stop": LIMIT}, "FAILED", "FAILED"),
    (TaskState.STOPPED, {"exit": CANCELLED, "stop": CANCELLED}, "STOPPED", "STOPPED"),
    (TaskState.STOPPED, {"exit": OVER, "stop": OVER}, "STOPPED", "STOPPED"),
]


@pytest.mark.parametrize(("state", "changes", "shown", "shown_try"), TASKS)
def test_each_state_of_our_tasks(state: TaskState, changes: dict[str, object], shown: str, shown_try: str) -> None:
    task = TaskAttempt(role="worker", index=0, state=state, **changes)  # type: ignore[arg-type]
    assert states.task_state(task) == shown
    assert states.try_state(task) == shown_try

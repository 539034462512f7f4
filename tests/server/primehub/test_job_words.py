"""Every state and every exit has its words in PrimeHub's language."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core.exits.exit import Cause, ExitKind
from holdfast.core.job import JobFormat
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState
from holdfast.server.primehub.jobs.states import (
    DEADLINE_EXCEEDED_MESSAGE,
    FAILURE_REASONS,
    PHASES,
    QUOTA_TOO_SMALL_MESSAGE,
    PhJobStatus,
    get_job_status,
)

PRIMEHUB_PHASES = {"Pending", "Preparing", "Running", "Succeeded", "Failed", "Cancelled", "Unknown"}
PRIMEHUB_REASONS = set(
    "OverRequeueLimit OverActivateDeadline OverQuota Cancelled PodCreationFailed PodFailed PodUnknown PodPending "  # noqa: SIM905
    "PodRunning PodSucceeded".split()
)
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def a_summary(state: JobState, **more: Any) -> JobSummary:
    usual: dict[str, Any] = {
        "id": "job-202603010000-abcdef",
        "seq": 1,
        "name": "demo",
        "user": "ann",
        "group": "red",
        "message": "",
        "submitted_at": NOW,
        "started_at": None,
        "finished_at": None,
        "exit_code": None,
        "exit_kind": None,
        "attempt": 0,
        "task_count": 1,
        "cpu": 1.0,
        "memory": 1,
        "gpu": 0,
        "priority": 0,
        "dialect": JobFormat.PRIMEHUB,
    }
    return JobSummary(state=state, **{**usual, **more})


def failed(kind: ExitKind, message: str, cause: str = "") -> JobSummary:
    return a_summary(JobState.FAILED, exit_kind=kind.value, message=message, exit_cause=cause)


def test_the_tables_are_whole_and_say_nothing_primehub_does_not() -> None:
    assert set(PHASES) == set(JobState)
    assert set(FAILURE_REASONS) == set(ExitKind)
    assert set(PHASES.values()) <= PRIMEHUB_PHASES
    for kind in ExitKind:
        assert get_job_status(failed(kind, "so it was")).reason in PRIMEHUB_REASONS
    for state in JobState:
        assert get_job_status(a_summary(state)).reason in {None, *PRIMEHUB_REASONS}


@pytest.mark.parametrize("state", [state for state in JobState if not state.final])
def test_a_job_that_is_asked_to_stop_is_cancelled_at_once(state: JobState) -> None:
    assert get_job_status(a_summary(state, stopping=True)) == PhJobStatus("Cancelled", "Cancelled", "Cancelled by user")
    told = get_job_status(a_summary(state, stopping=True, stop_why="another took its place"))
    assert told == PhJobStatus("Cancelled", "Cancelled", "Cancelled: another took its place")


@pytest.mark.parametrize(
    ("summary", "waiting", "expected"),
    [
        (a_summary(JobState.PENDING), (), PhJobStatus("Pending", None, None)),
        (
            a_summary(JobState.PENDING),
            ("The quota of group red is 1 core.",),
            PhJobStatus("Pending", "OverQuota", "Insufficient group/user quota: The quota of group red is 1 core."),
        ),
        (
            a_summary(JobState.PENDING),
            ("1 job is ahead of it in the queue of group quota-team.",),
            PhJobStatus("Pending", "PodPending", "1 job is ahead of it in the queue of group quota-team."),
        ),
        (
            a_summary(JobState.PENDING),
            ("No machine has 4 cores free.",),
            PhJobStatus("Pending", "PodPending", "No machine has 4 cores free."),
        ),
        (
            a_summary(JobState.PENDING, retry_at=NOW, message="Lost"),
            (),
            PhJobStatus("Pending", "PodPending", "Back to pending due to: Lost"),
        ),
        (a_summary(JobState.PREPARING, message="Placed"), (), PhJobStatus("Preparing", "PodPending", "Placed")),
        (
            a_summary(JobState.RUNNING, message="x"),
            (),
            PhJobStatus("Running", "PodRunning", "Job is currently running"),
        ),
        (a_summary(JobState.HELD, message="Kept"), (), PhJobStatus("Running", "PodRunning", "Kept")),
        (
            a_summary(JobState.UNKNOWN, message="No word of it"),
            (),
            PhJobStatus("Running", "PodRunning", "No word of it"),
        ),
        (a_summary(JobState.SUCCEEDED), (), PhJobStatus("Succeeded", "PodSucceeded", "Job completed")),
        (
            failed(ExitKind.USER_ERROR, "Exit code 3"),
            (),
            PhJobStatus("Failed", "PodFailed", "Job failed due to Error: Exit code 3"),
        ),
        (
            failed(ExitKind.OUT_OF_MEMORY, "Too much"),
            (),
            PhJobStatus("Failed", "PodFailed", "Job failed due to OOMKilled: Too much"),
        ),
        (
            failed(ExitKind.TIME_LIMIT, "Ended"),
            (),
            PhJobStatus("Failed", "OverActivateDeadline", DEADLINE_EXCEEDED_MESSAGE),
        ),
        (
            failed(ExitKind.REFUSED, "There is none", Cause.IMAGE_MISSING),
            (),
            PhJobStatus("Failed", "PodCreationFailed", "Image not found: tf-2"),
        ),
        (failed(ExitKind.REFUSED, "No way"), (), PhJobStatus("Failed", "PodCreationFailed", "No way")),
        (
            failed(ExitKind.REFUSED, "the quota of group red is 1 core"),
            (),
            PhJobStatus("Failed", "OverQuota", f"{QUOTA_TOO_SMALL_MESSAGE} (the quota of group red is 1 core)"),
        ),
        (
            failed(ExitKind.REFUSED, "The dataset quota-data has no folder"),
            (),
            PhJobStatus("Failed", "PodCreationFailed", "The dataset quota-data has no folder"),
        ),
        (
            failed(ExitKind.USER_ERROR, "/home/jovyan held 6 GiB", Cause.SCRATCH_FULL),
            (),
            PhJobStatus("Failed", "PodFailed", "Job failed due to Evicted: /home/jovyan held 6 GiB"),
        ),
        (
            failed(ExitKind.PLATFORM, "Lost"),
            (),
            PhJobStatus("Failed", "PodFailed", "Job failed due to System Error: Lost"),
        ),
    ],
)
def test_words(summary: JobSummary, waiting: tuple[str, ...], expected: PhJobStatus) -> None:
    assert get_job_status(summary, image="tf-2", waiting=waiting) == expected

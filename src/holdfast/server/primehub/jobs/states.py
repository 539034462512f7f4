"""A job's phase, reason and message in PrimeHub: a table for every state and exit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.exits.exit import Cause, ExitKind
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState

CANCELLED_MESSAGE = "Cancelled by user"
COMPLETED_MESSAGE = "Job completed"
RUNNING_MESSAGE = "Job is currently running"
NO_QUOTA_MESSAGE = "Insufficient group/user quota"
QUOTA_TOO_SMALL_MESSAGE = "Your instance type resource limit is bigger than your user or group quota."
DEADLINE_EXCEEDED_MESSAGE = (
    "Job failed due to System Error: phJob has failed because it was active longer than specified deadline"
)

# More than one word: a group, a user or a dataset can be called "quota".
QUOTA_MESSAGE_PATTERN = re.compile(r"\b[Tt]he quota of (group|user) ")


@dataclass(frozen=True, slots=True)
class PhJobStatus:
    phase: str
    reason: str | None
    message: str | None


# Unknown is final in PrimeHub, but not in Holdfast; PrimeHub shows jobs on a lost node like this.
PHASES: dict[JobState, str] = {
    JobState.PENDING: "Pending",
    JobState.PREPARING: "Preparing",
    JobState.RUNNING: "Running",
    JobState.HELD: "Running",
    JobState.UNKNOWN: "Running",
    JobState.SUCCEEDED: "Succeeded",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
}

# Exit of a failed job -> reason, and the prefix of our message.
FAILURE_REASONS: dict[ExitKind, tuple[str, str]] = {
    ExitKind.USER_ERROR: ("PodFailed", "Job failed due to Error: "),
    ExitKind.OUT_OF_MEMORY: ("PodFailed", "Job failed due to OOMKilled: "),
    ExitKind.TIME_LIMIT: ("OverActivateDeadline", ""),
    ExitKind.REFUSED: ("PodCreationFailed", ""),
    ExitKind.PLATFORM: ("PodFailed", "Job failed due to System Error: "),
    ExitKind.CANCELLED: ("Cancelled", ""),
    ExitKind.ATTEMPT_OVER: ("PodFailed", "Job failed due to Error: "),
    ExitKind.SUCCEEDED: ("PodFailed", "Job failed due to Error: "),  # its completion rule required another result
}


def get_job_status(summary: JobSummary, *, image: str = "", waiting: Sequence[str] = ()) -> PhJobStatus:
    """Return the state. `image`: of its first role; `waiting`: why it waits."""
    if summary.stopping or summary.state is JobState.CANCELLED:
        return PhJobStatus(
            "Cancelled", "Cancelled", f"Cancelled: {summary.stop_why}" if summary.stop_why else CANCELLED_MESSAGE
        )
    phase = PHASES[summary.state]
    if summary.state is JobState.PENDING:
        return PhJobStatus(phase, *_describe_pending_job(summary, waiting))
    if summary.state is JobState.FAILED:
        return PhJobStatus(phase, *_describe_failed_job(summary, image))
    return PhJobStatus(phase, *_describe_other_state(summary))


def _describe_pending_job(summary: JobSummary, waiting: Sequence[str]) -> tuple[str | None, str | None]:
    """Return reason and message; none for a job that the scheduler has not checked yet."""
    if summary.retry_at is not None:
        return "PodPending", f"Back to pending due to: {summary.message}"
    if not waiting:
        return None, None
    if any(QUOTA_MESSAGE_PATTERN.search(reason) for reason in waiting):
        return "OverQuota", f"{NO_QUOTA_MESSAGE}: {' '.join(waiting)}"
    return "PodPending", " ".join(waiting)


def _describe_other_state(summary: JobSummary) -> tuple[str, str | None]:
    if summary.state is JobState.SUCCEEDED:
        return "PodSucceeded", COMPLETED_MESSAGE
    if summary.state is JobState.PREPARING:
        return "PodPending", summary.message or None
    message = summary.message if summary.state is not JobState.RUNNING else ""
    return "PodRunning", message or RUNNING_MESSAGE


def _describe_failed_job(summary: JobSummary, image: str) -> tuple[str, str]:
    kind = ExitKind(summary.exit_kind) if summary.exit_kind else ExitKind.PLATFORM
    reason, before = FAILURE_REASONS[kind]
    if kind is ExitKind.TIME_LIMIT:
        return reason, DEADLINE_EXCEEDED_MESSAGE
    if kind is ExitKind.REFUSED and summary.exit_cause == Cause.IMAGE_MISSING:
        return reason, f"Image not found: {image}"
    if kind is ExitKind.REFUSED and QUOTA_MESSAGE_PATTERN.search(summary.message):
        return "OverQuota", f"{QUOTA_TOO_SMALL_MESSAGE} ({summary.message})"
    if summary.exit_cause == Cause.SCRATCH_FULL:
        return reason, f"Job failed due to Evicted: {summary.message}"
    return reason, f"{before}{summary.message}"

"""How far a job is and how it ended, in PrimeHub's words: phase, reason, message. A table for every state and exit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.exits.exit import Cause, ExitKind
from holdfast.core.records import JobSummary
from holdfast.core.states import JobState

CANCELLED = "Cancelled by user"
COMPLETED = "Job completed"
RUNNING = "Job is currently running"
NO_QUOTA = "Insufficient group/user quota"
NEVER_QUOTA = "Your instance type resource limit is bigger than your user or group quota."
OVER_DEADLINE = "Job failed due to System Error: phJob has failed because it was active longer than specified deadline"

# By more than the word: a group, a user or a dataset may be called so.
OF_QUOTA = re.compile(r"\b[Tt]he quota of (group|user) ")


@dataclass(frozen=True, slots=True)
class Words:
    phase: str
    reason: str | None
    message: str | None


# Unknown is final in PrimeHub; ours is not, so it is shown as PrimeHub shows a job on a machine that it lost.
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

# How a failed job ended -> reason, and what stands before our own message.
FAILURES: dict[ExitKind, tuple[str, str]] = {
    ExitKind.USER_ERROR: ("PodFailed", "Job failed due to Error: "),
    ExitKind.OUT_OF_MEMORY: ("PodFailed", "Job failed due to OOMKilled: "),
    ExitKind.TIME_LIMIT: ("OverActivateDeadline", ""),
    ExitKind.REFUSED: ("PodCreationFailed", ""),
    ExitKind.PLATFORM: ("PodFailed", "Job failed due to System Error: "),
    ExitKind.CANCELLED: ("Cancelled", ""),
    ExitKind.ATTEMPT_OVER: ("PodFailed", "Job failed due to Error: "),
    ExitKind.SUCCEEDED: ("PodFailed", "Job failed due to Error: "),  # success was not what its rule asked for
}


def words_of(summary: JobSummary, *, image: str = "", waiting: Sequence[str] = ()) -> Words:
    """`image`: of its first role; `waiting`: why it waits."""
    if summary.stopping or summary.state is JobState.CANCELLED:
        return Words("Cancelled", "Cancelled", f"Cancelled: {summary.stop_why}" if summary.stop_why else CANCELLED)
    phase = PHASES[summary.state]
    if summary.state is JobState.PENDING:
        return Words(phase, *_pending(summary, waiting))
    if summary.state is JobState.FAILED:
        return Words(phase, *_failed(summary, image))
    return Words(phase, *_others(summary))


def _pending(summary: JobSummary, waiting: Sequence[str]) -> tuple[str | None, str | None]:
    """Nothing is said of a job that was not looked at yet."""
    if summary.retry_at is not None:
        return "PodPending", f"Back to pending due to: {summary.message}"
    if not waiting:
        return None, None
    if any(OF_QUOTA.search(reason) for reason in waiting):
        return "OverQuota", f"{NO_QUOTA}: {' '.join(waiting)}"
    return "PodPending", " ".join(waiting)


def _others(summary: JobSummary) -> tuple[str, str | None]:
    if summary.state is JobState.SUCCEEDED:
        return "PodSucceeded", COMPLETED
    if summary.state is JobState.PREPARING:
        return "PodPending", summary.message or None
    told = summary.message if summary.state is not JobState.RUNNING else ""
    return "PodRunning", told or RUNNING


def _failed(summary: JobSummary, image: str) -> tuple[str, str]:
    kind = ExitKind(summary.exit_kind) if summary.exit_kind else ExitKind.PLATFORM
    reason, before = FAILURES[kind]
    if kind is ExitKind.TIME_LIMIT:
        return reason, OVER_DEADLINE
    if kind is ExitKind.REFUSED and summary.exit_cause == Cause.IMAGE_MISSING:
        return reason, f"Image not found: {image}"
    if kind is ExitKind.REFUSED and OF_QUOTA.search(summary.message):
        return "OverQuota", f"{NEVER_QUOTA} ({summary.message})"
    if summary.exit_cause == Cause.SCRATCH_FULL:
        return reason, f"Job failed due to Evicted: {summary.message}"
    return reason, f"{before}{summary.message}"

"""Finds the job of a URL: <user>~<job>, split at the first tilde; the newest job with that name."""

from __future__ import annotations

from holdfast.core.errors import NotFound
from holdfast.core.identity import build_framework_name, build_unique_role_names
from holdfast.core.job import Job
from holdfast.core.records import JobSummary

from ..call import Call
from ..errors import PaiError, translate_errors

MAX_SHOWN_NAME_LENGTH = 300


async def find_job_by_framework(call: Call, framework: str) -> JobSummary:
    user, tilde, name = framework.partition("~")
    if not tilde:
        raise build_no_job_error(framework)
    return await find_job_by_name(call, user, name)


async def find_job_by_name(call: Call, user: str, name: str) -> JobSummary:
    """Find a job by user and name. A job that the caller cannot see is not found."""
    framework = build_framework_name(user, name)
    if not user or not name or len(framework) > 2 * MAX_SHOWN_NAME_LENGTH:
        raise build_no_job_error(framework)
    with translate_errors((NotFound, 404, "NoJobError", build_no_job_error(framework).message)):
        return await call.services.jobs.find_by_name(call.actor, user, name)


def build_no_job_error(framework: str) -> PaiError:
    return PaiError(404, "NoJobError", f"Job {framework[:MAX_SHOWN_NAME_LENGTH]} is not found.")


def build_no_attempt_error(number: str | int, framework: str) -> PaiError:
    message = f"JobAttemptId {str(number)[:50]} is not found in {framework[:MAX_SHOWN_NAME_LENGTH]}."
    return PaiError(404, "NoJobError", message)


def get_framework_name(summary: JobSummary) -> str:
    return build_framework_name(summary.user, summary.name)


def map_role_keys(job: Job) -> dict[str, str]:
    """Map each role to its spelling in responses and URLs, which is that of the task variables."""
    return build_unique_role_names(role.name for role in job.roles)


def find_role(job: Job, spelled: str) -> str | None:
    """Return the role with this spelling or name; the spelling takes precedence."""
    keys = map_role_keys(job)
    meant = next((role for role, key in keys.items() if key == spelled), None)
    return meant or (spelled if spelled in keys else None)

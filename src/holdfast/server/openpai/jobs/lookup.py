"""Which job an address means: <user>~<job>, taken apart at the first tilde. The newest of that name is meant."""

from __future__ import annotations

from holdfast.core.errors import NotFound
from holdfast.core.identity import framework_name, plain_roles
from holdfast.core.job import Job
from holdfast.core.records import JobSummary

from ..call import Call
from ..errors import PaiError, telling

MAX_SHOWN_LENGTH = 300


async def find_framework(call: Call, framework: str) -> JobSummary:
    user, tilde, name = framework.partition("~")
    if not tilde:
        raise no_job(framework)
    return await find_named(call, user, name)


async def find_named(call: Call, user: str, name: str) -> JobSummary:
    """What one may not see is not there."""
    framework = framework_name(user, name)
    if not user or not name or len(framework) > 2 * MAX_SHOWN_LENGTH:
        raise no_job(framework)
    with telling((NotFound, 404, "NoJobError", no_job(framework).message)):
        return await call.services.jobs.named(call.actor, user, name)


def no_job(framework: str) -> PaiError:
    return PaiError(404, "NoJobError", f"Job {framework[:MAX_SHOWN_LENGTH]} is not found.")


def no_attempt(number: str | int, framework: str) -> PaiError:
    message = f"JobAttemptId {str(number)[:50]} is not found in {framework[:MAX_SHOWN_LENGTH]}."
    return PaiError(404, "NoJobError", message)


def full_name(summary: JobSummary) -> str:
    return framework_name(summary.user, summary.name)


def role_keys(job: Job) -> dict[str, str]:
    """Role -> how answers and addresses spell it: as the variables in its tasks do."""
    return plain_roles(role.name for role in job.roles)


def find_role(job: Job, spelled: str) -> str | None:
    """The role somebody means, by either spelling; the one in answers comes first."""
    keys = role_keys(job)
    meant = next((role for role, key in keys.items() if key == spelled), None)
    return meant or (spelled if spelled in keys else None)

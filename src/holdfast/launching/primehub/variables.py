"""The environment variables of PrimeHub's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.attempt import JobSnapshot
from holdfast.core.job import MIB, Job, Role

from ..context import ArtifactLimits, PrimeHubContext
from .folders import HOME_FOLDER, PrimeHubFolders

MAX_VARIABLE_SIZE = 120_000  # bytes of one value: the kernel's limit
MAX_ENV_SIZE = 700_000  # of names and values together; the kernel accepts about a megabyte
MAX_VARIABLES = 1500  # engines accept 2000


def make_primehub_variables(
    snapshot: JobSnapshot, role: Role, given: PrimeHubContext, folders: PrimeHubFolders
) -> dict[str, str]:
    job, platform = snapshot.job, given.platform
    found = {
        "PRIMEHUB_USER": snapshot.user,
        "PRIMEHUB_GROUP": job.group,
        "GROUP_ID": job.group,
        "GROUP_NAME": job.group,
        "JUPYTERHUB_USER": snapshot.user,
        "INSTANCE_TYPE": role.instance_type or _get_stored_instance_type(job),
        "IMAGE_NAME": role.image,
        "TZ": platform.timezone,
        "GRANT_SUDO": "true" if platform.sudo else "false",
    }
    if platform.artifacts is not None and folders.files:
        found |= _make_artifact_variables(snapshot.id, platform.artifacts)
    if folders.volume:
        found["PRIMEHUB_GROUP_VOLUME_PATH"] = folders.volume
        found["PRIMEHUB_PHFS_PATH"] = f"{HOME_FOLDER}/phfs"  # the entry script sets another path if needed
    return found


def _get_stored_instance_type(job: Job) -> str:
    """Return it for a job stored before roles had the name of their instance type."""
    ours: Any = job.extras.get("primehub")
    name = ours.get("instanceType") if isinstance(ours, Mapping) else None
    return name if isinstance(name, str) else ""


def _make_artifact_variables(job_id: str, limits: ArtifactLimits) -> dict[str, str]:
    return {
        "PHJOB_NAME": job_id,
        "PHJOB_ARTIFACT_ENABLED": "true",
        "PHJOB_ARTIFACT_LIMIT_SIZE_MB": str(limits.bytes // MIB),
        "PHJOB_ARTIFACT_LIMIT_FILES": str(limits.files),
        "PHJOB_ARTIFACT_RETENTION_SECONDS": str(int(limits.keep.total_seconds())),
    }


def split_valid_variables(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return a sentence for each invalid one: admins set them, and the job must not fail for it."""
    kept: dict[str, str] = {}
    left_out = []
    room = MAX_ENV_SIZE
    for name, value in variables.items():
        size = len(name.encode("utf-8", "surrogateescape")) + len(value.encode("utf-8", "surrogateescape")) + 2
        if not name or "=" in name or "\0" in name or "\0" in value:
            left_out.append(f"The variable {name!r} is left out: its name or value is not valid.")
        elif size > MAX_VARIABLE_SIZE or size > room or len(kept) >= MAX_VARIABLES:
            left_out.append(f"The variable {name} is left out: the environment is too large.")
        else:
            kept[name] = value
            room -= size
    return kept, left_out

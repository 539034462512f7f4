"""What a launch needs to know that neither the job nor its tasks tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from holdfast.core.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """What is kept of a job's artifacts: told to jobs that ask, enforced elsewhere."""

    bytes: int
    files: int
    keep: timedelta  # after the job's end; zero: for good


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the admin chose for jobs in PrimeHub's format."""

    timezone: str = "UTC"
    sudo: bool = True
    scratch: int = 0  # bytes that /home/jovyan may hold; 0: no limit
    artifacts: ArtifactLimits | None = None  # None: none are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimeHub:
    """What PrimeHub put around a job of this user in this group."""

    platform: Platform = field(default_factory=Platform)
    home_symlink: bool = True
    other_volumes: Mapping[str, str] = field(default_factory=dict)  # group path -> folder of the machine
    unreachable: frozenset[str] = frozenset()  # datasets whose folder is gone or does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The SSH gateway as tasks reach it."""

    host: str = ""
    port: int = 0
    host_key: str = ""  # its public key, one line
    trouble: str = ""  # why there is none, a sentence; empty: it is open


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    addresses: Mapping[str, str] = field(default_factory=dict)  # node -> where others reach its tasks
    isolated: bool = True  # the task has a root filesystem of its own
    user_keys: tuple[str, ...] = ()  # public SSH keys of the job's owner, as they wrote them; see wants_user_keys
    job_seed: bytes | None = None  # 32 secret bytes of this job alone; see wants_job_key, wants_neighbours
    gateway: Gateway | None = None  # for jobs whose tasks are to reach each other; None: nobody asked
    volume: str = ""  # the folder of the machine that is the volume of the job's group; empty: it has none
    files: str = ""  # likewise what the group shares, for a job that is to see it
    variables: Mapping[str, str] = field(default_factory=dict)  # of datasets and MLflow; they may hold passwords
    primehub: PrimeHub = field(default_factory=PrimeHub)  # for jobs in its format


def wants_user_keys(job: Job) -> bool:
    return any("userssh" in parameters for parameters in _ssh_calls(job))


def wants_job_key(job: Job) -> bool:
    """Tasks of the job are to reach each other by ssh; only those placed together can know where the others are."""
    asked = [parameters.get("jobssh") for parameters in _ssh_calls(job)]
    return job.gang and any(
        is_on(value) or "<%" in str(value) for value in asked
    )  # a reference may turn out to be true


def wants_neighbours(job: Job, role: str) -> bool:
    """Tasks of this role of an OpenPAI job are told of the others although no plugin does so. Who says `jobssh` has
    said it all, but for tasks that are not placed together: of those the plugin knows nothing."""
    if job.task_count == 1:
        return False
    said = [parameters["jobssh"] for parameters in _ssh_calls(job, role) if "jobssh" in parameters]
    return all(is_on(value) and not job.gang for value in said)


def is_on(value: Any) -> bool:
    """As OpenPAI's plugins read what is true or false: `"True"` is true as well."""
    return str(value).lower() == "true"


def plugin_calls(job: Job) -> list[Mapping[str, Any]]:
    """The job's runtime plugins in order, for whichever roles."""
    ours = job.extras.get("openpai", {}) if job.dialect.openpai else {}
    return [call for call in ours.get("plugins", ()) if isinstance(call, Mapping)]


def _ssh_calls(job: Job, role: str | None = None) -> Iterator[Mapping[str, Any]]:
    """What the plugin is told, for this role or for any."""
    for call in plugin_calls(job):
        meant = role is None or role in call.get("taskroles", (role,))
        if meant and call.get("plugin") == "ssh" and isinstance(call.get("parameters"), Mapping):
            yield call["parameters"]

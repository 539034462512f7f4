"""External data of a launch, from neither the job nor its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from holdfast.core.job import Job
from holdfast.core.volumes import SharedFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """Limits on a job's artifacts: passed to jobs here, enforced elsewhere."""

    bytes: int
    files: int
    keep: timedelta  # after the job's end; zero: for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimeHubSettings:
    """The admin's settings for jobs in PrimeHub's format."""

    timezone: str = "UTC"
    sudo: bool = True
    scratch: int = 0  # max bytes in /home/jovyan; 0: unlimited
    artifacts: ArtifactLimits | None = None  # None: artifacts are disabled


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimeHubContext:
    """The PrimeHub environment of a job of this user in this group."""

    platform: PrimeHubSettings = field(default_factory=PrimeHubSettings)
    home_symlink: bool = True
    other_volumes: Mapping[str, SharedFolder] = field(default_factory=dict)  # by group path
    unreachable: frozenset[str] = frozenset()  # datasets whose folder is missing or does not respond


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAddress:
    """The SSH gateway as tasks reach it."""

    host: str = ""
    port: int = 0
    host_key: str = ""  # its public key, one line
    unavailable_reason: str = ""  # why it is unavailable, a sentence; empty: it is open


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    addresses: Mapping[str, str] = field(default_factory=dict)  # node -> address at which its tasks are reachable
    queue_nodes: frozenset[str] = frozenset()  # nodes whose engine chooses machine, devices and ports of its tasks
    isolated: bool = True  # the task has its own root filesystem
    group_options: Mapping[str, str] = field(default_factory=dict)  # the group's, for the system behind the engine
    user_keys: tuple[str, ...] = ()  # public SSH keys of the job's owner, unvalidated; see needs_user_keys
    job_seed: bytes | None = None  # 32 secret bytes of this job; see needs_job_key
    gateway: GatewayAddress | None = None  # for jobs whose tasks use SSH; None: not requested
    volume: SharedFolder | None = None  # the volume of the job's group
    files: SharedFolder | None = None  # the group's shared files, for a job that mounts them
    variables: Mapping[str, str] = field(default_factory=dict)  # of datasets and MLflow; they may contain passwords
    primehub: PrimeHubContext = field(default_factory=PrimeHubContext)  # for jobs in its format


def needs_user_keys(job: Job) -> bool:
    return any("userssh" in parameters for parameters in _iter_ssh_parameters(job))


def needs_job_key(job: Job) -> bool:
    """Return whether tasks of the job reach each other by ssh; only those placed together know each other's address."""
    asked = [parameters.get("jobssh") for parameters in _iter_ssh_parameters(job)]
    return job.gang and any(is_true(value) or "<%" in str(value) for value in asked)  # a reference may evaluate to true


def needs_intra_job_ssh(job: Job, role: str) -> bool:
    """Return whether tasks of this role of an OpenPAI job get intra-job SSH without a plugin. `jobssh` replaces it,
    except for tasks that are not placed together: the plugin does not support those."""
    if job.task_count == 1:
        return False
    values = [parameters["jobssh"] for parameters in _iter_ssh_parameters(job, role) if "jobssh" in parameters]
    return all(is_true(value) and not job.gang for value in values)


def is_true(value: Any) -> bool:
    """Return whether it is true for OpenPAI's plugins: `"True"` is true as well."""
    return str(value).lower() == "true"


def list_plugin_calls(job: Job) -> list[Mapping[str, Any]]:
    """Return the job's runtime plugins in order, of all roles."""
    ours = job.extras.get("openpai", {}) if job.dialect.is_openpai else {}
    return [call for call in ours.get("plugins", ()) if isinstance(call, Mapping)]


def _iter_ssh_parameters(job: Job, role: str | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters of the plugin, for this role or for any."""
    for call in list_plugin_calls(job):
        meant = role is None or role in call.get("taskroles", (role,))
        if meant and call.get("plugin") == "ssh" and isinstance(call.get("parameters"), Mapping):
            yield call["parameters"]

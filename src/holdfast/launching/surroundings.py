"""What a launch needs to know that neither the job nor its tasks tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.job import Dialect, Job

OPENPAI = frozenset({Dialect.OPENPAI_V1, Dialect.OPENPAI_V2})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    addresses: Mapping[str, str] = field(default_factory=dict)  # node -> where others reach its tasks
    isolated: bool = True  # the task has a root filesystem of its own
    user_keys: tuple[str, ...] = ()  # public SSH keys of the job's owner, as they wrote them; see wants_user_keys
    job_seed: bytes | None = None  # 32 secret bytes of this job alone; see wants_job_key


def is_openpai(job: Job) -> bool:
    return job.dialect in OPENPAI


def wants_user_keys(job: Job) -> bool:
    return any("userssh" in parameters for parameters in _ssh_calls(job))


def wants_job_key(job: Job) -> bool:
    """Tasks of the job are to reach each other by ssh; only those placed together can know where the others are."""
    return job.gang and any(parameters.get("jobssh") is True for parameters in _ssh_calls(job))


def plugin_calls(job: Job) -> list[Mapping[str, Any]]:
    """The job's runtime plugins in order, for whichever roles."""
    ours = job.extras.get("openpai", {}) if is_openpai(job) else {}
    return [call for call in ours.get("plugins", ()) if isinstance(call, Mapping)]


def _ssh_calls(job: Job) -> Iterator[Mapping[str, Any]]:
    for call in plugin_calls(job):
        if call.get("plugin") == "ssh" and isinstance(call.get("parameters"), Mapping):
            yield call["parameters"]

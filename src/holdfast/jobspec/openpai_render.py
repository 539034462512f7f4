"""Job -> OpenPAI protocol v2, as plain values, secrets masked.

A v2 job is rendered as written, a v1 job by OpenPAI's own conversion, any other as closely as v2 allows. Losses and
changes are listed in extras.conversionNotes. Except for masked secrets, the result can be parsed again.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.core.codec import MASK, mask_values
from holdfast.core.job import DEFAULT_GROUP, MIB, Job, JobFormat, Role
from holdfast.core.slurm_options import QUEUE_OPTION_NAMES, SLURM_ENGINE

from .holds import render_hold
from .notify import render_notify
from .openpai_extras import PRIORITY_CLASSES
from .openpai_v2 import SHELL_OPTIONS
from .quantities import format_duration
from .render import dump_yaml, format_time_limit

DEFAULT_NAME = "default"  # name of the only image, deployment and so on
_MAX_RETRIES = 1_000_000
_INVALID_JOB_NAME_CHAR_PATTERN = re.compile(r"[^a-zA-Z0-9_-]")
_INVALID_WORD_CHAR_PATTERN = re.compile(r"[^a-zA-Z0-9_]")
_MAX_NAME_LENGTH, _MAX_WORD_LENGTH = 255, 63


def build_openpai_config(job: Job) -> dict[str, Any]:
    config = _build_config(job)
    return {**config, "secrets": MASK} if job.secrets else config


def render_openpai_yaml(job: Job) -> str:
    """Render a v2 file to edit and submit: with references to secrets, and the job's real group."""
    config = _set_group(_build_config(job), job.group)
    return dump_yaml({**config, "secrets": mask_values(job.secrets)} if job.secrets else config)


def _build_config(job: Job) -> dict[str, Any]:
    written = _find_source_config(job)
    if job.dialect is JobFormat.OPENPAI_V2 and written is not None:
        return dict(written)
    return _OpenpaiConverter(job, written if job.dialect is JobFormat.OPENPAI_V1 else None).build_config()


def _set_group(config: dict[str, Any], group: str) -> dict[str, Any]:
    defaults = config.get("defaults") or {}
    if (defaults.get("virtualCluster") or DEFAULT_GROUP) == group:
        return config
    return {**config, "defaults": {**defaults, "virtualCluster": group}}


def _find_source_config(job: Job) -> Mapping[str, Any] | None:
    """Return the OpenPAI file it was parsed from, if any."""
    kept = job.extras.get("openpai")
    config = kept.get("config") if isinstance(kept, Mapping) else None
    return config if isinstance(config, Mapping) else None


class _OpenpaiConverter:
    """Converts a stored job; `v1` is its original file, if it has more data."""

    def __init__(self, job: Job, v1: Mapping[str, Any] | None) -> None:
        self.job = job
        self.v1 = v1
        self.notes: dict[str, None] = {}
        self.images = _choose_image_names(role.image for role in job.roles)
        self.roles = _map_to_unique_words((role.name for role in job.roles), "role")

    def build_config(self) -> dict[str, Any]:
        job = self.job
        roles = {self.roles[role.name]: self.build_role(role) for role in job.roles}
        before = {
            self.roles[role.name]: {"preCommands": lines}
            for role in job.roles
            if (lines := self.build_setup_lines(role))
        }
        written = {
            "protocolVersion": 2,
            "name": self.build_name(),
            "type": "job",
            "description": job.description,
            "prerequisites": [*self.build_docker_images(), *self.build_folder_prerequisites()],
            "parameters": self.build_parameters(),
            "jobRetryCount": self.build_retry_count(),
            "taskRoles": roles,
            "deployments": [{"name": DEFAULT_NAME, "taskRoles": before}] if before else None,
            "defaults": {"virtualCluster": job.group, **({"deployment": DEFAULT_NAME} if before else {})},
            "extras": self.build_extras(),
        }
        return {key: value for key, value in written.items() if value or key == "jobRetryCount"}

    # -- the job

    def build_name(self) -> str:
        name = _INVALID_JOB_NAME_CHAR_PATTERN.sub("_", self.job.name)[:_MAX_NAME_LENGTH]
        if name != self.job.name:
            self.record_loss("the name of the job is changed to what protocol v2 allows")
        return name

    def build_retry_count(self) -> int:
        if self.job.max_retries < 0:
            self.record_loss(f"unlimited retries became {_MAX_RETRIES}; v2 does not support negative counts")
            return _MAX_RETRIES
        return self.job.max_retries

    def build_docker_images(self) -> list[dict[str, Any]]:
        login = _build_registry_login(self.v1)
        return [
            {"protocolVersion": 2, "name": name, "type": "dockerimage", "uri": uri, **login}
            for uri, name in self.images.items()
        ]

    def build_folder_prerequisites(self) -> list[dict[str, Any]]:
        """v1's dataDir, outputDir and codeDir."""
        return [
            {"protocolVersion": 2, "name": DEFAULT_NAME, "type": kind, "uri": [path] if kind == "data" else path}
            for kind, path in self.get_paths_by_type().items()
        ]

    def get_paths_by_type(self) -> dict[str, str]:
        kept = self.job.extras.get("openpai") if self.v1 is not None else None
        found = kept.get("paths") if isinstance(kept, Mapping) else None
        given = found if isinstance(found, Mapping) else {}
        kinds = {"data": "dataDir", "output": "outputDir", "script": "codeDir"}
        return {kind: given[key] for kind, key in kinds.items() if isinstance(given.get(key), str)}

    def build_parameters(self) -> dict[str, Any]:
        """v1's jobEnvs."""
        envs = self.v1.get("jobEnvs") if self.v1 is not None else None
        return dict(envs) if isinstance(envs, Mapping) else {}

    def build_extras(self) -> dict[str, Any]:
        job = self.job
        priority = next((name for name, number in PRIORITY_CLASSES.items() if number == job.priority), None)
        if job.priority and priority is None:
            self.record_loss(f"the priority {job.priority} has no class in v2")
        written = {
            **self.build_own_extras(),
            "gangAllocation": None if job.gang else False,
            "hivedScheduler": {"jobPriorityClass": priority} if job.priority and priority else None,
            "storages": [{"name": name, "mountPath": f"/datasets/{name}"} for name in job.datasets],
            "tags": list(job.tags),
            "holdfast": _build_holdfast_extras(job),
            "convertedFrom": job.dialect.value,
            "conversionNotes": list(self.notes),
        }
        return {key: value for key, value in written.items() if value or value is False}

    def build_own_extras(self) -> dict[str, Any]:
        """Return extras. Those of v1 are copied; ours are separate, since keys may mean something else in OpenPAI."""
        if self.v1 is None:
            return {"original": dict(self.job.extras)} if self.job.extras else {}
        kept = self.v1.get("extras")
        return (
            {key: value for key, value in kept.items() if key not in _KNOWN_EXTRAS} if isinstance(kept, Mapping) else {}
        )

    # -- its roles

    def build_role(self, role: Role) -> dict[str, Any]:
        shm = role.resources.shm
        written = {
            "instances": role.instances,
            "completion": {
                "minFailedInstances": _to_completion_count(role.completion.min_failed),
                "minSucceededInstances": _to_completion_count(role.completion.min_succeeded),
            },
            "taskRetryCount": role.max_task_retries or None,
            "dockerImage": self.images[role.image],
            **dict.fromkeys(self.get_paths_by_type(), DEFAULT_NAME),
            "extraContainerOptions": None if shm is None else {"shmMB": _to_mebibytes(shm)},
            "resourcePerInstance": self.build_resources(role),
            "commands": list(role.commands),
        }
        self.record_role_losses(role)
        return {key: value for key, value in written.items() if value is not None}

    def build_resources(self, role: Role) -> dict[str, Any]:
        cpu = max(1, math.ceil(role.resources.cpu))
        if cpu != role.resources.cpu or role.resources.memory % MIB:
            self.record_loss("fractions of cores and of MiB are rounded up")
        asked = {"cpu": cpu, "memoryMB": _to_mebibytes(role.resources.memory), "gpu": role.resources.gpu}
        return {**asked, "ports": self.build_ports(role)} if role.ports else asked

    def build_ports(self, role: Role) -> dict[str, int]:
        labels = _map_to_unique_words(role.ports, "port")
        if any(label != spelled for label, spelled in labels.items()):
            self.record_loss("port labels are changed to what protocol v2 allows")
        return {labels[label]: count for label, count in role.ports.items()}

    def build_setup_lines(self, role: Role) -> list[str]:
        """Return script lines for what v2 has no field for: shell options, variables, the working folder."""
        off = [f"set +o {option}" for option in SHELL_OPTIONS if option not in role.shell_options]
        on = [f"set -o {option}" for option in dict.fromkeys(role.shell_options) if option not in SHELL_OPTIONS]
        exports = [f"export {name}={shlex.quote(value)}" for name, value in role.env.items()]
        workdir = [f"cd {shlex.quote(role.workdir)}"] if role.workdir is not None else []
        text = "This job was written for protocol v1 and converted; some of it may behave differently."
        warning = [f"echo {shlex.quote(text)}"] if self.v1 is not None else []
        return [*warning, *off, *exports, *workdir, *on]

    def record_role_losses(self, role: Role) -> None:
        if self.roles[role.name] != role.name:
            self.record_loss("role names are changed to what protocol v2 allows")
        if any(mount.dataset is None for mount in role.mounts):
            self.record_loss("mounted folders are omitted; v2 supports only storages")

    def record_loss(self, text: str) -> None:
        self.notes[text] = None


# Extras of a v1 file that have their own field, or another meaning in v2.
_KNOWN_EXTRAS = frozenset(
    {"holdfast", "gangAllocation", "hivedScheduler", "storages", "com.microsoft.pai.runtimeplugin"}
)


def _build_registry_login(v1: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return registry credentials: v1 refers to a file; in v2 they are secrets to be filled in."""
    if v1 is None or not v1.get("authFile"):
        return {}
    user, password = "<% $secrets.registry.username %>", "<% $secrets.registry.password %>"
    return {"auth": {"username": user, "password": password}}


def _choose_image_names(images: Iterable[str]) -> dict[str, str]:
    found = list(dict.fromkeys(images))
    return {image: DEFAULT_NAME if len(found) == 1 else f"image_{number}" for number, image in enumerate(found)}


def _map_to_unique_words(names: Iterable[str], fallback: str) -> dict[str, str]:
    """Map each name to a unique v2 name."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        word = _INVALID_WORD_CHAR_PATTERN.sub("_", name) or fallback
        word = (f"_{word}" if word[0].isdigit() else word)[:_MAX_WORD_LENGTH]
        found[name] = _make_unique_word(word, taken)
        taken.add(found[name])
    return found


def _make_unique_word(word: str, taken: set[str]) -> str:
    number, spelled = 2, word
    while spelled in taken:
        spelled = f"{word[: _MAX_WORD_LENGTH - 6]}_{number}"
        number += 1
    return spelled


def _to_completion_count(wanted: int | None) -> int:
    return -1 if wanted is None else wanted


def _to_mebibytes(size: int) -> int:
    return -(-size // MIB)


def _build_holdfast_extras(job: Job) -> dict[str, Any]:
    written = {
        "hold": None if job.hold is None else render_hold(job.hold),
        "time_limit": format_time_limit(job.time_limit),
        "grace": None if job.grace is None else format_duration(job.grace),
        "notify": render_notify(job.notify) if job.notify else None,
        "engine": job.engine or None,
        SLURM_ENGINE: _collect_slurm_options(job) or None,
    }
    return {key: value for key, value in written.items() if value is not None}


def _collect_slurm_options(job: Job) -> dict[str, str]:
    """Return the options that all roles share; OpenPAI's files have no place for others."""
    first, *others = (role.engine_options.get(SLURM_ENGINE, {}) for role in job.roles)
    return {
        name: first[name]
        for name in QUEUE_OPTION_NAMES
        if name in first and all(other.get(name) == first[name] for other in others)
    }

"""Job -> OpenPAI protocol v2, as plain values, secrets masked.

A v2 job comes out as it was written, a v1 job by OpenPAI's own conversion, any other as close as v2 can say it. What is
lost or changed on the way is listed under extras.conversionNotes. Except for masked secrets, the result parses again.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from holdfast.core.codec import MASK, mask
from holdfast.core.job import DEFAULT_GROUP, MIB, Dialect, Job, Role

from .holds import write_hold
from .notifying import write_notify
from .openpai_extras import PRIORITIES
from .openpai_v2 import SHELL_OPTIONS
from .quantities import render_duration
from .render import dump_yaml

DEFAULT = "default"  # names the only image, deployment and so on
_MAX_RETRIES = 1_000_000
_NOT_IN_JOB_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NOT_IN_WORD = re.compile(r"[^a-zA-Z0-9_]")
_MAX_NAME_LENGTH, _MAX_WORD_LENGTH = 255, 63


def render_openpai(job: Job) -> dict[str, Any]:
    config = _config(job)
    return {**config, "secrets": MASK} if job.secrets else config


def render_openpai_yaml(job: Job) -> str:
    """A v2 file to change and submit again: it names each secret, and the group that the job is really in."""
    config = _in_group(_config(job), job.group)
    return dump_yaml({**config, "secrets": mask(job.secrets)} if job.secrets else config)


def _config(job: Job) -> dict[str, Any]:
    written = _written(job)
    if job.dialect is Dialect.OPENPAI_V2 and written is not None:
        return dict(written)
    return _Conversion(job, written if job.dialect is Dialect.OPENPAI_V1 else None).config()


def _in_group(config: dict[str, Any], group: str) -> dict[str, Any]:
    defaults = config.get("defaults") or {}
    if (defaults.get("virtualCluster") or DEFAULT_GROUP) == group:
        return config
    return {**config, "defaults": {**defaults, "virtualCluster": group}}


def _written(job: Job) -> Mapping[str, Any] | None:
    """The file it came from, where it was one of OpenPAI's."""
    kept = job.extras.get("openpai")
    config = kept.get("config") if isinstance(kept, Mapping) else None
    return config if isinstance(config, Mapping) else None


class _Conversion:
    """From the job as we keep it; `v1` is the file it was written in, where that says more."""

    def __init__(self, job: Job, v1: Mapping[str, Any] | None) -> None:
        self.job = job
        self.v1 = v1
        self.notes: dict[str, None] = {}
        self.images = _image_names(role.image for role in job.roles)
        self.roles = _words((role.name for role in job.roles), "role")

    def config(self) -> dict[str, Any]:
        job = self.job
        roles = {self.roles[role.name]: self.role(role) for role in job.roles}
        before = {self.roles[role.name]: {"preCommands": lines} for role in job.roles if (lines := self.before(role))}
        written = {
            "protocolVersion": 2,
            "name": self.name(),
            "type": "job",
            "description": job.description,
            "prerequisites": [*self.docker_images(), *self.folders()],
            "parameters": self.parameters(),
            "jobRetryCount": self.retries(),
            "taskRoles": roles,
            "deployments": [{"name": DEFAULT, "taskRoles": before}] if before else None,
            "defaults": {"virtualCluster": job.group, **({"deployment": DEFAULT} if before else {})},
            "extras": self.extras(),
        }
        return {key: value for key, value in written.items() if value or key == "jobRetryCount"}

    # -- the job

    def name(self) -> str:
        name = _NOT_IN_JOB_NAME.sub("_", self.job.name)[:_MAX_NAME_LENGTH]
        if name != self.job.name:
            self.note("the name of the job is spelled as protocol v2 allows")
        return name

    def retries(self) -> int:
        if self.job.max_retries < 0:
            self.note(f"retries without end became {_MAX_RETRIES}; v2 knows no negative count")
            return _MAX_RETRIES
        return self.job.max_retries

    def docker_images(self) -> list[dict[str, Any]]:
        login = _login(self.v1)
        return [
            {"protocolVersion": 2, "name": name, "type": "dockerimage", "uri": uri, **login}
            for uri, name in self.images.items()
        ]

    def folders(self) -> list[dict[str, Any]]:
        """v1's dataDir, outputDir and codeDir."""
        return [
            {
                "protocolVersion": 2,
                "name": DEFAULT,
                "type": kind,
                "uri": [path] if kind == "data" else path,
            }
            for kind, path in self.paths().items()
        ]

    def paths(self) -> dict[str, str]:
        kept = self.job.extras.get("openpai") if self.v1 is not None else None
        found = kept.get("paths") if isinstance(kept, Mapping) else None
        given = found if isinstance(found, Mapping) else {}
        kinds = {"data": "dataDir", "output": "outputDir", "script": "codeDir"}
        return {kind: given[key] for kind, key in kinds.items() if isinstance(given.get(key), str)}

    def parameters(self) -> dict[str, Any]:
        """v1's jobEnvs."""
        envs = self.v1.get("jobEnvs") if self.v1 is not None else None
        return dict(envs) if isinstance(envs, Mapping) else {}

    def extras(self) -> dict[str, Any]:
        job = self.job
        priority = next((name for name, number in PRIORITIES.items() if number == job.priority), None)
        if job.priority and priority is None:
            self.note(f"the priority {job.priority} has no class in v2")
        written = {
            **self.own_extras(),
            "gangAllocation": None if job.gang else False,
            "hivedScheduler": {"jobPriorityClass": priority} if job.priority and priority else None,
            "storages": [{"name": name, "mountPath": f"/datasets/{name}"} for name in job.datasets],
            "tags": list(job.tags),
            "holdfast": _our_extras(job),
            "convertedFrom": job.dialect.value,
            "conversionNotes": list(self.notes),
        }
        return {key: value for key, value in written.items() if value or value is False}

    def own_extras(self) -> dict[str, Any]:
        """v1's are copied. Ours may have keys that mean something else to OpenPAI, so they stand apart."""
        if self.v1 is None:
            return {"original": dict(self.job.extras)} if self.job.extras else {}
        kept = self.v1.get("extras")
        return {key: value for key, value in kept.items() if key not in _READ} if isinstance(kept, Mapping) else {}

    # -- its roles

    def role(self, role: Role) -> dict[str, Any]:
        written = {
            "instances": role.instances,
            "completion": {
                "minFailedInstances": _count(role.completion.min_failed),
                "minSucceededInstances": _count(role.completion.min_succeeded),
            },
            "taskRetryCount": role.max_task_retries or None,
            "dockerImage": self.images[role.image],
            **dict.fromkeys(self.paths(), DEFAULT),
            "extraContainerOptions": self.options(role),
            "resourcePerInstance": self.resources(role),
            "commands": list(role.commands),
        }
        self.note_losses(role)
        return {key: value for key, value in written.items() if value is not None}

    def options(self, role: Role) -> dict[str, int] | None:
        return None if role.resources.shm is None else {"shmMB": _mebibytes(role.resources.shm)}

    def resources(self, role: Role) -> dict[str, Any]:
        cpu = max(1, math.ceil(role.resources.cpu))
        if cpu != role.resources.cpu or role.resources.memory % MIB:
            self.note("parts of cores and of MiB are rounded up")
        asked = {"cpu": cpu, "memoryMB": _mebibytes(role.resources.memory), "gpu": role.resources.gpu}
        return {**asked, "ports": self.ports(role)} if role.ports else asked

    def ports(self, role: Role) -> dict[str, int]:
        labels = _words(role.ports, "port")
        if any(label != spelled for label, spelled in labels.items()):
            self.note("labels of ports are spelled as protocol v2 allows")
        return {labels[label]: count for label, count in role.ports.items()}

    def before(self, role: Role) -> list[str]:
        """What v2 has no field for, said in the script: shell options, variables, the working directory."""
        off = [f"set +o {option}" for option in SHELL_OPTIONS if option not in role.shell_options]
        on = [f"set -o {option}" for option in dict.fromkeys(role.shell_options) if option not in SHELL_OPTIONS]
        exports = [f"export {name}={shlex.quote(value)}" for name, value in role.env.items()]
        workdir = [f"cd {shlex.quote(role.workdir)}"] if role.workdir is not None else []
        return [*self.warning(), *off, *exports, *workdir, *on]

    def warning(self) -> list[str]:
        text = "This job was written for protocol v1 and converted; some of it may behave differently."
        return [f"echo {shlex.quote(text)}"] if self.v1 is not None else []

    def note_losses(self, role: Role) -> None:
        if self.roles[role.name] != role.name:
            self.note("names of roles are spelled as protocol v2 allows")
        if any(mount.dataset is None for mount in role.mounts):
            self.note("mounted folders are left out; v2 knows storages only")

    def note(self, text: str) -> None:
        self.notes[text] = None


# What of a v1 file's extras another field tells here, or would be read as something of v2.
_READ = frozenset({"holdfast", "gangAllocation", "hivedScheduler", "storages", "com.microsoft.pai.runtimeplugin"})


def _login(v1: Mapping[str, Any] | None) -> dict[str, Any]:
    """v1 names a file with the registry's user and password; in v2 they are secrets, to be filled in."""
    if v1 is None or not v1.get("authFile"):
        return {}
    user, password = "<% $secrets.registry.username %>", "<% $secrets.registry.password %>"
    return {"auth": {"username": user, "password": password}}


def _image_names(images: Iterable[str]) -> dict[str, str]:
    found = list(dict.fromkeys(images))
    return {image: DEFAULT if len(found) == 1 else f"image_{number}" for number, image in enumerate(found)}


def _words(names: Iterable[str], fallback: str) -> dict[str, str]:
    """Each name as v2 spells such names, no two alike."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        word = _NOT_IN_WORD.sub("_", name) or fallback
        word = (f"_{word}" if word[0].isdigit() else word)[:_MAX_WORD_LENGTH]
        found[name] = _free(word, taken)
        taken.add(found[name])
    return found


def _free(word: str, taken: set[str]) -> str:
    number, spelled = 2, word
    while spelled in taken:
        spelled = f"{word[: _MAX_WORD_LENGTH - 6]}_{number}"
        number += 1
    return spelled


def _count(wanted: int | None) -> int:
    return -1 if wanted is None else wanted


def _mebibytes(size: int) -> int:
    return -(-size // MIB)


def _our_extras(job: Job) -> dict[str, Any]:
    written = {
        "hold": None if job.hold is None else write_hold(job.hold),
        "time_limit": _limit(job.time_limit),
        "grace": None if job.grace is None else render_duration(job.grace),
        "notify": write_notify(job.notify) if job.notify else None,
    }
    return {key: value for key, value in written.items() if value is not None}


def _limit(limit: timedelta | None) -> str | None:
    if limit is None:
        return None
    return render_duration(limit) if limit else "none"

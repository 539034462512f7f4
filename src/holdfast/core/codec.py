"""Job <-> plain JSON values, without loss: what the store keeps and the API shows.

Durations are seconds. Reading trusts its input (it was written here) and fills fields that older records lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from .job import Completion, Dialect, Hold, Job, Keep, Mount, Resources, Role
from .notifications import NotificationEvent, Notify, Way, in_order

MASK = "******"  # stands for every secret value in what people see


def mask(value: Any) -> Any:
    """The same shape with every value hidden; names stay."""
    if isinstance(value, Mapping):
        return {key: mask(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner) for inner in value]
    return MASK


def job_to_json(job: Job, *, secrets: bool = False) -> dict[str, Any]:
    """Plain JSON values. Secrets are masked unless asked for."""
    return {
        "name": job.name,
        "roles": [_role_to_json(role) for role in job.roles],
        "group": job.group,
        "description": job.description,
        "secrets": dict(job.secrets) if secrets else mask(job.secrets),
        "gang": job.gang,
        "max_retries": job.max_retries,
        "time_limit": _seconds(job.time_limit),
        "grace": _seconds(job.grace),
        "hold": hold_to_json(job.hold),
        "priority": job.priority,
        "tags": list(job.tags),
        "datasets": list(job.datasets),
        "files": job.files,
        **({"notify": [_notify_to_json(each) for each in job.notify]} if job.notify else {}),
        "dialect": job.dialect.value,
        "extras": dict(job.extras),
    }


def job_from_json(data: Mapping[str, Any]) -> Job:
    """The job `job_to_json` wrote."""
    get = data.get
    return Job(
        name=data["name"],
        roles=tuple(_role_from_json(role) for role in data["roles"]),
        group=data["group"],
        description=get("description", ""),
        secrets=get("secrets", {}),
        gang=get("gang", True),
        max_retries=get("max_retries", 0),
        time_limit=_duration(get("time_limit")),
        grace=_duration(get("grace")),
        hold=hold_from_json(get("hold")),
        priority=get("priority", 0),
        tags=tuple(get("tags", ())),
        datasets=tuple(get("datasets", ())),
        files=get("files", False),
        notify=tuple(_notify_from_json(each) for each in get("notify", ())),
        dialect=Dialect(get("dialect", Dialect.HOLDFAST)),
        extras=get("extras", {}),
    )


def _role_to_json(role: Role) -> dict[str, Any]:
    resources, completion = role.resources, role.completion
    return {
        "name": role.name,
        "commands": list(role.commands),
        "instances": role.instances,
        "image": role.image,
        **({"image_url": role.image_url} if role.image_url else {}),
        "resources": _resources_to_json(resources),
        **({"instance_type": role.instance_type} if role.instance_type else {}),
        **({"own_resources": list(role.own_resources)} if role.own_resources else {}),
        "ports": dict(role.ports),
        "env": dict(role.env),
        "mounts": [_mount_to_json(mount) for mount in role.mounts],
        "completion": {"min_failed": completion.min_failed, "min_succeeded": completion.min_succeeded},
        "max_task_retries": role.max_task_retries,
        "shell_options": list(role.shell_options),
        "workdir": role.workdir,
    }


def _resources_to_json(resources: Resources) -> dict[str, Any]:
    """Requests are left out where they are the limits, as nearly everywhere."""
    found: dict[str, Any] = {
        "cpu": resources.cpu,
        "memory": resources.memory,
        "gpu": resources.gpu,
        "shm": resources.shm,
    }
    if resources.cpu_request is not None:
        found["cpu_request"] = resources.cpu_request
    if resources.memory_request is not None:
        found["memory_request"] = resources.memory_request
    return found


def _mount_to_json(mount: Mount) -> dict[str, Any]:
    plain = {"source": mount.source, "target": mount.target, "read_only": mount.read_only}
    return plain if mount.dataset is None else {**plain, "dataset": mount.dataset}


def _role_from_json(data: Mapping[str, Any]) -> Role:
    get = data.get
    return Role(
        name=data["name"],
        commands=tuple(data["commands"]),
        instances=get("instances", 1),
        image=data["image"],
        image_url=get("image_url", ""),
        resources=Resources(**data["resources"]),
        instance_type=get("instance_type", ""),
        own_resources=tuple(get("own_resources", ())),
        ports=get("ports", {}),
        env=get("env", {}),
        mounts=tuple(Mount(**mount) for mount in get("mounts", ())),
        completion=Completion(**get("completion", {})),
        max_task_retries=get("max_task_retries", 0),
        shell_options=tuple(data["shell_options"]),
        workdir=get("workdir"),
    )


def _notify_to_json(notify: Notify) -> dict[str, Any]:
    return {"events": in_order(notify.events), "way": notify.way, "address": notify.address}


def _notify_from_json(data: Mapping[str, Any]) -> Notify:
    events = frozenset(NotificationEvent(event) for event in data["events"])
    return Notify(events=events, way=Way(data["way"]) if data["way"] else None, address=data["address"])


def hold_to_json(hold: Hold | None) -> dict[str, Any] | None:
    return None if hold is None else {"duration": _seconds(hold.duration), "keep": hold.keep.value}


def hold_from_json(data: Mapping[str, Any] | None) -> Hold | None:
    if data is None:
        return None
    return Hold(duration=_duration(data["duration"]), keep=Keep(data["keep"]))


def _seconds(duration: timedelta | None) -> int | float | None:
    if duration is None:
        return None
    seconds = duration.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)

"""Job <-> plain JSON values, without loss: what the store keeps and the API shows.

Durations are seconds. Decoding trusts its input (it was written here) and fills fields that older records lack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeVar

from .job import Completion, Hold, HoldScope, Job, JobFormat, Mount, Resources, Role
from .notifications import Channel, NotificationEvent, NotifySpec, list_event_names
from .volumes import HostFolder, VolumeKind, volume_from_json, volume_to_json

T = TypeVar("T")

MASK = "******"  # replaces every secret value in outputs


def mask_values(value: Any) -> Any:
    """Replace every value by the mask; names and structure stay."""
    if isinstance(value, Mapping):
        return {key: mask_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask_values(inner) for inner in value]
    return MASK


def job_to_json(job: Job, *, secrets: bool = False) -> dict[str, Any]:
    """Convert to plain JSON values. Secrets are masked unless requested."""
    return {
        "name": job.name,
        "roles": [_role_to_json(role) for role in job.roles],
        "group": job.group,
        "description": job.description,
        "secrets": dict(job.secrets) if secrets else mask_values(job.secrets),
        "gang": job.gang,
        "max_retries": job.max_retries,
        "time_limit": _to_seconds(job.time_limit),
        "grace": _to_seconds(job.grace),
        "hold": hold_to_json(job.hold),
        "priority": job.priority,
        **({"engine": job.engine} if job.engine else {}),
        "tags": list(job.tags),
        "datasets": list(job.datasets),
        "files": job.files,
        **({"notify": [_notify_to_json(each) for each in job.notify]} if job.notify else {}),
        "dialect": job.dialect.value,
        "extras": dict(job.extras),
    }


def job_from_json(data: Mapping[str, Any]) -> Job:
    return _build_from_fields(
        Job,
        data,
        roles=tuple(_role_from_json(role) for role in data["roles"]),
        time_limit=_to_timedelta(data.get("time_limit")),
        grace=_to_timedelta(data.get("grace")),
        hold=hold_from_json(data.get("hold")),
        notify=tuple(_notify_from_json(each) for each in data.get("notify", ())),
        dialect=JobFormat(data.get("dialect", JobFormat.HOLDFAST)),
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
        "completion": {
            "min_failed": completion.min_failed,
            "min_succeeded": completion.min_succeeded,
            **({"wait_for_all": True} if completion.wait_for_all else {}),
        },
        "max_task_retries": role.max_task_retries,
        "shell_options": list(role.shell_options),
        "workdir": role.workdir,
        **({"engine_options": _options_to_json(role.engine_options)} if role.engine_options else {}),
        **({"type_options": _options_to_json(role.type_options)} if role.type_options else {}),
    }


def _options_to_json(options: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {engine: dict(values) for engine, values in options.items()}


def _resources_to_json(resources: Resources) -> dict[str, Any]:
    """Convert resources; requests that equal the limits are omitted."""
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
    """Convert a mount. The source alone describes a folder of the machine, as in every version."""
    found: dict[str, Any] = {"source": mount.source, "target": mount.target, "read_only": mount.read_only}
    if mount.dataset is not None:
        found["dataset"] = mount.dataset
    if mount.volume.kind is not VolumeKind.FOLDER:
        found["volume"] = volume_to_json(mount.volume)
    return found


def _mount_from_json(data: Mapping[str, Any]) -> Mount:
    volume = data.get("volume")
    others = {name: value for name, value in data.items() if name not in ("source", "volume")}
    return Mount(volume=volume_from_json(volume) if volume else HostFolder(data["source"]), **others)


def _role_from_json(data: Mapping[str, Any]) -> Role:
    return _build_from_fields(
        Role,
        data,
        resources=Resources(**data["resources"]),
        mounts=tuple(_mount_from_json(mount) for mount in data.get("mounts", ())),
        completion=Completion(**data.get("completion", {})),
    )


def _build_from_fields(kind: Callable[..., T], data: Mapping[str, Any], **converted: Any) -> T:
    """Build a job or role from the values of its fields; a missing one gets its default, and lists become tuples."""
    names = {field.name for field in fields(kind)} & data.keys()  # type: ignore[arg-type]
    plain = {name: tuple(data[name]) if isinstance(data[name], list) else data[name] for name in names}
    return kind(**{**plain, **converted})


def _notify_to_json(notify: NotifySpec) -> dict[str, Any]:
    return {"events": list_event_names(notify.events), "way": notify.way, "address": notify.address}


def _notify_from_json(data: Mapping[str, Any]) -> NotifySpec:
    events = frozenset(NotificationEvent(event) for event in data["events"])
    return NotifySpec(events=events, way=Channel(data["way"]) if data["way"] else None, address=data["address"])


def hold_to_json(hold: Hold | None) -> dict[str, Any] | None:
    return None if hold is None else {"duration": _to_seconds(hold.duration), "keep": hold.keep.value}


def hold_from_json(data: Mapping[str, Any] | None) -> Hold | None:
    if data is None:
        return None
    return Hold(duration=_to_timedelta(data["duration"]), keep=HoldScope(data["keep"]))


def _to_seconds(duration: timedelta | None) -> int | float | None:
    if duration is None:
        return None
    seconds = duration.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _to_timedelta(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)

"""What clients send of a group -> a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from holdfast.services.people.groups import GroupChange

from ..errors import PhError
from ..graphql.scalars import size_in_bytes
from .shapes import KEPT, kept_with

Shape = dict[str, Any]

MAX_COUNT = 1_000_000  # cores, GPUs, GB of a quota
KEPT_FIELDS = ("enabledDeployment", "maxDeploy", "userVolumeCapacity")
NOT_NULL = {  # what null means nothing for
    "displayName": "display_name",
    "enabledSharedVolume": "shared_volume",
    "launchGroupOnly": "launch_only",
    "homeSymlink": "home_symlink",
}
CHANGED = (
    "display_name",
    "quota",
    "user_quota",
    "time_limit",
    "shared_volume",
    "volume_capacity",
    "launch_only",
    "home_symlink",
)


def read_group(group: Group, data: Shape) -> Group:
    """The group with what is given; who is in it aside."""
    given: Shape = {name: data[key] for key, name in NOT_NULL.items() if data.get(key) is not None}
    if "jobDefaultActiveDeadlineSeconds" in data:
        given["time_limit"] = _time_limit(data["jobDefaultActiveDeadlineSeconds"])
    if "sharedVolumeCapacity" in data:
        given["volume_capacity"] = data["sharedVolumeCapacity"]
    kept = {**kept_with(group), **{name: data[name] for name in KEPT_FIELDS if name in data}}
    if kept:
        given["extension"] = {**group.extension, KEPT: {key: each for key, each in kept.items() if each is not None}}
    return replace(
        group,
        **given,
        user_quota=_quota(group.user_quota, data, "quota"),
        quota=_quota(group.quota, data, "projectQuota"),
    )


def read_change(group: Group, data: Shape) -> GroupChange:
    """Only what differs: clients of those who may change little send back all they were told."""
    after = read_group(group, data)
    given: Shape = {name: getattr(after, name) for name in CHANGED}
    given = {name: value for name, value in given.items() if value != getattr(group, name)}
    if after.extension != group.extension:
        given["extension"] = {KEPT: after.extension[KEPT]}
    return GroupChange(**given)


def _quota(now: Quota, data: Shape, prefix: str) -> Quota:
    """Null: no bound."""
    given = {}
    for name, (key, read) in _AMOUNTS.items():
        field = f"{prefix}{name}"
        if field in data:
            given[key] = None if data[field] is None else read(_within(data[field], field))
    return replace(now, **given)


def _within(value: float, field: str) -> float:
    if not 0 <= value <= MAX_COUNT:
        raise PhError(f"{field} is between 0 and {MAX_COUNT}, or null for no bound")
    return value


def _time_limit(value: int | None) -> timedelta | None:
    if value is not None and value < 0:
        raise PhError("jobDefaultActiveDeadlineSeconds cannot be negative")
    return None if value is None else timedelta(seconds=value)


_AMOUNTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Cpu": ("cpu", float),
    "Gpu": ("gpu", int),
    "Memory": ("memory", size_in_bytes),
}

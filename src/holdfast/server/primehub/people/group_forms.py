"""Converts a group from clients to a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from holdfast.core.records import Group
from holdfast.core.scheduling.placement import Quota
from holdfast.services.people.groups import GroupChange

from ..errors import PrimeHubError
from ..graphql.scalars import gigabytes_to_bytes
from ..json_object import JsonObject
from .shapes import EXTENSION_KEY, get_extension_fields

MAX_QUOTA = 1_000_000  # cores, GPUs, GB of a quota
EXTENSION_FIELDS = ("enabledDeployment", "maxDeploy", "userVolumeCapacity")
NON_NULL_FIELDS = {  # fields for which null means no change
    "displayName": "display_name",
    "enabledSharedVolume": "shared_volume",
    "launchGroupOnly": "launch_only",
    "homeSymlink": "home_symlink",
}
CHANGEABLE_FIELDS = (
    "display_name",
    "quota",
    "user_quota",
    "time_limit",
    "shared_volume",
    "volume_capacity",
    "launch_only",
    "home_symlink",
)


def parse_group(group: Group, data: JsonObject) -> Group:
    """Return the group with the given fields, except its members."""
    given: JsonObject = {name: data[key] for key, name in NON_NULL_FIELDS.items() if data.get(key) is not None}
    if "jobDefaultActiveDeadlineSeconds" in data:
        given["time_limit"] = _parse_time_limit(data["jobDefaultActiveDeadlineSeconds"])
    if "sharedVolumeCapacity" in data:
        given["volume_capacity"] = data["sharedVolumeCapacity"]
    kept = {**get_extension_fields(group), **{name: data[name] for name in EXTENSION_FIELDS if name in data}}
    if kept:
        given["extension"] = {
            **group.extension,
            EXTENSION_KEY: {key: each for key, each in kept.items() if each is not None},
        }
    return replace(
        group,
        **given,
        user_quota=_parse_quota(group.user_quota, data, "quota"),
        quota=_parse_quota(group.quota, data, "projectQuota"),
    )


def parse_group_change(group: Group, data: JsonObject) -> GroupChange:
    """Return only changed fields: clients send back all fields, also those that the user cannot change."""
    after = parse_group(group, data)
    given: JsonObject = {name: getattr(after, name) for name in CHANGEABLE_FIELDS}
    given = {name: value for name, value in given.items() if value != getattr(group, name)}
    if after.extension != group.extension:
        given["extension"] = {EXTENSION_KEY: after.extension[EXTENSION_KEY]}
    return GroupChange(**given)


def _parse_quota(now: Quota, data: JsonObject, prefix: str) -> Quota:
    """Return the quota; null means no limit."""
    given = {}
    for name, (key, read) in _QUOTA_FIELDS.items():
        field = f"{prefix}{name}"
        if field in data:
            given[key] = None if data[field] is None else read(_check_quota_range(data[field], field))
    return replace(now, **given)


def _check_quota_range(value: float, field: str) -> float:
    if not 0 <= value <= MAX_QUOTA:
        raise PrimeHubError(f"{field} must be between 0 and {MAX_QUOTA}, or null for no limit")
    return value


def _parse_time_limit(value: int | None) -> timedelta | None:
    if value is not None and value < 0:
        raise PrimeHubError("jobDefaultActiveDeadlineSeconds cannot be negative")
    return None if value is None else timedelta(seconds=value)


_QUOTA_FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Cpu": ("cpu", float),
    "Gpu": ("gpu", int),
    "Memory": ("memory", gigabytes_to_bytes),
}

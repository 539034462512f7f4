"""Users and groups in PrimeHub's shapes. Their IDs are their names. `everyone` is a virtual group: what is linked to it
is granted to all users."""

from __future__ import annotations

from typing import Any

from holdfast.core.records import Group, User

from ..graphql.scalars import to_gigabytes, to_seconds
from ..json_object import JsonObject

EVERYONE = "everyone"
EXTENSION_KEY = "primehub"  # fields that only PrimeHub has, in the extension of a user or group


def user_to_json(user: User) -> JsonObject:
    kept = get_extension_fields(user)
    return {
        **user_name_to_json(user.name),
        "firstName": str(kept.get("firstName") or ""),
        "lastName": str(kept.get("lastName") or ""),
        "email": user.email,
        "enabled": not user.disabled,
        "isAdmin": user.admin,
        "volumeCapacity": to_graphql_int(kept.get("volumeCapacity")),
        "createdTimestamp": round(user.created_at.timestamp() * 1000),
        "_groups": tuple(user.groups),
    }


def get_extension_fields(thing: User | Group) -> JsonObject:
    kept = thing.extension.get(EXTENSION_KEY)
    return kept if isinstance(kept, dict) else {}


def user_name_to_json(name: str) -> JsonObject:
    """Return the fields that users without a common group can see."""
    return {"id": name, "username": name, "_groups": ()}


def group_to_json(group: Group, *, merged: bool = False) -> JsonObject:
    """Return a group. `merged`: with the images, instance types and volumes of everyone."""
    kept = get_extension_fields(group)
    return {
        "id": group.name,
        "name": group.name,
        "displayName": group.display_name or group.name,
        "admins": ",".join(sorted(name for name, admin in group.members.items() if admin)),
        "quotaCpu": group.user_quota.cpu,
        "quotaGpu": group.user_quota.gpu,
        "quotaMemory": to_gigabytes(group.user_quota.memory),
        "projectQuotaCpu": group.quota.cpu,
        "projectQuotaGpu": group.quota.gpu,
        "projectQuotaMemory": to_gigabytes(group.quota.memory),
        "userVolumeCapacity": to_graphql_int(kept.get("userVolumeCapacity")),
        "enabledDeployment": kept.get("enabledDeployment") is True,
        "maxDeploy": to_graphql_int(kept.get("maxDeploy")) or 0,
        "deploymentsUsage": 0,
        "enabledSharedVolume": group.shared_volume,
        "sharedVolumeCapacity": group.volume_capacity,
        "homeSymlink": group.home_symlink,
        "launchGroupOnly": group.launch_only,
        "jobDefaultActiveDeadlineSeconds": to_seconds(group.time_limit),
        "_group": group,
        "_merged": merged,
    }


def to_graphql_int(value: Any) -> int | None:
    """Return an integer, or None: the extension can contain any value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31 else None


def everyone_to_json() -> JsonObject:
    return {**group_to_json(Group(name=EVERYONE)), "_group": None}

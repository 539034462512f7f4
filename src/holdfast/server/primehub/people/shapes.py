"""Users and groups as PrimeHub shows them. Their ids are their names. `everyone` is a group that is only shown: what
is linked to it is for all."""

from __future__ import annotations

from typing import Any

from holdfast.core.records import Group, User

from ..graphql.scalars import gigabytes, seconds

Shape = dict[str, Any]

EVERYONE = "everyone"
KEPT = "primehub"  # what PrimeHub knows of a user or a group and we do not, within their extension


def show_user(user: User) -> Shape:
    kept = kept_with(user)
    return {
        **name_user(user.name),
        "firstName": str(kept.get("firstName") or ""),
        "lastName": str(kept.get("lastName") or ""),
        "email": user.email,
        "enabled": not user.disabled,
        "isAdmin": user.admin,
        "volumeCapacity": whole_number(kept.get("volumeCapacity")),
        "createdTimestamp": round(user.created_at.timestamp() * 1000),
        "_groups": tuple(user.groups),
    }


def kept_with(thing: User | Group) -> Shape:
    kept = thing.extension.get(KEPT)
    return kept if isinstance(kept, dict) else {}


def name_user(name: str) -> Shape:
    """All that those may know who share no group with the user."""
    return {"id": name, "username": name, "_groups": ()}


def show_group(group: Group, *, merged: bool = False) -> Shape:
    """`merged`: with everyone's images, instance types and volumes among its own."""
    kept = kept_with(group)
    return {
        "id": group.name,
        "name": group.name,
        "displayName": group.display_name or group.name,
        "admins": ",".join(sorted(name for name, admin in group.members.items() if admin)),
        "quotaCpu": group.user_quota.cpu,
        "quotaGpu": group.user_quota.gpu,
        "quotaMemory": gigabytes(group.user_quota.memory),
        "projectQuotaCpu": group.quota.cpu,
        "projectQuotaGpu": group.quota.gpu,
        "projectQuotaMemory": gigabytes(group.quota.memory),
        "userVolumeCapacity": whole_number(kept.get("userVolumeCapacity")),
        "enabledDeployment": kept.get("enabledDeployment") is True,
        "maxDeploy": whole_number(kept.get("maxDeploy")) or 0,
        "deploymentsUsage": 0,
        "enabledSharedVolume": group.shared_volume,
        "sharedVolumeCapacity": group.volume_capacity,
        "homeSymlink": group.home_symlink,
        "launchGroupOnly": group.launch_only,
        "jobDefaultActiveDeadlineSeconds": seconds(group.time_limit),
        "_group": group,
        "_merged": merged,
    }


def whole_number(value: Any) -> int | None:
    """Others may have put anything there."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31 else None


def show_everyone() -> Shape:
    return {**show_group(Group(name=EVERYONE)), "_group": None}

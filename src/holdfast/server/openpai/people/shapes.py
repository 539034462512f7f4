"""Users and groups as OpenPAI's clients see them. A group is what they call a virtual cluster, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.core.access import Actor
from holdfast.core.records import Dataset, Group, User

EXTERNAL_NAME = "externalName"  # beside what is shown as extension
ACLS = "acls"  # made of what is so; never kept

_SECRET = ("githubPAT", "boundedClusters", "jobSSH")  # the second has tokens for other clusters in it


def show_user(user: User, *, to: Actor, groups: Iterable[str], datasets: Iterable[Dataset]) -> dict[str, Any]:
    """`groups` and `datasets`: all there are that `to` may see."""
    reach = list(groups) if user.admin else list(user.groups)
    return {
        "username": user.name,
        "grouplist": list(user.groups),
        "email": user.email,
        "extension": _shown_extension(user, to),
        "admin": user.admin,
        "virtualCluster": reach,
        "storageConfig": [dataset.name for dataset in datasets if _granted(dataset, user)],
    }


def _granted(dataset: Dataset, user: User) -> bool:
    return user.admin or dataset.everyone or any(group in user.groups for group in dataset.groups)


def _shown_extension(user: User, to: Actor) -> dict[str, Any]:
    """All of one's own. Clients keep what they like in there: others see public keys, and admins what is not known to
    be secret.
    """
    if to.name == user.name:
        return dict(user.extension)
    shown = {key: value for key, value in user.extension.items() if to.admin and key not in _SECRET}
    return {**shown, **_public_keys(user.extension)}


def _public_keys(extension: Mapping[str, Any]) -> dict[str, Any]:
    public: dict[str, Any] = {}
    if "sshKeys" in extension:
        public["sshKeys"] = [_only(key, "title", "value", "time") for key in extension["sshKeys"]]
    if "jobSSH" in extension:
        public["jobSSH"] = _only(extension["jobSSH"], "pubKey")
    return public


def _only(value: Any, *keys: str) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value} if isinstance(value, Mapping) else {}


def show_group(group: Group, datasets: Iterable[Dataset]) -> dict[str, Any]:
    kept = {key: value for key, value in group.extension.items() if key not in (EXTERNAL_NAME, ACLS)}
    granted = [dataset.name for dataset in datasets if group.name in dataset.groups]
    return {
        "groupname": group.name,
        "description": group.description,
        "externalName": str(group.extension.get(EXTERNAL_NAME) or ""),
        "extension": {**kept, ACLS: {"admin": False, "virtualClusters": [group.name], "storageConfigs": granted}},
    }

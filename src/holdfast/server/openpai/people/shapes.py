"""Users and groups as OpenPAI's clients see them. A group is also a virtual cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.responses import Response

from holdfast.core.access import Actor
from holdfast.core.records import Dataset, Group, User
from holdfast.server.responses import respond_json

EXTERNAL_NAME_KEY = "externalName"  # in the extension, but not shown as part of it
ACLS_KEY = "acls"  # derived; never stored

_SECRET_FIELDS = ("githubPAT", "boundedClusters", "jobSSH")  # boundedClusters contains tokens for other clusters


def user_to_json(user: User, *, to: Actor, groups: Iterable[str], datasets: Iterable[Dataset]) -> dict[str, Any]:
    """Return a user. `groups` and `datasets`: all that `to` can see."""
    reach = list(groups) if user.admin else list(user.groups)
    return {
        "username": user.name,
        "grouplist": list(user.groups),
        "email": user.email,
        "extension": _filter_extension(user, to),
        "admin": user.admin,
        "virtualCluster": reach,
        "storageConfig": [dataset.name for dataset in datasets if _is_dataset_granted(dataset, user)],
    }


def _is_dataset_granted(dataset: Dataset, user: User) -> bool:
    return user.admin or dataset.everyone or any(group in user.groups for group in dataset.groups)


def _filter_extension(user: User, to: Actor) -> dict[str, Any]:
    """Return everything to the user, everything but known secrets to admins, and public keys to others."""
    if to.name == user.name:
        return dict(user.extension)
    shown = {key: value for key, value in user.extension.items() if to.admin and key not in _SECRET_FIELDS}
    return {**shown, **_pick_public_keys(user.extension)}


def _pick_public_keys(extension: Mapping[str, Any]) -> dict[str, Any]:
    public: dict[str, Any] = {}
    if "sshKeys" in extension:
        public["sshKeys"] = [_pick_keys(key, "title", "value", "time") for key in extension["sshKeys"]]
    if "jobSSH" in extension:
        public["jobSSH"] = _pick_keys(extension["jobSSH"], "pubKey")
    return public


def _pick_keys(value: Any, *keys: str) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value} if isinstance(value, Mapping) else {}


def group_to_json(group: Group, datasets: Iterable[Dataset]) -> dict[str, Any]:
    kept = {key: value for key, value in group.extension.items() if key not in (EXTERNAL_NAME_KEY, ACLS_KEY)}
    granted = [dataset.name for dataset in datasets if group.name in dataset.groups]
    return {
        "groupname": group.name,
        "description": group.description,
        "externalName": str(group.extension.get(EXTERNAL_NAME_KEY) or ""),
        "extension": {**kept, ACLS_KEY: {"admin": False, "virtualClusters": [group.name], "storageConfigs": granted}},
    }


def respond_message(message: str) -> Response:
    return respond_json({"message": message}, 201)

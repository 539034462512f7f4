"""Converts a volume from clients to a dataset. Unsupported features are rejected, not ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.core.catalogue import SecretKind
from holdfast.core.records import Dataset
from holdfast.services.datasets import kinds
from holdfast.services.datasets.service import DatasetChange

from ..errors import PrimeHubError, build_plain_not_found_error
from ..json_object import JsonObject
from ..people.relations import GroupLinkChanges
from .shapes import VOLUME_TYPES, parse_secret_id

VOLUME_KINDS = {type: kind for kind, type in VOLUME_TYPES.items()}
MOUNT_ROOT = "/datasets"
# Fields of each kind; without `variables`, which are stored separately.
KIND_FIELDS = {
    kinds.FOLDER: ("hostPath",),
    kinds.NFS: ("nfsServer", "nfsPath"),
    kinds.VOLUME: ("volumeSize",),
    kinds.GIT: ("url", "secret"),
    kinds.ENV: (),
}


def parse_volume(data: JsonObject, links: GroupLinkChanges) -> Dataset:
    reject_unsupported_fields(data)
    kind = _parse_kind(data.get("type"))
    return Dataset(
        name=data["name"],
        path=_parse_host_path(kind, data),
        display_name=data.get("displayName") or "",
        description=data.get("description") or "",
        kind=kind,
        data=_parse_kind_data(kind, {}, data),
        read_only=not links.everyone_writes,
        everyone=bool(links.everyone),
        groups=tuple(links.connect),
        writable_groups=tuple(group for group, writable in links.connect.items() if writable),
    )


def parse_volume_change(
    volume: Dataset, data: JsonObject, links: GroupLinkChanges, *, nfs_folder: str
) -> DatasetChange:
    """Return the given fields that are not null."""
    reject_unsupported_fields(data)
    given: JsonObject = {name: data[key] for key, name in _TEXT_FIELDS.items() if data.get(key) is not None}
    kind = volume.kind if data.get("type") is None else _parse_kind(data["type"])
    if kind != volume.kind or any(data.get(key) is not None for key in KIND_FIELDS[kind]):
        given |= _parse_location(volume, kind, data, nfs_folder)
    if (variables := parse_variables(data)) is not None:
        given["variables"] = variables
    return DatasetChange(**given, **_parse_everyone_link(volume, links))


def _parse_location(volume: Dataset, kind: str, data: JsonObject, nfs_folder: str) -> JsonObject:
    location = _parse_kind_data(kind, volume.data if kind == volume.kind else {}, data)
    found: JsonObject = {"kind": kind, "data": location}
    if kind == kinds.FOLDER:
        found["path"] = _parse_host_path(kind, {"hostPath": volume.path, **data})
    if kind == kinds.NFS:
        kinds.check_dataset(replace(volume, kind=kind, data=location))
        found["path"] = kinds.build_nfs_path(location, nfs_folder)
    return found


def _parse_everyone_link(volume: Dataset, links: GroupLinkChanges) -> JsonObject:
    """Link the volume to `everyone`, or unlink it together with the write permission of that link."""
    if links.everyone is None:
        return {}
    found: JsonObject = {"everyone": links.everyone}
    if links.everyone_writes is not None:
        found["read_only"] = not links.everyone_writes
    elif volume.everyone and not links.everyone:
        found["read_only"] = True
    return found


def parse_variables(data: JsonObject) -> Mapping[str, str] | None:
    given = data.get("variables")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise PrimeHubError('variables must be an object of names and values, such as {"KEY": "value"}')
    return given


def reject_unsupported_fields(data: JsonObject) -> None:
    if data.get("enableUploadServer"):
        raise build_no_upload_server_error()
    if data.get("pvProvisioning") == "manual":
        raise PrimeHubError(
            "Existing Kubernetes volumes are not supported. "
            "Let Holdfast create one (pvProvisioning: auto), or set a folder with hostPath or nfs."
        )
    if (data.get("mountRoot") or MOUNT_ROOT).rstrip("/") != MOUNT_ROOT:
        raise PrimeHubError(f"Volumes are mounted below {MOUNT_ROOT}. Omit mountRoot.")


def build_no_upload_server_error() -> PrimeHubError:
    return PrimeHubError(
        "Holdfast has no upload server. Copy files to the group's shared files with `primehub files upload`, "
        "or into the folder of the volume."
    )


def _parse_kind(type: str | None) -> str:
    if type not in VOLUME_KINDS:
        raise PrimeHubError(f"type must be one of {', '.join(VOLUME_KINDS)}, not {str(type)[:50]!r}")
    return VOLUME_KINDS[type]


def _parse_host_path(kind: str, data: JsonObject) -> str:
    """Return the path; for other kinds it follows from their fields."""
    if kind != kinds.FOLDER:
        return ""
    if not data.get("hostPath"):
        raise PrimeHubError("A volume of type hostPath requires hostPath")
    return str(data["hostPath"])


def _parse_kind_data(kind: str, before: Mapping[str, Any], given: JsonObject) -> JsonObject:
    """Return the data of a volume; `before` is that of the same kind."""
    after = dict(before)
    for key, name in _DATA_FIELDS.get(kind, {}).items():
        if given.get(key) is not None:
            after[name] = str(given[key])
    relation = given.get("secret") if kind == kinds.GIT else None
    if relation and relation.get("disconnect"):
        after.pop("secret", None)
    if relation and relation.get("connect"):
        after["secret"] = _parse_git_secret(relation["connect"]["id"])
    return after


def _parse_git_secret(id: str) -> str:
    name = parse_secret_id(id, SecretKind.OPAQUE)
    if name is None:
        raise build_plain_not_found_error("Git secret", id)
    return name


_TEXT_FIELDS = {"displayName": "display_name", "description": "description"}
_DATA_FIELDS = {
    kinds.NFS: {"nfsServer": "server", "nfsPath": "path"},
    kinds.VOLUME: {"volumeSize": "size"},
    kinds.GIT: {"url": "url"},
}

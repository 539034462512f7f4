"""What clients send of a volume -> a dataset. What Holdfast does not do as PrimeHub did is refused, not passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holdfast.core.catalogue import SecretKind
from holdfast.core.records import Dataset
from holdfast.services.datasets import kinds
from holdfast.services.datasets.service import DatasetChange

from ..errors import NOT_FOUND, PhError
from ..people.relations import Links
from .shapes import VOLUME_TYPES, read_secret_id

Shape = dict[str, Any]

KINDS = {type: kind for kind, type in VOLUME_TYPES.items()}
MOUNT_ROOT = "/datasets"
# What each kind is told in; `variables` aside, which are kept elsewhere.
TOLD_IN = {
    kinds.FOLDER: ("hostPath",),
    kinds.NFS: ("nfsServer", "nfsPath"),
    kinds.VOLUME: ("volumeSize",),
    kinds.GIT: ("url", "secret"),
    kinds.ENV: (),
}


def read_volume(data: Shape, links: Links) -> Dataset:
    refuse_other_ways(data)
    kind = _kind(data.get("type"))
    return Dataset(
        name=data["name"],
        path=_path(kind, data),
        display_name=data.get("displayName") or "",
        description=data.get("description") or "",
        kind=kind,
        data=_data(kind, {}, data),
        read_only=not links.everyone_writes,
        everyone=bool(links.everyone),
        groups=tuple(links.connect),
        writable_groups=tuple(group for group, writable in links.connect.items() if writable),
    )


def read_change(volume: Dataset, data: Shape, links: Links, *, nfs_folder: str) -> DatasetChange:
    """What is given and not null."""
    refuse_other_ways(data)
    given: Shape = {name: data[key] for key, name in _TEXTS.items() if data.get(key) is not None}
    kind = volume.kind if data.get("type") is None else _kind(data["type"])
    if kind != volume.kind or any(data.get(key) is not None for key in TOLD_IN[kind]):
        given |= _place(volume, kind, data, nfs_folder)
    if (variables := read_variables(data)) is not None:
        given["variables"] = variables
    return DatasetChange(**given, **_for_all(volume, links))


def _place(volume: Dataset, kind: str, data: Shape, nfs_folder: str) -> Shape:
    told = _data(kind, volume.data if kind == volume.kind else {}, data)
    found: Shape = {"kind": kind, "data": told}
    if kind == kinds.FOLDER:
        found["path"] = _path(kind, {"hostPath": volume.path, **data})
    if kind == kinds.NFS:
        kinds.check(replace(volume, kind=kind, data=told))
        found["path"] = kinds.nfs_path(told, nfs_folder)
    return found


def _for_all(volume: Dataset, links: Links) -> Shape:
    """The link to `everyone`; with it goes the right to write that came with it."""
    if links.everyone is None:
        return {}
    found: Shape = {"everyone": links.everyone}
    if links.everyone_writes is not None:
        found["read_only"] = not links.everyone_writes
    elif volume.everyone and not links.everyone:
        found["read_only"] = True
    return found


def read_variables(data: Shape) -> Mapping[str, str] | None:
    given = data.get("variables")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise PhError('variables are names and values, such as {"KEY": "value"}')
    return given


def refuse_other_ways(data: Shape) -> None:
    if data.get("enableUploadServer"):
        raise no_upload_server()
    if data.get("pvProvisioning") == "manual":
        raise PhError(
            "Volumes that somebody made in Kubernetes cannot be found from here. "
            "Let Holdfast make one (pvProvisioning: auto), or name a folder with hostPath or nfs."
        )
    if (data.get("mountRoot") or MOUNT_ROOT).rstrip("/") != MOUNT_ROOT:
        raise PhError(f"Jobs find volumes below {MOUNT_ROOT}. Leave out mountRoot.")


def no_upload_server() -> PhError:
    return PhError(
        "Holdfast has no upload server. Put files into the group's shared files with `primehub files upload`, "
        "or into the folder of the volume."
    )


def _kind(type: str | None) -> str:
    if type not in KINDS:
        raise PhError(f"type is {', '.join(KINDS)}, not {str(type)[:50]!r}")
    return KINDS[type]


def _path(kind: str, data: Shape) -> str:
    """Of other kinds it follows from what is told of them."""
    if kind != kinds.FOLDER:
        return ""
    if not data.get("hostPath"):
        raise PhError("A volume of the type hostPath needs its hostPath")
    return str(data["hostPath"])


def _data(kind: str, before: Mapping[str, Any], given: Shape) -> Shape:
    """`before`: of the same kind."""
    after = dict(before)
    for key, name in _DATA.get(kind, {}).items():
        if given.get(key) is not None:
            after[name] = str(given[key])
    relation = given.get("secret") if kind == kinds.GIT else None
    if relation and relation.get("disconnect"):
        after.pop("secret", None)
    if relation and relation.get("connect"):
        after["secret"] = _secret(relation["connect"]["id"])
    return after


def _secret(id: str) -> str:
    name = read_secret_id(id, SecretKind.OPAQUE)
    if name is None:
        raise PhError(f"There is no secret {id[:100]} for git", NOT_FOUND)
    return name


_TEXTS = {"displayName": "display_name", "description": "description"}
_DATA = {
    kinds.NFS: {"nfsServer": "server", "nfsPath": "path"},
    kinds.VOLUME: {"volumeSize": "size"},
    kinds.GIT: {"url": "url"},
}

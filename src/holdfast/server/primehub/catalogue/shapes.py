"""Images, volumes and secrets as PrimeHub shows them; `sizes` has instance types. Their ids are their names, but for
secrets, whose ids begin with what they are for."""

from __future__ import annotations

from typing import Any

from holdfast.core.catalogue import ImageAlias, ImageKind, Secret, SecretKind
from holdfast.core.records import Dataset

Shape = dict[str, Any]

VOLUME_TYPES = {"folder": "hostPath", "nfs": "nfs", "volume": "pv", "git": "git", "env": "env"}
SECRET_PREFIXES = {SecretKind.OPAQUE: "gitsync-secret-", SecretKind.REGISTRY: "image-"}
SECRET_TYPES = {SecretKind.OPAQUE: "opaque", SecretKind.REGISTRY: "kubernetes"}


def show_image(image: ImageAlias) -> Shape:
    pull_secret = None if image.pull_secret is None else SECRET_PREFIXES[SecretKind.REGISTRY] + image.pull_secret
    gpu_url = (image.gpu_url or image.url) if image.kind is ImageKind.BOTH else image.url
    spec = {
        "displayName": image.display_name or image.name,
        "description": image.description,
        "type": image.kind.value,
        "url": image.url,
        "urlForGpu": gpu_url,
        "groupName": image.owner,
    }
    return {
        **spec,
        "id": image.name,
        "name": image.name,
        "useImagePullSecret": pull_secret,
        "global": image.everyone,
        "isReady": bool(image.url),
        "spec": {**spec, "pullSecret": pull_secret},
        "_groups": image.groups,
    }


def show_volume(volume: Dataset, *, group: str | None = None, paths: bool = True) -> Shape:
    """`group`: the one it is listed in, whose jobs may or may not write it. `paths`: say where it lies here."""
    data = volume.data
    type = VOLUME_TYPES.get(volume.kind, volume.kind)
    secret = data.get("secret")
    return {
        "id": volume.name,
        "name": volume.name,
        "displayName": volume.display_name or volume.name,
        "description": volume.description,
        "type": type,
        "url": data.get("url"),
        "pvProvisioning": "auto" if type == "pv" else None,
        "volumeSize": _whole(data.get("size")),
        "nfsServer": data.get("server"),
        "nfsPath": data.get("path") if type == "nfs" else None,
        "hostPath": volume.path if paths and type == "hostPath" else None,
        "secret": {"id": SECRET_PREFIXES[SecretKind.OPAQUE] + secret} if secret else None,
        "enableUploadServer": False,
        "global": volume.everyone,
        "writable": not volume.read_only or group in volume.writable_groups,
        "_groups": volume.groups,
        "_volume": volume,
    }


def _whole(size: str | None) -> int | None:
    """None: more than GraphQL can say."""
    return int(size) if size and len(size) < 10 else None


def read_secret_id(id: str, kind: SecretKind) -> str | None:
    """The name in an id; None: it is not that of a secret of this kind."""
    prefix = SECRET_PREFIXES[kind]
    return id.removeprefix(prefix) if id.startswith(prefix) else None


def show_secret(secret: Secret) -> Shape:
    return {
        "id": SECRET_PREFIXES[secret.kind] + secret.name,
        "name": secret.name,
        "displayName": secret.display_name or secret.name,
        "type": SECRET_TYPES[secret.kind],
        "registryHost": secret.registry_host or None,
        "username": secret.username or None,
    }

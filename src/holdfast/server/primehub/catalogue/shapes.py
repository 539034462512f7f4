"""Images, volumes and secrets in PrimeHub's shapes; instance types are in `instance_type_shapes`. Their IDs are their
names, except that the IDs of secrets have a prefix for their purpose."""

from __future__ import annotations

from holdfast.core.catalogue import ImageAlias, ImageKind, Secret, SecretKind
from holdfast.core.records import Dataset

from ..json_object import JsonObject

VOLUME_TYPES = {"folder": "hostPath", "nfs": "nfs", "volume": "pv", "git": "git", "env": "env"}
SECRET_PREFIXES = {SecretKind.OPAQUE: "gitsync-secret-", SecretKind.REGISTRY: "image-"}
SECRET_TYPES = {SecretKind.OPAQUE: "opaque", SecretKind.REGISTRY: "kubernetes"}


def image_to_json(image: ImageAlias) -> JsonObject:
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


def volume_to_json(volume: Dataset, *, group: str | None = None, paths: bool = True) -> JsonObject:
    """Return a volume. `group`: the group it is listed in, for its write permission. `paths`: include its path."""
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
        "volumeSize": _to_graphql_int(data.get("size")),
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


def _to_graphql_int(size: str | None) -> int | None:
    """Return a size as an integer; None if it is too large for GraphQL."""
    return int(size) if size and len(size) < 10 else None


def parse_secret_id(id: str, kind: SecretKind) -> str | None:
    """Return the name in an ID; None if it is not that of a secret of this kind."""
    prefix = SECRET_PREFIXES[kind]
    return id.removeprefix(prefix) if id.startswith(prefix) else None


def secret_to_json(secret: Secret) -> JsonObject:
    return {
        "id": SECRET_PREFIXES[secret.kind] + secret.name,
        "name": secret.name,
        "displayName": secret.display_name or secret.name,
        "type": SECRET_TYPES[secret.kind],
        "registryHost": secret.registry_host or None,
        "username": secret.username or None,
    }

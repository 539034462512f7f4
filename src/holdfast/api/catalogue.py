"""What jobs name: instance types, image aliases, images; and secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NotRequired, TypedDict

from holdfast.core.catalogue import ImageKind, SecretKind

from .limits import MAX_BYTES, MAX_COUNT, DisplayName, GroupNames, Limits, LongText, Name, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A named size of task."""

    name: str
    display_name: Annotated[str, "Empty: the name."] = ""
    description: str = ""
    cpu: Annotated[float, "Cores."] = 1.0
    memory: Annotated[int, "Bytes."] = 0
    gpu: int = 0
    cpu_request: Annotated[float | None, "Cores that must be free on a machine; null: all of them."] = None
    memory_request: Annotated[int | None, "Bytes that must be free on a machine; null: all of them."] = None
    gpu_resource: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    everyone: Annotated[bool, "For all users; else for its groups."] = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAlias:
    """A name for an image, or for two: one for tasks with GPUs and one for the others."""

    name: str
    display_name: Annotated[str, "Empty: the name."] = ""
    description: str = ""
    kind: Annotated[str, ImageKind] = "both"
    url: str = ""
    gpu_url: Annotated[str, "Empty: the same."] = ""
    pull_secret: str | None = None
    owner: Annotated[str | None, "The group whose admins manage it."] = None
    everyone: Annotated[bool, "For all users; else for its groups."] = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    size: int | None = None
    created_at: datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret without its value, which is never shown."""

    name: str
    display_name: str = ""
    kind: Annotated[str, "opaque: for git; registry: to pull images."] = "opaque"
    registry_host: str = ""
    username: str = ""


_NewName = Annotated[Name, "Small letters, digits, dashes and dots."]
_Toleration = Mapping[Annotated[str, Limits(max_length=64)], Annotated[str, Limits(max_length=253)] | None]
_Label = Annotated[str, Limits(max_length=63)]
_Address = Annotated[str, Limits(max_length=512)]
_Host = Annotated[str, Limits(max_length=300)]


class InstanceTypeFields(TypedDict, total=False):
    display_name: DisplayName | None
    description: Text | None
    cpu: Annotated[float | None, "Cores. Default: 1.", Limits(gt=0, le=MAX_COUNT)]
    gpu: Annotated[int | None, Limits(ge=0, le=MAX_COUNT)]
    cpu_request: Annotated[float | None, "Cores that must be free; null: all of them.", Limits(gt=0, le=MAX_COUNT)]
    memory_request: Annotated[int | None, "Bytes that must be free; null: all of them.", Limits(gt=0, le=MAX_BYTES)]
    gpu_resource: Annotated[str | None, "Default: nvidia.com/gpu.", Limits(max_length=100)]
    tolerations: Annotated[Sequence[_Toleration] | None, "operator, key, value, effect.", Limits(max_length=100)]
    node_selector: Annotated[Mapping[_Label, _Label] | None, Limits(max_length=100)]
    everyone: Annotated[bool | None, "For all users. Default: unless groups are named."]
    groups: Annotated[GroupNames | None, "These and no others."]


class NewInstanceType(InstanceTypeFields):
    name: _NewName
    memory: Annotated[int, "Bytes.", Limits(gt=0, le=MAX_BYTES)]


class InstanceTypeChange(InstanceTypeFields, total=False):
    memory: Annotated[int | None, "Bytes.", Limits(gt=0, le=MAX_BYTES)]


class ImageAliasFields(TypedDict, total=False):
    display_name: DisplayName | None
    description: Text | None
    kind: Annotated[str | None, ImageKind, "Default: both."]
    gpu_url: Annotated[_Address | None, "Another image for tasks with GPUs."]
    pull_secret: Annotated[Name | None, "Name of a secret of the kind registry; null: none."]
    everyone: Annotated[bool | None, "For all users. Default: unless groups or an owner are named."]
    groups: Annotated[GroupNames | None, "These and no others."]


class NewImageAliasFields(ImageAliasFields, total=False):
    owner: Annotated[Name | None, "The group whose admins manage it."]


class NewImageAlias(NewImageAliasFields):
    name: _NewName
    url: Annotated[_Address, "The image it stands for, as `GET /images` names it."]


class ImageAliasChange(ImageAliasFields, total=False):
    url: _Address | None


class SecretFields(TypedDict, total=False):
    display_name: Text | None
    registry_host: Annotated[_Host | None, "Of the kind registry, such as ghcr.io."]
    username: _Host | None


class NewSecretFields(SecretFields, total=False):
    kind: Annotated[str | None, SecretKind, "For git, or to pull images. Default: opaque."]


class NewSecret(NewSecretFields):
    name: Name
    value: Annotated[LongText, "A private SSH key or a password. It is never shown again."]


class SecretChange(SecretFields):
    value: NotRequired[LongText | None]

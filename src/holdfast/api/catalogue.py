"""Instance types, image aliases, images and secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NotRequired, TypedDict

from holdfast.core.catalogue import ImageKind, SecretKind

from .limits import MAX_BYTES, MAX_COUNT, DisplayName, GroupNames, Limits, LongText, Name, SlurmOptions, Text

SLURM_DESCRIPTION = "Options for Slurm: partition, account, qos, constraint, reservation, gres."


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A named resource size of a task."""

    name: str
    display_name: Annotated[str, "Empty: same as the name."] = ""
    description: str = ""
    cpu: Annotated[float, "Cores."] = 1.0
    memory: Annotated[int, "Bytes."] = 0
    gpu: int = 0
    cpu_request: Annotated[float | None, "Requested cores; null: same as the limit."] = None
    memory_request: Annotated[int | None, "Requested bytes; null: same as the limit."] = None
    gpu_resource: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    slurm: Annotated[Mapping[str, str], SLURM_DESCRIPTION] = field(default_factory=dict)
    everyone: Annotated[bool, "Available to all users, else to its groups."] = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAlias:
    """A name for an image, optionally with another image for tasks with GPUs."""

    name: str
    display_name: Annotated[str, "Empty: same as the name."] = ""
    description: str = ""
    kind: Annotated[str, ImageKind] = "both"
    url: str = ""
    gpu_url: Annotated[str, "Image for tasks with GPUs; empty: same as url."] = ""
    pull_secret: str | None = None
    owner: Annotated[str | None, "The group whose admins manage it."] = None
    everyone: Annotated[bool, "Available to all users, else to its groups."] = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    size: int | None = None
    created_at: datetime | None = None
    source: str = ""
    engine: Annotated[str, "Whose image it is, if there are several engines."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePull:
    """The status of a pull."""

    name: str
    phase: Annotated[str, "resolving, downloading or unpacking."]
    done: Annotated[int, "Bytes of its layers that were downloaded."] = 0
    total: Annotated[int, "Bytes of the layers that were missing; 0: unknown."] = 0
    image: Annotated[Image | None, "The image, once it is there."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret without its value, which is never shown."""

    name: str
    display_name: str = ""
    kind: Annotated[str, "opaque: for Git; registry: to pull images."] = "opaque"
    registry_host: str = ""
    username: str = ""


_NewName = Annotated[Name, "Lower-case letters, digits, dashes and dots."]
_Toleration = Mapping[Annotated[str, Limits(max_length=64)], Annotated[str, Limits(max_length=253)] | None]
_Label = Annotated[str, Limits(max_length=63)]
_Address = Annotated[str, Limits(max_length=512)]
_ShortText = Annotated[str, Limits(max_length=300)]


class InstanceTypeFields(TypedDict, total=False):
    display_name: DisplayName | None
    description: Text | None
    cpu: Annotated[float | None, "Cores. Default: 1.", Limits(gt=0, le=MAX_COUNT)]
    gpu: Annotated[int | None, Limits(ge=0, le=MAX_COUNT)]
    cpu_request: Annotated[float | None, "Requested cores; null: same as the limit.", Limits(gt=0, le=MAX_COUNT)]
    memory_request: Annotated[int | None, "Requested bytes; null: same as the limit.", Limits(gt=0, le=MAX_BYTES)]
    gpu_resource: Annotated[str | None, "Default: nvidia.com/gpu.", Limits(max_length=100)]
    tolerations: Annotated[Sequence[_Toleration] | None, "operator, key, value, effect.", Limits(max_length=100)]
    node_selector: Annotated[Mapping[_Label, _Label] | None, Limits(max_length=100)]
    slurm: Annotated[SlurmOptions | None, f"{SLURM_DESCRIPTION} Replaced as a whole."]
    everyone: Annotated[bool | None, "Available to all users. Default: true if no groups are given."]
    groups: Annotated[GroupNames | None, "Groups that can use it; replaces the list."]


class NewInstanceType(InstanceTypeFields):
    name: _NewName
    memory: Annotated[int, "Bytes.", Limits(gt=0, le=MAX_BYTES)]


class InstanceTypeChange(InstanceTypeFields, total=False):
    memory: Annotated[int | None, "Bytes.", Limits(gt=0, le=MAX_BYTES)]


class ImageAliasFields(TypedDict, total=False):
    display_name: DisplayName | None
    description: Text | None
    kind: Annotated[str | None, ImageKind, "Default: both."]
    gpu_url: Annotated[_Address | None, "Image for tasks with GPUs."]
    pull_secret: Annotated[Name | None, "Secret of the kind registry; null: none."]
    everyone: Annotated[bool | None, "Available to all users. Default: true if neither groups nor an owner are given."]
    groups: Annotated[GroupNames | None, "Groups that can use it; replaces the list."]


class NewImageAliasFields(ImageAliasFields, total=False):
    owner: Annotated[Name | None, "The group whose admins manage it."]


class NewImageAlias(NewImageAliasFields):
    name: _NewName
    url: Annotated[_Address, "Image of the alias, as in `GET /images`."]


class ImageAliasChange(ImageAliasFields, total=False):
    url: _Address | None


class SecretFields(TypedDict, total=False):
    display_name: Text | None
    registry_host: Annotated[_ShortText | None, "Registry host, such as ghcr.io; only of the kind registry."]
    username: _ShortText | None


class NewSecretFields(SecretFields, total=False):
    kind: Annotated[str | None, SecretKind, "opaque: for Git; registry: to pull images. Default: opaque."]


class NewSecret(NewSecretFields):
    name: Name
    value: Annotated[LongText, "Private SSH key or password; never returned."]


class SecretChange(SecretFields):
    value: NotRequired[LongText | None]

"""What the API takes and gives of what jobs choose from: sizes and image aliases."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .models import MOST, MOST_BYTES, Taken

_GroupName = Annotated[str, Field(max_length=200)]
_GroupNames = Annotated[list[_GroupName], Field(max_length=1000)]
_Address = Annotated[str, Field(max_length=512)]
_Toleration = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=253)] | None]
_Tolerations = Annotated[list[_Toleration], Field(max_length=100)]
_Labels = Annotated[
    dict[Annotated[str, Field(max_length=63)], Annotated[str, Field(max_length=63)]], Field(max_length=100)
]
ImageKindName = Literal["cpu", "gpu", "both"]


class NewInstanceType(Taken):
    name: str = Field(max_length=200, description="Small letters, digits, dashes and dots.")
    display_name: str = Field("", max_length=255)
    description: str = Field("", max_length=4096)
    cpu: float = Field(1.0, gt=0, le=MOST, description="Cores.")
    memory: int = Field(gt=0, le=MOST_BYTES, description="Bytes.")
    gpu: int = Field(0, ge=0, le=MOST)
    cpu_request: float | None = Field(None, gt=0, le=MOST, description="Cores that must be free; null: all of them.")
    memory_request: int | None = Field(None, gt=0, le=MOST_BYTES, description="Bytes that must be free; null: all.")
    gpu_resource: str = Field("nvidia.com/gpu", max_length=100)
    tolerations: _Tolerations = Field(default_factory=list, description="operator, key, value, effect.")
    node_selector: _Labels = Field(default_factory=dict)
    everyone: bool | None = Field(None, description="For all users. Left out: unless groups are named.")
    groups: _GroupNames = Field(default_factory=list)


class InstanceTypeChange(Taken):
    display_name: str | None = Field(None, max_length=255)
    description: str | None = Field(None, max_length=4096)
    cpu: float | None = Field(None, gt=0, le=MOST)
    memory: int | None = Field(None, gt=0, le=MOST_BYTES)
    gpu: int | None = Field(None, ge=0, le=MOST)
    cpu_request: float | None = Field(None, gt=0, le=MOST, description="null: as much as the limit.")
    memory_request: int | None = Field(None, gt=0, le=MOST_BYTES, description="null: as much as the limit.")
    gpu_resource: str | None = Field(None, max_length=100)
    tolerations: _Tolerations | None = None
    node_selector: _Labels | None = None
    everyone: bool | None = None
    groups: _GroupNames | None = Field(None, description="These and no others.")


class NewImageAlias(Taken):
    name: str = Field(max_length=200, description="Small letters, digits, dashes and dots.")
    display_name: str = Field("", max_length=255)
    description: str = Field("", max_length=4096)
    kind: ImageKindName = "both"
    url: _Address = Field(description="The image it stands for, as `GET /images` names it.")
    gpu_url: _Address = Field("", description="Another one for tasks with GPUs.")
    pull_secret: str | None = Field(None, max_length=200, description="Name of a secret of the kind registry.")
    owner: str | None = Field(None, max_length=200, description="The group whose admins look after it.")
    everyone: bool | None = Field(None, description="For all users. Left out: unless groups or an owner are named.")
    groups: _GroupNames = Field(default_factory=list)


class ImageAliasChange(Taken):
    display_name: str | None = Field(None, max_length=255)
    description: str | None = Field(None, max_length=4096)
    kind: ImageKindName | None = None
    url: _Address | None = None
    gpu_url: _Address | None = None
    pull_secret: str | None = Field(None, max_length=200, description="null: none.")
    everyone: bool | None = None
    groups: _GroupNames | None = Field(None, description="These and no others.")

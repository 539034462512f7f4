"""Objects that admins define for jobs: instance types, images, secrets. Plain data, as stores return it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .job import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A named size of a task. Limits count against quotas; requests are what a node must have free."""

    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    cpu: float = 1.0  # cores
    memory: int  # bytes
    gpu: int = 0
    cpu_request: float | None = None  # None: the limit. A lower value allows overcommitting cores
    memory_request: int | None = None
    gpu_resource: str = "nvidia.com/gpu"
    tolerations: tuple[Mapping[str, Any], ...] = ()  # operator, key, value, effect; for engines that know them
    node_selector: Mapping[str, str] = field(default_factory=dict)
    slurm: Mapping[str, str] = field(default_factory=dict)  # options for Slurm; gres of one task, or of one SKU
    everyone: bool = True  # else only the groups below
    groups: tuple[str, ...] = ()
    brought: bool = False  # built in, and never changed

    @property
    def resources(self) -> Resources:
        """The resource request of a task of this type."""
        return Resources(
            cpu=self.cpu,
            memory=self.memory,
            gpu=self.gpu,
            cpu_request=None if self.cpu_request == self.cpu else self.cpu_request,
            memory_request=None if self.memory_request == self.memory else self.memory_request,
        )


class ImageKind(StrEnum):
    CPU = "cpu"
    GPU = "gpu"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAlias:
    """A name for an image, or for two: one for tasks with GPUs and one for the others."""

    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    kind: ImageKind = ImageKind.BOTH
    url: str  # the image name that the engine uses
    gpu_url: str = ""  # empty: the same
    pull_secret: str | None = None  # name of a secret of the kind registry
    owner: str | None = None  # the group whose admins manage it; None: the platform's admins
    everyone: bool = False  # else only the groups below
    groups: tuple[str, ...] = ()

    def choose_image(self, gpus: int) -> str:
        return (self.gpu_url or self.url) if gpus else self.url


class SecretKind(StrEnum):
    OPAQUE = "opaque"  # for git: a private SSH key, or a password
    REGISTRY = "registry"  # to pull images: host, user name, password


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret without its value, which is stored encrypted."""

    name: str
    display_name: str = ""
    kind: SecretKind = SecretKind.OPAQUE
    registry_host: str = ""
    username: str = ""

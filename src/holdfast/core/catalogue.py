"""What admins put up for jobs to choose from by name: sizes, images, secrets. Plain data, as stores return it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .job import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A named size of task. Limits count against quotas; requests are what a machine must have free."""

    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    cpu: float = 1.0  # cores
    memory: int  # bytes
    gpu: int = 0
    cpu_request: float | None = None  # None: the limit. Less than it lets a machine take more tasks than it has cores
    memory_request: int | None = None
    gpu_resource: str = "nvidia.com/gpu"
    tolerations: tuple[Mapping[str, Any], ...] = ()  # operator, key, value, effect; for engines that know them
    node_selector: Mapping[str, str] = field(default_factory=dict)
    everyone: bool = True  # else only the groups below
    groups: tuple[str, ...] = ()
    brought: bool = False  # came with Holdfast, and was never changed

    @property
    def resources(self) -> Resources:
        """What a task of this size asks for."""
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
    """A name that stands for an image, or for two: one for tasks with GPUs and one for the others."""

    name: str
    display_name: str = ""  # empty: the name
    description: str = ""
    kind: ImageKind = ImageKind.BOTH
    url: str  # the image as the engine knows it
    gpu_url: str = ""  # empty: the same
    pull_secret: str | None = None  # name of a secret of the kind registry
    owner: str | None = None  # the group whose admins look after it; None: the platform's admins
    everyone: bool = False  # else only the groups below
    groups: tuple[str, ...] = ()

    def for_gpus(self, gpus: int) -> str:
        return (self.gpu_url or self.url) if gpus else self.url


class SecretKind(StrEnum):
    OPAQUE = "opaque"  # for git: a private SSH key, or a password
    REGISTRY = "registry"  # to pull images: host, user name, password


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Without its value, which is kept encrypted and handed to what needs it alone."""

    name: str
    display_name: str = ""
    kind: SecretKind = SecretKind.OPAQUE
    registry_host: str = ""
    username: str = ""

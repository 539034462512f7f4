"""What jobs name: instance types, image aliases, images; and secrets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

ImageKindName = Literal["cpu", "gpu", "both"]


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
    kind: ImageKindName = "both"
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

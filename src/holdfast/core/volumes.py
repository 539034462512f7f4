"""What a task can mount, by where the data is. A mount names a volume; the engine finds it, or refuses it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias


class VolumeKind(StrEnum):
    FOLDER = "folder"
    SHARED = "shared"
    NFS = "nfs"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class HostFolder:
    """A folder, or a file, of the machine."""

    folder: str

    kind: ClassVar = VolumeKind.FOLDER

    @property
    def address(self) -> str:
        return self.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFolder:
    """A folder of this installation that all its nodes share: files and volumes of groups, managed datasets."""

    folder: str  # on the server's machine
    path: str  # relative to the folder of shared files (files.folder)

    kind: ClassVar = VolumeKind.SHARED

    @property
    def address(self) -> str:
        return self.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsExport:
    """A folder of an NFS server."""

    server: str
    path: str
    folder: str = ""  # where the server's machine has it mounted; empty: nowhere

    kind: ClassVar = VolumeKind.NFS

    @property
    def address(self) -> str:
        return self.folder or f"{self.server}:{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """A volume that the engine knows by name, such as a PersistentVolumeClaim of Kubernetes."""

    name: str
    path: str = ""  # relative to its root

    kind: ClassVar = VolumeKind.CLAIM
    folder: ClassVar[str] = ""

    @property
    def address(self) -> str:
        return self.name


# Each has `folder`, its path on the server's machine, empty if it is not there; and `address`, which is shown to users.
Volume: TypeAlias = HostFolder | SharedFolder | NfsExport | VolumeClaim

LOCAL_KINDS = frozenset({VolumeKind.FOLDER, VolumeKind.SHARED})  # what an engine on the server's machine mounts

_CLASSES: Mapping[str, type[Volume]] = {each.kind: each for each in (HostFolder, SharedFolder, NfsExport, VolumeClaim)}


def is_mountable(volume: Volume, kinds: Collection[VolumeKind]) -> bool:
    """Return whether an engine that mounts these kinds can mount the volume. One that mounts folders of the machine
    mounts every volume that has a folder there."""
    return volume.kind in kinds or bool(volume.folder and VolumeKind.FOLDER in kinds)


def volume_to_json(volume: Volume) -> dict[str, Any]:
    return {"kind": volume.kind.value, **asdict(volume)}


def volume_from_json(data: Mapping[str, Any]) -> Volume:
    return _CLASSES[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})

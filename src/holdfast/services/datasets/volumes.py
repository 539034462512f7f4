"""The volume that a dataset stands for, and why an engine cannot mount a volume."""

from __future__ import annotations

import posixpath
from pathlib import Path

from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.core.volumes import HostFolder, NfsExport, Volume, VolumeKind
from holdfast.engines.base import EngineHealth
from holdfast.shared_folders import SharedFolders

from ..names import check_user_name
from .kinds import GIT, NFS, VOLUME

_OTHER_DATASET_HINT = msg("Ask an admin for a dataset that this engine can mount.")


def build_dataset_volume(dataset: Dataset, user: str, folders: SharedFolders) -> Volume:
    """Return the volume with the dataset's files; of a per-user dataset, the user's folder in it."""
    folder = _join_user(dataset, dataset.path, user) if dataset.path else ""
    if dataset.kind == NFS:
        path = _join_user(dataset, posixpath.join("/", dataset.data["path"]), user)
        return NfsExport(server=dataset.data["server"], path=path, folder=folder)
    return folders.make_volume(Path(folder)) if dataset.kind in (VOLUME, GIT) else HostFolder(folder)


def _join_user(dataset: Dataset, path: str, user: str) -> str:
    if not dataset.per_user:
        return path
    check_user_name(user, "user")  # it becomes part of a path
    return f"{path.rstrip('/')}/{user}"


def explain_unmountable(volume: Volume, health: EngineHealth) -> tuple[str, str]:
    """Return why the engine cannot mount the volume, and what to do."""
    engine = health.name
    if volume.kind is VolumeKind.NFS:
        return (
            msg("the engine {engine} cannot mount an NFS export that is not mounted on this server", engine=engine),
            msg("Ask an admin to mount it on this server, and to set the path of the dataset."),
        )
    if volume.kind is VolumeKind.CLAIM:
        text = msg("the engine {engine} cannot mount the volume claim {name}", engine=engine, name=volume.address)
        return text, _OTHER_DATASET_HINT
    if volume.kind is VolumeKind.SHARED:
        return msg("the engine {engine} cannot mount shared files of this server", engine=engine), _OTHER_DATASET_HINT
    return msg("the engine {engine} cannot mount folders of this server", engine=engine), _OTHER_DATASET_HINT

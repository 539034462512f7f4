"""Mount points of groups' volumes and files in tasks."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.identity import format_group_path
from holdfast.core.job import SHARED_FILES_PATH, Mount
from holdfast.core.volumes import SharedFolder
from holdfast.engines.base import LaunchSpec

VOLUMES_FOLDER = "/project"


def get_volume_path(group: str) -> str:
    return f"{VOLUMES_FOLDER}/{format_group_path(group)}"


def add_volume(launch: LaunchSpec, volume: SharedFolder) -> LaunchSpec:
    """Return the launch with its group's volume; the job's own mount at that target wins."""
    return _add_mount(launch, Mount(volume=volume, target=get_volume_path(launch.group), read_only=False))


def add_shared_files(launch: LaunchSpec, volume: SharedFolder, *, isolated: bool) -> LaunchSpec:
    """A variable contains the path: without isolation it is another one."""
    launch = replace(launch, env={"HOLDFAST_FILES": SHARED_FILES_PATH if isolated else volume.folder, **launch.env})
    return _add_mount(launch, Mount(volume=volume, target=SHARED_FILES_PATH, read_only=False)) if isolated else launch


def _add_mount(launch: LaunchSpec, mount: Mount) -> LaunchSpec:
    return launch if _is_target_used(mount.target, launch.mounts) else replace(launch, mounts=(*launch.mounts, mount))


def _is_target_used(target: str, mounts: Sequence[Mount]) -> bool:
    ours = f"{target}/"
    others = [f"/{posixpath.normpath(mount.target).strip('/')}/" for mount in mounts]
    return any(ours.startswith(other) or other.startswith(ours) for other in others)

"""Mounts of a job in a simulation: real folders if they are readable, empty stand-ins otherwise."""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.core.job import SHARED_FILES_PATH, Job, JobFormat, Mount, Role
from holdfast.core.scheduling.placement import Node
from holdfast.core.volumes import HostFolder, SharedFolder
from holdfast.launching import GatewayAddress, LaunchContext, PrimeHubContext, PrimeHubSettings
from holdfast.launching.volumes import get_volume_path

from .report import Remarks, RemarkTopic

_NO_GATEWAY_MESSAGE = "A simulation has no SSH gateway."


@dataclass(slots=True)
class StandIns:
    """Empty folders that replace missing ones; `targets`: their paths in tasks."""

    folder: Path
    targets: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)  # targets whose content only a server knows
    write_protected: set[str] = field(default_factory=set)  # targets of real folders that only the real run writes to
    _paths_by_name: dict[str, str] = field(default_factory=dict)

    def add_folder(self, name: str, target: str, *, unknown: bool = True) -> str:
        self.targets.add(posixpath.normpath(target))
        if unknown:
            self.unknown.add(posixpath.normpath(target))
        if name not in self._paths_by_name:
            path = self.folder / str(len(self._paths_by_name))
            path.mkdir(parents=True)
            self._paths_by_name[name] = str(path)
        return self._paths_by_name[name]

    def is_real(self, mount: Mount) -> bool:
        return not Path(mount.volume.folder).is_relative_to(self.folder)

    def contains(self, path: str) -> bool:
        """Whether the path is in a stand-in, so that its real content is unknown."""
        clean = posixpath.normpath(path)
        return any(clean == target or clean.startswith(f"{target}/") for target in self.targets)


def provide_stand_ins(
    job: Job, stand_ins: StandIns, remarks: Remarks, chosen: Collection[str], *, write_mounts: bool
) -> Job:
    """Replace mounts that do not exist on this machine, and mount the others read-only unless `write_mounts`. Only
    `chosen` roles get remarks."""
    if not write_mounts:
        job = replace(job, roles=tuple(_protect_mounts(role, stand_ins, remarks, chosen) for role in job.roles))
    roles = (_provide_role_stand_ins(job, role, stand_ins, remarks.for_role(role.name, chosen)) for role in job.roles)
    return replace(job, roles=tuple(roles))


def _protect_mounts(role: Role, stand_ins: StandIns, remarks: Remarks, chosen: Collection[str]) -> Role:
    """Mount the real folders of this machine read-only: the commands are not trusted yet."""
    mounts = []
    for mount in role.mounts:
        if not mount.read_only and not mount.dataset and _is_readable(mount.volume.folder):
            stand_ins.write_protected.add(posixpath.normpath(mount.target))
            text = f"{mount.source}, mounted at {mount.target}, is read-only in the simulation"
            hint = "To let the job change the real folder, use --write-mounts."
            remarks.for_role(role.name, chosen).add_note(RemarkTopic.MOUNT, text, hint)
            mount = replace(mount, read_only=True)
        mounts.append(mount)
    return replace(role, mounts=tuple(mounts))


def _provide_role_stand_ins(job: Job, role: Role, stand_ins: StandIns, remarks: Remarks) -> Role:
    mounts = [_replace_mount(mount, role, stand_ins, remarks) for mount in role.mounts]
    have = {mount.dataset for mount in mounts if mount.dataset}
    for name, target in _iter_wanted_datasets(job):
        if name not in have:
            where = f" at {target}" if target else ""
            remarks.add_note(
                RemarkTopic.DATASET, f"The dataset {name} is an empty folder{where}: only the server has its content"
            )
            folder = HostFolder(stand_ins.add_folder(f"dataset {name}", target))
            mounts.append(Mount(volume=folder, target=target, dataset=name))
    return replace(role, mounts=tuple(mounts))


def _replace_mount(mount: Mount, role: Role, stand_ins: StandIns, remarks: Remarks) -> Mount:
    if mount.dataset and (not mount.read_only or not _is_readable(mount.volume.folder)):
        why = "its files are not readable" if mount.read_only else "the simulation does not write to datasets"
        text = f"The dataset {mount.dataset} is an empty folder at {mount.target}: {why}"
        remarks.add_note(RemarkTopic.DATASET, text, role=role.name)
    elif _is_readable(mount.volume.folder):
        if not mount.read_only:
            remarks.add_note(RemarkTopic.MOUNT, f"Writes to {mount.target} change the real folder {mount.source}")
        return mount
    else:
        why = "is not readable" if Path(mount.source).exists() else "does not exist on this machine"
        hint = "Create it, or correct the path. The simulation uses an empty folder instead."
        remarks.add_warning(RemarkTopic.MOUNT, f"{mount.source}, mounted at {mount.target}, {why}", hint, role.name)
    folder = stand_ins.add_folder(mount.source, mount.target, unknown=mount.dataset is not None)
    return replace(mount, volume=HostFolder(folder))


def _is_readable(path: str) -> bool:
    return path.startswith("/") and os.access(path, os.R_OK)


def _iter_wanted_datasets(job: Job) -> Iterator[tuple[str, str]]:
    """Return (dataset, target path)."""
    for name in job.datasets:
        yield name, f"/datasets/{name}"
    ours: Mapping[str, Any] = job.extras.get("openpai", {}) if job.dialect.is_openpai else {}
    for storage in ours.get("storages") or ():
        if isinstance(storage, Mapping) and storage.get("name"):
            yield str(storage["name"]), str(storage.get("mountPath") or f"/mnt/{storage['name']}")


def build_launch_context(
    job: Job, node: Node, *, isolated: bool, stand_ins: StandIns, platform: PrimeHubSettings, remarks: Remarks
) -> LaunchContext:
    theirs = job.dialect is JobFormat.PRIMEHUB
    volume = files = None
    if theirs or job.files:
        files = SharedFolder(folder=stand_ins.add_folder("files", SHARED_FILES_PATH), path="files")
        text = (
            f"The group's files at {SHARED_FILES_PATH} are an empty folder: the simulation does not change shared files"
        )
        remarks.add_note(RemarkTopic.DATASET, text)
    if theirs:
        volume = SharedFolder(folder=stand_ins.add_folder("volume", get_volume_path(job.group)), path="volume")
        remarks.add_note(RemarkTopic.DATASET, f"The group's volume at {get_volume_path(job.group)} is an empty folder")
        stand_ins.targets |= {"/datasets", "/project", "datasets", "phfs", "/home/jovyan/datasets", "/home/jovyan/phfs"}
    return LaunchContext(
        addresses={node.name: node.address},
        isolated=isolated,
        job_seed=secrets.token_bytes(32),
        gateway=GatewayAddress(unavailable_reason=_NO_GATEWAY_MESSAGE) if job.task_count > 1 else None,
        volume=volume,
        files=files,
        primehub=PrimeHubContext(platform=platform),
    )

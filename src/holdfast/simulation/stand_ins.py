"""What a job finds around it here: real folders where they can be had, empty ones in place of the rest."""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast.core.job import FILES, Dialect, Job, Mount, Role
from holdfast.core.scheduling.placement import Node
from holdfast.launching import Gateway, LaunchContext, Platform, PrimeHub
from holdfast.launching.volumes import volume_path

from .report import About, Remarks

_NO_GATEWAY = "This is a simulation, which has no SSH gateway."


@dataclass(slots=True)
class StandIns:
    """Empty folders that stand in for what is not here; `targets`: where tasks see them."""

    folder: Path
    targets: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)  # those of them whose true content only a server knows
    _made: dict[str, str] = field(default_factory=dict)

    def stand_in(self, name: str, target: str, *, unknown: bool = True) -> str:
        self.targets.add(posixpath.normpath(target))
        if unknown:
            self.unknown.add(posixpath.normpath(target))
        if name not in self._made:
            path = self.folder / str(len(self._made))
            path.mkdir(parents=True)
            self._made[name] = str(path)
        return self._made[name]

    def is_real(self, mount: Mount) -> bool:
        return not Path(mount.source).is_relative_to(self.folder)

    def is_below(self, path: str) -> bool:
        """What is there in the real run is not known here."""
        clean = posixpath.normpath(path)
        return any(clean == target or clean.startswith(f"{target}/") for target in self.targets)


def provide_stand_ins(job: Job, furniture: StandIns, remarks: Remarks, chosen: Collection[str]) -> Job:
    """The job with every mount leading to something that is here. Nothing is said of roles that are not `chosen`."""
    roles = (_furnish_role(job, role, furniture, remarks.on(role.name, chosen)) for role in job.roles)
    return replace(job, roles=tuple(roles))


def _furnish_role(job: Job, role: Role, furniture: StandIns, remarks: Remarks) -> Role:
    mounts = [_mount(mount, role, furniture, remarks) for mount in role.mounts]
    have = {mount.dataset for mount in mounts if mount.dataset}
    for name, target in _wished(job):
        if name not in have:
            where = f" at {target}" if target else ""
            remarks.note(
                About.DATASET, f"The dataset {name} is an empty folder{where}: only the server knows what is in it"
            )
            mounts.append(Mount(source=furniture.stand_in(f"dataset {name}", target), target=target, dataset=name))
    return replace(role, mounts=tuple(mounts))


def _mount(mount: Mount, role: Role, furniture: StandIns, remarks: Remarks) -> Mount:
    if mount.dataset and (not mount.read_only or not _is_readable(mount.source)):
        why = "its own cannot be read here" if mount.read_only else "so that nothing is written to its own"
        text = f"The dataset {mount.dataset} is an empty folder at {mount.target}: {why}"
        remarks.note(About.DATASET, text, role=role.name)
    elif _is_readable(mount.source):
        if not mount.read_only:
            remarks.note(About.MOUNT, f"What it writes to {mount.target} is really written to {mount.source}")
        return mount
    else:
        why = "cannot be read by you" if Path(mount.source).exists() else "does not exist on this machine"
        hint = "Make it, or correct the path. Here an empty folder stands in for it."
        remarks.warn(About.MOUNT, f"{mount.source}, mounted at {mount.target}, {why}", hint, role.name)
    return replace(mount, source=furniture.stand_in(mount.source, mount.target, unknown=mount.dataset is not None))


def _is_readable(path: str) -> bool:
    return path.startswith("/") and os.access(path, os.R_OK)


def _wished(job: Job) -> Iterator[tuple[str, str]]:
    """(dataset, where it is to be)."""
    for name in job.datasets:
        yield name, f"/datasets/{name}"
    ours: Mapping[str, Any] = job.extras.get("openpai", {}) if job.dialect.openpai else {}
    for storage in ours.get("storages") or ():
        if isinstance(storage, Mapping) and storage.get("name"):
            yield str(storage["name"]), str(storage.get("mountPath") or f"/mnt/{storage['name']}")


def surround(
    job: Job, node: Node, *, isolated: bool, furniture: StandIns, platform: Platform, remarks: Remarks
) -> LaunchContext:
    theirs = job.dialect is Dialect.PRIMEHUB
    volume = files = ""
    if theirs or job.files:
        files = furniture.stand_in("files", FILES)
        text = f"The group's files at {FILES} are an empty folder: what is shared stays untouched"
        remarks.note(About.DATASET, text)
    if theirs:
        volume = furniture.stand_in("volume", volume_path(job.group))
        remarks.note(About.DATASET, f"The group's volume at {volume_path(job.group)} is an empty folder")
        furniture.targets |= {"/datasets", "/project", "datasets", "phfs", "/home/jovyan/datasets", "/home/jovyan/phfs"}
    return LaunchContext(
        addresses={node.name: node.address},
        isolated=isolated,
        job_seed=secrets.token_bytes(32),
        gateway=Gateway(trouble=_NO_GATEWAY) if job.task_count > 1 else None,
        volume=volume,
        files=files,
        primehub=PrimeHub(platform=platform),
    )

"""Which folders a PrimeHub job finds, and where: mounts in a sandbox; without one, the machine's own folders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.core.identity import group_path
from holdfast.core.job import FILES, Mount

from ..context import LaunchContext
from ..volumes import VOLUMES, volume_path

HOME = "/home/jovyan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Paths as the task sees them; empty: there is no such folder."""

    volume: str = ""
    files: str = ""
    datasets: tuple[tuple[str, str], ...] = ()  # (name, where it is)
    mounts: tuple[Mount, ...] = ()
    left_out: tuple[str, ...] = ()  # each a sentence


def find_folders(group: str, mounts: Sequence[Mount], surroundings: LaunchContext) -> Folders:
    given = surroundings.primehub
    gone = [mount for mount in mounts if mount.dataset in given.unreachable]
    kept = [mount for mount in mounts if mount not in gone]
    left_out = tuple(f"The dataset {name} is left out: its folder is gone or does not answer." for name in _names(gone))
    if not surroundings.isolated:
        return Folders(
            volume=surroundings.volume,
            files=surroundings.files,
            datasets=tuple((mount.dataset, mount.source) for mount in kept if mount.dataset),
            mounts=tuple(mount for mount in kept if mount.dataset is None),
            left_out=left_out,
        )
    return Folders(
        volume=volume_path(group) if surroundings.volume else "",
        files=FILES if surroundings.files else "",
        datasets=tuple((mount.dataset, mount.target) for mount in kept if mount.dataset),
        mounts=(*kept, *_shared(group, surroundings)),
        left_out=left_out,
    )


def _shared(group: str, surroundings: LaunchContext) -> Iterable[Mount]:
    given = surroundings.primehub
    own = group_path(group)
    if surroundings.volume:
        yield Mount(source=surroundings.volume, target=f"{VOLUMES}/{own}", read_only=False)
    for path, source in given.other_volumes.items():
        if path != own:  # two groups may share a path: the job's own goes first
            yield Mount(source=source, target=f"{VOLUMES}/{path}", read_only=False)
    if surroundings.files:
        yield Mount(source=surroundings.files, target=FILES, read_only=False)


def _names(mounts: Iterable[Mount]) -> list[str]:
    return [mount.dataset for mount in mounts if mount.dataset]

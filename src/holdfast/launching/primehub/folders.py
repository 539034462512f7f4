"""The folders of a PrimeHub job: mounts in a sandbox; without one, the machine's own folders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.core.identity import format_group_path
from holdfast.core.job import SHARED_FILES_PATH, Mount

from ..context import LaunchContext
from ..volumes import VOLUMES_FOLDER, get_volume_path

HOME_FOLDER = "/home/jovyan"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimeHubFolders:
    """Paths inside the task; empty: there is no such folder."""

    volume: str = ""
    files: str = ""
    datasets: tuple[tuple[str, str], ...] = ()  # (name, path)
    mounts: tuple[Mount, ...] = ()
    left_out: tuple[str, ...] = ()  # each a sentence


def make_primehub_folders(group: str, mounts: Sequence[Mount], context: LaunchContext) -> PrimeHubFolders:
    given = context.primehub
    gone = [mount for mount in mounts if mount.dataset in given.unreachable]
    kept = [mount for mount in mounts if mount not in gone]
    left_out = tuple(
        f"The dataset {name} is left out: its folder is not available." for name in _list_dataset_names(gone)
    )
    if not context.isolated:
        return PrimeHubFolders(
            volume=context.volume.folder if context.volume else "",
            files=context.files.folder if context.files else "",
            datasets=tuple((mount.dataset, mount.volume.folder) for mount in kept if mount.dataset),
            mounts=tuple(mount for mount in kept if mount.dataset is None),
            left_out=left_out,
        )
    return PrimeHubFolders(
        volume=get_volume_path(group) if context.volume else "",
        files=SHARED_FILES_PATH if context.files else "",
        datasets=tuple((mount.dataset, mount.target) for mount in kept if mount.dataset),
        mounts=(*kept, *_iter_shared_mounts(group, context)),
        left_out=left_out,
    )


def _iter_shared_mounts(group: str, context: LaunchContext) -> Iterable[Mount]:
    given = context.primehub
    own = format_group_path(group)
    if context.volume:
        yield Mount(volume=context.volume, target=f"{VOLUMES_FOLDER}/{own}", read_only=False)
    for path, volume in given.other_volumes.items():
        if path != own:  # two groups may share a path: the job's own wins
            yield Mount(volume=volume, target=f"{VOLUMES_FOLDER}/{path}", read_only=False)
    if context.files:
        yield Mount(volume=context.files, target=SHARED_FILES_PATH, read_only=False)


def _list_dataset_names(mounts: Iterable[Mount]) -> list[str]:
    return [mount.dataset for mount in mounts if mount.dataset]

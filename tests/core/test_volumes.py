from __future__ import annotations

import pytest

from holdfast.core.volumes import (
    LOCAL_KINDS,
    HostFolder,
    NfsExport,
    SharedFolder,
    Volume,
    VolumeClaim,
    VolumeKind,
    is_mountable,
)

MOUNTED = NfsExport(server="files", path="/export", folder="/net/files/export")
EXPORT = NfsExport(server="files", path="/export")
SHARED = SharedFolder(folder="/srv/shared/volumes/a", path="volumes/a")
CLAIM = VolumeClaim(name="models")


@pytest.mark.parametrize(
    ("volume", "kinds", "mountable"),
    [
        (HostFolder("/data"), LOCAL_KINDS, True),
        (SHARED, LOCAL_KINDS, True),
        (MOUNTED, LOCAL_KINDS, True),
        (EXPORT, LOCAL_KINDS, False),
        (CLAIM, LOCAL_KINDS, False),
        (HostFolder("/data"), {VolumeKind.NFS, VolumeKind.CLAIM}, False),
        (SHARED, {VolumeKind.FOLDER}, True),
        (SHARED, {VolumeKind.NFS}, False),
        (MOUNTED, {VolumeKind.SHARED}, False),
        (EXPORT, {VolumeKind.NFS}, True),
        (CLAIM, {VolumeKind.CLAIM}, True),
    ],
)
def test_which_engine_mounts_what(volume: Volume, kinds: frozenset[VolumeKind], mountable: bool) -> None:
    assert is_mountable(volume, kinds) is mountable


def test_what_users_see_of_a_volume() -> None:
    shown = [volume.address for volume in (HostFolder("/data"), SHARED, MOUNTED, EXPORT, CLAIM)]
    assert shown == ["/data", "/srv/shared/volumes/a", "/net/files/export", "files:/export", "models"]

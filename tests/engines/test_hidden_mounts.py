"""A filesystem mounted in a folder that tasks must not see, as containers have theirs, is hidden with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.embedded import EmbeddedOptions
from holdfast.engines.embedded.mount_table import Mount, MountTable
from holdfast.engines.embedded.sandbox import host, private_files
from holdfast.engines.embedded.sandbox.host import HostFingerprint, scan_host
from holdfast.engines.embedded.sandbox.package_scan import PackageScanner
from holdfast.engines.embedded.sandbox.private_files import PrivateFiles, find_private_files
from holdfast.engines.embedded.sandbox.sandbox_layers import SandboxLayers
from tests import shared_scan


@pytest.fixture(autouse=True)
def _search_afresh() -> Iterator[None]:
    with shared_scan.suspend():
        yield


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts a filesystem")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-", dir="/var/lib"))
    memory = Path(tempfile.mkdtemp(prefix="holdfast-test-", dir="/dev/shm"))
    for path in (folder / "inside", memory / "upper", memory / "work"):
        path.mkdir()
    options = f"lowerdir={tmp_path},upperdir={memory}/upper,workdir={memory}/work"
    made = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, folder / "inside"], check=False)
    try:
        if made.returncode:
            pytest.skip("no overlay can be mounted here")
        yield folder / "inside"
    finally:
        subprocess.run(["umount", folder / "inside"], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder)
        shutil.rmtree(memory)


def test_what_is_mounted_in_a_hidden_folder_is_hidden(mounted: Path) -> None:
    assert os.path.ismount(mounted)
    assert mounted.parent.stat().st_mode & 0o005 == 0
    assert str(mounted) not in scan_host((), MountTable().read_mounts(), PrivateFiles()).mounts


@contextmanager
def memory_at(point: Path, options: str = "mode=0755") -> Iterator[None]:
    point.mkdir(mode=0o755, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", point], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", point], check=True)


def test_mounts_that_come_and_go_in_a_hidden_folder_cause_no_new_search(
    mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp_of = host.read_host_fingerprint

    def our_stamp(mounts: Iterable[Mount]) -> HostFingerprint:  # other tests and programs mount things too
        ours = [mount for mount in mounts if mount.point.startswith(f"{mounted.parent}/")]
        return replace(stamp_of(ours), changed=())

    monkeypatch.setattr(host, "read_host_fingerprint", our_stamp)
    views = SandboxLayers(tmp_path / "home", EmbeddedOptions())
    views._packages = PackageScanner()
    (tmp_path / "home").mkdir(mode=0o700)
    before = views.prepare_host_layers()
    with memory_at(mounted.parent / "another"):
        assert views.prepare_host_layers() is before
    assert views.prepare_host_layers() is before
    mounted.parent.chmod(0o755)
    views._scan_due = 0.0  # ten minutes later
    public = views.prepare_host_layers()
    assert str(mounted.parent) not in {entry.path for entry in public.view.hidden}
    with memory_at(mounted.parent / "another"):
        assert str(mounted.parent / "another") in {entry.path for entry in views.prepare_host_layers().view.hidden}
    views.delete_outside_layers(())


def test_folders_of_packages_are_not_looked_at_for_mounts_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[object] = []
    search = host.scan_packages

    def counted(*args: Any) -> PrivateFiles:
        searches.append(args)
        return search(*args)

    monkeypatch.setattr(host, "scan_packages", counted)
    monkeypatch.setattr(host, "_PACKAGE_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(host, "_SEARCHED_FOLDERS", ())
    packages, saved = PackageScanner(), tmp_path / "saved"
    elsewhere = [Mount(7, 1, "/", "/var/lib/elsewhere", "tmpfs", ())]
    packages.find_private_files([], saved)
    packages.find_private_files(elsewhere, saved, only_mounts_changed=True)
    assert len(searches) == 1
    packages.find_private_files(elsewhere, saved)
    assert len(searches) == 2
    within = [Mount(7, 1, "/", str(tmp_path / "within"), "tmpfs", ())]
    packages.find_private_files(within, saved, only_mounts_changed=True)
    assert len(searches) == 3
    packages.find_private_files([], saved, only_mounts_changed=True)
    assert len(searches) == 4


def test_another_filesystem_at_the_same_place_is_noticed() -> None:
    """The kernel gives the id of a mount that is gone to the next one."""
    mount = Mount(7, 1, "/", "/var/lib/data", "overlay", ("lowerdir=/a",), "0:50")
    stamp = host.read_host_fingerprint([mount])
    for other in (replace(mount, options=("lowerdir=/b",)), replace(mount, device="8:1"), replace(mount, root="/b")):
        assert host.read_host_fingerprint([other]).mounts != stamp.mounts


def test_a_private_filesystem_in_a_remembered_folder_is_hidden(mounted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounting does not change the folder's own times."""
    monkeypatch.setattr(private_files, "_MIN_CHANGE_AGE", -1.0)  # remember the fresh folders of this test too
    top = mounted.parent
    top.chmod(0o755)
    point = top / "point"
    point.mkdir(mode=0o755)
    before = find_private_files([str(top)], (), 100)
    with memory_at(point, "mode=0700"):
        found = find_private_files([str(top)], (), 100, before.memory, [str(point)])
        assert str(point) in {entry.path for entry in found.hidden}
        assert str(top) not in found.memory
    after = find_private_files([str(top)], (), 100, found.memory)
    assert str(point) not in {entry.path for entry in after.hidden}

"""A filesystem mounted in a folder that tasks must not see, as containers have theirs, is hidden with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engines.embedded.host import scan_host
from holdfast.engines.embedded.mount_table import MountTable
from holdfast.engines.embedded.private_files import PrivateFiles


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
    assert str(mounted) not in scan_host((), MountTable().read(), PrivateFiles()).mounts

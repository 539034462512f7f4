"""A small filesystem of its own for a server's state, so that it can be filled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import pytest

SIZE = 300  # MB
INODES = 8000


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Ext4 in a file, or in memory where that cannot be mounted; skips aloud where neither can."""
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts a small filesystem")
    disk, image = folder / "disk", folder / "image"
    disk.mkdir()
    if not (_mount_ext4(image, disk) or _mount_tmpfs(disk)):
        pytest.skip("neither ext4 in a file nor tmpfs can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=False, capture_output=True)
        image.unlink(missing_ok=True)


def _mount_ext4(image: Path, disk: Path) -> bool:
    """With blocks of 4 KiB, as on any larger disk. A small one gets 1 KiB by default: then SQLite's shared memory file
    has holes, and a write to one on a full disk ends the program with SIGBUS."""
    with image.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, SIZE * 1_000_000)
    commands = (
        ["mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-N", str(INODES), "-O", "^has_journal", str(image)],
        ["mount", "-o", "loop", str(image), str(disk)],
    )
    with suppress(FileNotFoundError):
        return all(subprocess.run(command, check=False, capture_output=True).returncode == 0 for command in commands)
    return False


def _mount_tmpfs(disk: Path) -> bool:
    options = f"size={SIZE}m,nr_inodes={INODES}"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Ballast:
    """What another program than Holdfast keeps on the disk: all the room there is, or all inodes."""

    def __init__(self, disk: Path) -> None:
        self._folder = disk / "ballast"
        self._folder.mkdir()
        self._count = 0

    def fill_bytes(self) -> None:
        """Down to the last block, also of what others give back meanwhile."""
        size = 64 << 20
        with self._open() as file:
            end = 0
            while size >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), end, size)
                    end += size
                except OSError:
                    size //= 2

    def fill_files(self) -> None:
        with suppress(OSError):
            while True:
                self._open().close()

    def remove(self) -> None:
        for path in self._folder.iterdir():
            path.unlink()

    def _open(self) -> BinaryIO:
        self._count += 1
        return (self._folder / f"{self._count}").open("wb")

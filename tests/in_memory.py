"""Folders of tests in memory: a house writes many small files and waits for the disk after each change of its database.
Tests that look at disks or at mounts use pytest's own `tmp_path`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30  # bytes


def _has_room() -> bool:
    return os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ENOUGH


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Takes the place of pytest's fixture of this name in the folders whose conftest.py imports it."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-", dir=_MEMORY if _has_room() else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)

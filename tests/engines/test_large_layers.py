"""A layer of a million files: unpacked in limited memory, with the real limits."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from .archives import entry, folder

MIB = 1024 * 1024
ENTRIES = 1_000_000
FILES_PER_FOLDER = 1000
MAX_GROWTH = 100 * MIB  # bytes of memory; a layer of few files takes some of it, too

UNPACK_SCRIPT = """
import hashlib, json, re, sys, threading
from pathlib import Path
from holdfast.disk_space import DiskThresholds
from holdfast.engines.embedded.images.layers import LayerUnpacker

def read_peak():  # of this program alone; getrusage would include the process that started it
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

before = read_peak()
unpacker = LayerUnpacker(sys.argv[2], DiskThresholds())
with open(sys.argv[1], "rb", buffering=0) as file:
    unpacker.add_layer(file, digest=hashlib.sha256(), cancelled=threading.Event())
unpacker.set_folder_modes()
print(json.dumps([unpacker._entries, read_peak() - before]))
"""


def write_layer(path: Path, count: int) -> int:
    """Write a layer of empty files in folders. Returns the number of entries."""
    written = 0
    with gzip.open(path, "wb", compresslevel=1) as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
        for number in range(count // FILES_PER_FOLDER):
            archive.addfile(folder(f"data/{number}")[0])
            for index in range(FILES_PER_FOLDER):
                archive.addfile(entry(f"data/{number}/{index}")[0])
                archive.members.clear()  # type: ignore[attr-defined]
            written += FILES_PER_FOLDER + 1
    return written


def unpack(layer: Path, target: Path) -> tuple[int, int]:
    """Unpack it in a process of its own. Returns the number of entries, and by how many bytes the process grew."""
    target.mkdir()
    command = [sys.executable, "-c", UNPACK_SCRIPT, str(layer), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    entries, growth = json.loads(done.stdout)
    return entries, growth


@pytest.mark.parametrize(
    "count", [10_000, pytest.param(ENTRIES, marks=[pytest.mark.release, pytest.mark.timeout(900)])]
)
def test_a_layer_of_many_files_is_unpacked_in_limited_memory(tmp_path: Path, count: int) -> None:
    written = write_layer(tmp_path / "layer.tar.gz", count)
    entries, growth = unpack(tmp_path / "layer.tar.gz", tmp_path / "tree")
    assert entries == written
    assert growth < MAX_GROWTH
    last = count // FILES_PER_FOLDER - 1
    assert len(list((tmp_path / "tree" / "data" / str(last)).iterdir())) == FILES_PER_FOLDER

"""A layer of a million files: unpacked in limited memory, with the real limits."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import psutil
import pytest

from .archives import Entry, entry, folder

MIB = 1024 * 1024
ENTRIES = 1_000_000
FILES_PER_FOLDER = 1000
MAX_GROWTH = 100 * MIB  # bytes of memory; a layer of few files takes some of it, too

MIN_MEMORY = 4 * 1024 * MIB
MEMORY = Path("/dev/shm")
FOLDER_HEADER = folder("data")[0].tobuf(tarfile.GNU_FORMAT)
FILE_HEADER = entry("data")[0].tobuf(tarfile.GNU_FORMAT)

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


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """In memory, where there is enough: most disks take minutes to create and to remove a million files."""
    is_large = psutil.virtual_memory().available > MIN_MEMORY and os.access(MEMORY, os.W_OK)
    is_large = is_large and os.statvfs(MEMORY).f_favail > 2 * ENTRIES
    place = Path(tempfile.mkdtemp(prefix="holdfast-test-", dir=MEMORY if is_large else tmp_path))
    yield place
    shutil.rmtree(place)


def write_layer(path: Path, count: int) -> int:
    """Write a layer of empty files in folders. Returns the number of entries."""
    written = 0
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for number in range(count // FILES_PER_FOLDER):
            names = [f"data/{number}/{index}".encode() for index in range(FILES_PER_FOLDER)]
            packed.write(make_header(FOLDER_HEADER, f"data/{number}/".encode()))
            packed.write(b"".join([make_header(FILE_HEADER, name) for name in names]))
            written += FILES_PER_FOLDER + 1
        packed.write(bytes(2 * tarfile.BLOCKSIZE))
    return written


def make_header(template: bytes, name: bytes) -> bytes:
    """Return the header with another name, as tarfile would write it but faster."""
    return b"%b%b%06o\0 %b" % (
        name.ljust(100, b"\0"), template[100:148], sum_fields(template) + sum(name), template[156:]
    )  # fmt: skip


@cache
def sum_fields(header: bytes) -> int:
    """Return the checksum without the name. The checksum itself counts as spaces."""
    return sum(header[100:148]) + 8 * ord(" ") + sum(header[156:])


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
def test_a_layer_of_many_files_is_unpacked_in_limited_memory(place: Path, count: int) -> None:
    written = write_layer(place / "layer.tar.gz", count)
    entries, growth = unpack(place / "layer.tar.gz", place / "tree")
    assert entries == written
    assert growth < MAX_GROWTH
    last = count // FILES_PER_FOLDER - 1
    assert len(list((place / "tree" / "data" / str(last)).iterdir())) == FILES_PER_FOLDER


@pytest.mark.parametrize(("template", "made"), [(FOLDER_HEADER, folder("data/7/8")), (FILE_HEADER, entry("data/7/8"))])
def test_the_headers_are_those_of_tarfile(template: bytes, made: Entry) -> None:
    expected = made[0].tobuf(tarfile.GNU_FORMAT)
    assert make_header(template, expected[:100].rstrip(b"\0")) == expected

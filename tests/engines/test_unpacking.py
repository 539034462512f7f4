"""Archives made to reach beyond the image, the memory or the disk."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from holdfast import disk_space
from holdfast.core.job import MIB
from holdfast.disk_space import DiskSpace
from holdfast.engines.embedded.images import tars, unpacking
from holdfast.engines.embedded.images.tars import BadArchive
from holdfast.engines.embedded.images.unpacking import Unpacker

from .archives import Entry, entry, folder, link, tar


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def unpack(root: Path, *layers: bytes) -> Unpacker:
    root.mkdir()
    unpacker = Unpacker(str(root))
    for layer in layers:
        unpacker.add_layer(io.BytesIO(layer))
    unpacker.set_folder_modes()
    return unpacker


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    (path / "sub").mkdir(parents=True)
    (path / "sub").chmod(0o700)
    path.chmod(0o700)
    return path


def traps(victim: str) -> Iterable[list[list[Entry]]]:
    wide = [folder("d", 0o777), folder("d/sub", 0o777)]
    yield [[*wide, link("d", victim)]]
    yield [[folder("d/sub", 0o777), link("d", victim)]]
    yield [wide, [entry(".wh.d"), link("d", victim)]]
    yield [wide, [link("d", victim)]]
    yield [[folder("a", 0o777), *wide], [entry(".wh..wh..opq"), link("d", victim), link("a", "d")]]


@pytest.mark.parametrize("number", range(5))
def test_modes_are_set_on_no_folder_outside(tmp_path: Path, victim: Path, number: int) -> None:
    layers = list(traps(str(victim)))[number]
    unpack(tmp_path / "root", *(tar(layer) for layer in layers))
    assert (tmp_path / "root/d").is_symlink()
    assert (mode_of(victim), mode_of(victim / "sub")) == (0o700, 0o700)


def test_a_folder_made_anew_has_nothing_of_the_old_one(tmp_path: Path) -> None:
    layers = [folder("d", 0o777), folder("d/sub", 0o777)], [entry(".wh.d"), entry("d/sub/file", b"x")]
    unpack(tmp_path / "root", *(tar(layer) for layer in layers))
    assert mode_of(tmp_path / "root/d") == 0o755
    assert mode_of(tmp_path / "root/d/sub") == 0o755


def test_folders_get_their_modes_at_last(tmp_path: Path) -> None:
    unpack(
        tmp_path / "root", tar([folder("a", 0o750), folder("a/b", 0o1777), entry("a/b/c", b"x"), folder("a", 0o711)])
    )
    assert (mode_of(tmp_path / "root/a"), mode_of(tmp_path / "root/a/b")) == (0o711, 0o1777)


def header(kind: bytes, size: int) -> bytes:
    """One header that promises `size` bytes, and nothing of them."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def pax(**fields: str) -> bytes:
    info = tarfile.TarInfo("x")
    info.size = 4
    info.pax_headers = {name.replace("_", "."): value for name, value in fields.items()}
    return info.tobuf(tarfile.PAX_FORMAT) + b"data".ljust(512, b"\0") + bytes(1024)


class Endless(io.RawIOBase):
    """After its start, zeros for ever; counts what is read of it."""

    def __init__(self, start: bytes) -> None:
        self._start = io.BytesIO(start)
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        piece = self._start.read(len(view)).ljust(len(view), b"\0")
        view[:] = piece
        self.taken += len(view)
        return len(view)


HEADERS = [
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
]


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_would_fill_the_memory_is_not_read(tmp_path: Path, kind: bytes) -> None:
    stream = Endless(header(kind, 1 << 40))
    with pytest.raises(BadArchive, match="header"):
        Unpacker(str(tmp_path)).add_layer(stream)  # type: ignore[arg-type]
    assert stream.taken < 1024 * 1024


def test_headers_for_all_entries_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tars, "_MAX_HEADER_SIZE", 1000)
    fields = b"".join(b"16 name%03d=v%03d\n" % (n, n) for n in range(25))
    one = header(tarfile.XGLTYPE, len(fields)) + fields.ljust(512, b"\0")
    with pytest.raises(BadArchive, match="header"):
        Unpacker(str(tmp_path)).add_layer(io.BytesIO(one * 3 + tar([entry("a", b"x")])))
    unpack(tmp_path / "root", one + tar([entry("a", b"x")]))


def test_header_upon_header_is_a_damaged_archive(tmp_path: Path) -> None:
    one = header(tarfile.XHDTYPE, 11) + b"11 path=ab\n".ljust(512, b"\0")
    with pytest.raises(BadArchive):
        Unpacker(str(tmp_path)).add_layer(io.BytesIO(one * 5000))


@pytest.mark.parametrize(
    "data",
    [
        header(tarfile.GNUTYPE_SPARSE, 0) + bytes(1024),
        pax(GNU_sparse_major="1", GNU_sparse_minor="0", GNU_sparse_realsize="1000000000000"),
        pax(GNU_sparse_map="0,1", GNU_sparse_size="1000000000000"),
        pax(GNU_sparse_size="1000000000000", GNU_sparse_numblocks="1"),
    ],
)
def test_sparse_files_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadArchive, match="sparse"):
        Unpacker(str(tmp_path)).add_layer(io.BytesIO(data))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1 << 60, -1])
def test_a_size_nobody_has_room_for_is_not_tried(tmp_path: Path, size: int) -> None:
    stream = Endless(header(tarfile.REGTYPE, size))
    with pytest.raises(BadArchive):
        Unpacker(str(tmp_path)).add_layer(stream)  # type: ignore[arg-type]
    assert stream.taken < 1024 * 1024
    assert list(tmp_path.iterdir()) == []


def test_empty_files_need_room_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_SPACE_CHECK_SIZE", 40 * 4096)
    unpacker = Unpacker(str(tmp_path))
    unpacker.add_layer(io.BytesIO(tar([entry("a")])))
    found = os.statvfs(tmp_path)
    little = DiskSpace(free=MIB, total=found.f_blocks * found.f_frsize)
    monkeypatch.setattr(disk_space, "read_disk_space", lambda where: little)
    with pytest.raises(BadArchive, match="enough disk space"):
        unpacker.add_layer(io.BytesIO(tar(entry(f"f{n}") for n in range(100))))
    assert len(list(tmp_path.iterdir())) < 100


def test_an_archive_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    forget = tars.ImageTar.drop_entries

    def counted(archive: tars.ImageTar) -> None:
        kept.append(len(archive.members))
        forget(archive)

    monkeypatch.setattr(tars.ImageTar, "drop_entries", counted)
    unpack(tmp_path / "root", tar(entry(f"f{n}") for n in range(50)))
    assert len(kept) == 50
    assert max(kept) <= 1

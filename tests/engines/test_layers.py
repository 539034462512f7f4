"""Layers unpacked one by one and linked together, and layers made to reach out of the image."""

from __future__ import annotations

import errno
import io
import os
import random
import stat
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from holdfast.disk_space import DiskThresholds
from holdfast.engines.embedded.images import layer_streams, layers, root_builder, unpacking
from holdfast.engines.embedded.images.layers import LayerStore
from holdfast.engines.embedded.images.root_builder import RootBuilder
from holdfast.engines.embedded.images.tars import BadArchive
from holdfast.engines.embedded.images.unpacking import Unpacker

from .archives import Entry, entry, folder, hard_link, link, tar
from .registries import COMPRESS, digest_of

MARKS = DiskThresholds()


def make_store(tmp_path: Path) -> LayerStore:
    store = LayerStore(tmp_path / "images", MARKS, threading.Lock())
    store.create_folders()
    return store


def add_layer(store: LayerStore, tmp_path: Path, data: bytes, digest: str = "") -> str:
    blob = tmp_path / "blob"
    blob.write_bytes(data)
    digest = digest or digest_of(data)
    with blob.open("rb") as file:
        store.unpack_layer(file, len(data), digest, threading.Event())
    return digest


def check_layer(store: LayerStore, data: bytes, digest: str) -> None:
    store.check_layer(io.BytesIO(data), len(data), digest, threading.Event())


def build(tmp_path: Path, *layers: Iterable[Entry]) -> Path:
    store = make_store(tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    builder = RootBuilder(str(root), MARKS)
    for data in [tar(layer) for layer in layers]:
        if not store.has_layer(digest_of(data)):
            add_layer(store, tmp_path, data)
        builder.add_layer(store.get_layer(digest_of(data)))
    return root


def list_files(folder: Path) -> dict[str, object]:
    """Everything below: modes, contents and targets, so that two trees can be compared."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        if path.is_symlink():
            content: object = str(path.readlink())
        else:
            content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (stat.S_IFMT(status.st_mode), status.st_uid, content, _mode(path))
    return found


def _mode(path: Path) -> int:
    return 0 if path.is_symlink() else stat.S_IMODE(path.lstat().st_mode)


LOWER = [
    folder("etc", 0o711), entry("etc/a", b"1"), entry("etc/b", b"2"), folder("data"), entry("data/old", b"x"),
    folder("gone"), entry("gone/deep", b"x"), folder("usr"), folder("usr/bin"), entry("usr/bin/sh", b"#!", mode=0o4755),
    link("bin", "usr/bin"), hard_link("usr/bin/same", "usr/bin/sh"), entry("file-then-folder", b"x"),
    folder("folder-then-file"), entry("folder-then-file/x", b"x"), folder("replaced"), entry("replaced/x", b"x"),
]  # fmt: skip
UPPER = [
    entry("etc/.wh.a"), entry("etc/c", b"3"), folder("data"), entry("data/new", b"y"), entry("data/.wh..wh..opq"),
    entry(".wh.gone"), entry("bin/tool", b"t"), entry("file-then-folder/x", b"y"), entry("folder-then-file", b"y"),
    link("replaced", "etc"), entry("dev/null", type=tarfile.CHRTYPE), entry("pipe", type=tarfile.FIFOTYPE),
    entry(".wh.pipe"), entry("etc/b", b"new", mode=0o600), entry(".wh."), entry(".wh..."), entry(".wh.not-there"),
]  # fmt: skip


def test_layers_linked_together_equal_layers_unpacked_over_each_other(tmp_path: Path) -> None:
    linked = build(tmp_path, LOWER, UPPER)
    plain = tmp_path / "plain"
    plain.mkdir()
    unpacker = Unpacker(str(plain))
    for layer in (LOWER, UPPER):
        with open(write(tmp_path, tar(layer)), "rb") as file:
            unpacker.add_layer(file)
    unpacker.set_folder_modes()
    assert list_files(linked) == list_files(plain)
    assert (linked / "usr/bin/tool").read_bytes() == b"t"
    assert stat.S_IMODE((linked / "etc").stat().st_mode) & 0o077 == 0o011  # the second layer only implies it


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(data)
    return path


def test_files_are_shared_between_images_and_not_copied(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    digest = add_layer(store, tmp_path, tar(LOWER))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        RootBuilder(str(tmp_path / name), MARKS).add_layer(store.get_layer(digest))
    inodes = {(tmp_path / name / "usr/bin/sh").stat().st_ino for name in ("one", "two")}
    assert len(inodes) == 1


@pytest.mark.parametrize("error", [errno.EMLINK, errno.EPERM, errno.EXDEV])
def test_files_are_copied_where_links_are_not_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    (tmp_path / "a").mkdir()
    expected = list_files(build(tmp_path / "a", LOWER, [entry("pipe", type=tarfile.FIFOTYPE)]))

    def fail(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    (tmp_path / "b").mkdir()
    store = make_store(tmp_path / "b")
    digests = [add_layer(store, tmp_path, tar(layer)) for layer in (LOWER, [entry("pipe", type=tarfile.FIFOTYPE)])]
    monkeypatch.setattr(root_builder.os, "link", fail)
    root = tmp_path / "b/root"
    root.mkdir()
    for digest in digests:
        RootBuilder(str(root), MARKS).add_layer(store.get_layer(digest))
    assert list_files(root) == expected


TRAPS: dict[str, list[list[Entry]]] = {
    "link then file": [[link("d", "@")], [entry("d/evil", b"x")]],
    "link then folder": [[link("d", "@")], [folder("d"), entry("d/evil", b"x")]],
    "link in one layer": [[link("d", "@"), entry("d/evil", b"x")]],
    "link chain": [[link("a", "@"), link("b", "a")], [entry("b/evil", b"x")]],
    "relative link": [[link("d", "../../../../../../../..@")], [entry("d/evil", b"x")]],
    "whiteout through link": [[link("d", "@")], [entry("d/.wh.sub")]],
    "opaque through link": [[link("d", "@")], [entry("d/.wh..wh..opq")]],
    "folder opaque over link": [[link("d", "@")], [folder("d"), entry("d/.wh..wh..opq"), entry("d/evil", b"x")]],
    "whiteout of dots": [[folder("d")], [entry("d/.wh..."), entry("d/.wh.."), entry(".wh...")]],
    "parent replaced meanwhile": [
        [folder("x"), folder("x/sub"), *(link(f"a{number}", "x/sub") for number in range(20))],
        [*(entry(f"a{number}/z/evil", b"1") for number in range(20)), link("x", "@")],  # some are listed before x
    ],
    "mode through link": [[link("d", "@")], [folder("d/sub", 0o777)]],
}


@pytest.mark.parametrize("name", TRAPS)
def test_nothing_is_created_or_removed_outside(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    (victim / "sub").mkdir(parents=True)
    (victim / "sub/kept").write_text("kept")
    (victim / "sub").chmod(0o700)
    before = list_files(victim)
    layers = [[(_point_to(info, str(victim)), content) for info, content in layer] for layer in TRAPS[name]]
    try:
        root = build(tmp_path, *layers)
    except BadArchive:
        root = tmp_path / "root"
    assert list_files(victim) == before
    assert not (tmp_path / "evil").exists()
    assert root.is_dir()


def _point_to(info: tarfile.TarInfo, victim: str) -> tarfile.TarInfo:
    changed = tarfile.TarInfo.frombuf(info.tobuf(), "utf-8", "strict")
    changed.linkname = info.linkname.replace("@", victim)
    return changed


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../evil", b"x")],
        [entry("a/../../evil", b"x")],
        [hard_link("a", "../../victim")],
        [hard_link("a", "/etc/passwd")],
        [entry("n" * 256, b"x")],
        [entry("a/" * 2100 + "x", b"x")],
    ],
    ids=["dots", "inner dots", "hard link out", "absolute hard link", "long name", "long path"],
)
def test_a_hostile_layer_is_refused_and_leaves_nothing(tmp_path: Path, entries: list[Entry]) -> None:
    store = make_store(tmp_path)
    with pytest.raises(BadArchive):
        add_layer(store, tmp_path, tar(entries))
    assert list((tmp_path / "images/layers").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_an_absolute_name_stays_inside(tmp_path: Path) -> None:
    root = build(tmp_path, [entry("/etc/evil-of-holdfast", b"x")])
    assert (root / "etc/evil-of-holdfast").exists()
    assert not Path("/etc/evil-of-holdfast").exists()


def test_a_layer_with_too_many_entries_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_MAX_ENTRIES", 100)
    with pytest.raises(BadArchive, match="more than 100"):
        build(tmp_path, [entry(f"f{number}") for number in range(101)])


def test_a_layer_of_too_many_long_paths_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_MAX_RECORD_LENGTH", 1000)
    with pytest.raises(BadArchive, match="too many folders"):
        build(tmp_path, [entry(f"folder/.wh.{number}") for number in range(1000)])


def test_a_layer_must_have_the_content_that_its_image_says(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with pytest.raises(BadArchive, match="does not match"):
        add_layer(store, tmp_path, tar(LOWER), "sha256:" + "0" * 64)
    assert not store.has_layer("sha256:" + "0" * 64)


def test_endless_padding_after_a_layer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_streams, "_MAX_TRAILER_SIZE", 1024 * 1024)
    with pytest.raises(BadArchive, match="follows its end"):
        add_layer(make_store(tmp_path), tmp_path, COMPRESS["gzip"](tar(LOWER) + bytes(3 * 1024 * 1024)))


def test_data_that_is_not_written_is_refused(tmp_path: Path) -> None:
    """It would cost time to decompress, but no disk space, so that no other limit applies."""
    zeros = bytes(2 * 1024 * 1024)
    store = make_store(tmp_path)
    for hostile in (entry(".wh.file", zeros), entry(".wh..wh..opq", zeros), entry("./", zeros)):
        with pytest.raises(BadArchive, match="has data"):
            add_layer(store, tmp_path, tar([hostile, entry("a")]))
    with pytest.raises(BadArchive, match="unknown type"):
        add_layer(store, tmp_path, tar([entry("a", b"x", type=b"Z"), entry("b")]))
    add_layer(store, tmp_path, tar([entry("label", type=b"V"), entry("b")]))


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_layer_that_grows_beyond_measure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    monkeypatch.setattr(layer_streams, "_MIN_SIZE_LIMIT", 8 * 1024 * 1024)
    data = tar([entry("zeros", bytes(16 * 1024 * 1024))])
    packed = COMPRESS[compression](data)
    store = make_store(tmp_path)
    with pytest.raises(BadArchive, match="compressed size"):
        add_layer(store, tmp_path, packed, digest_of(data))
    assert list((tmp_path / "images/layers").iterdir()) == []
    with pytest.raises(BadArchive, match="compressed size"):  # also if it is only compared with a stored one
        check_layer(store, packed, digest_of(data))
    mixed = tar([entry("zeros", bytes(16 * 1024 * 1024)), entry("big", random.Random(1).randbytes(200_000))])
    packed = COMPRESS[compression](mixed)
    check_layer(store, packed, add_layer(store, tmp_path, packed, digest_of(mixed)))


def test_a_layer_that_grows_before_it_has_arrived_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry may announce many bytes, and send a few that are compressed zeros."""
    monkeypatch.setattr(layer_streams, "_MIN_SIZE_LIMIT", 8 * 1024 * 1024)
    monkeypatch.setattr(layer_streams, "_MAX_EARLY_SIZE", 0)
    packed = COMPRESS["zstd"](tar([entry("zeros", bytes(16 * 1024 * 1024))]))
    store = make_store(tmp_path)
    with pytest.raises(BadArchive, match="compressed size"):
        store.unpack_layer(io.BytesIO(packed), 10**9, "sha256:" + "0" * 64, threading.Event())
    monkeypatch.setattr(layer_streams, "_MAX_EARLY_SIZE", 100_000)
    with pytest.raises(BadArchive, match="does not match"):
        store.unpack_layer(io.BytesIO(packed), 10**9, "sha256:" + "0" * 64, threading.Event())


def test_a_layer_that_two_registries_send_at_once_is_stored_once(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    data = tar([entry("a", b"x")])

    class SlowSource(io.BytesIO):
        """Its layer is stored from another source before it ends."""

        def read(self, size: int | None = -1) -> bytes:
            chunk = super().read(size)
            if not chunk and not store.has_layer(digest_of(data)):
                add_layer(store, tmp_path, data)
            return chunk

    store.unpack_layer(SlowSource(data), len(data), digest_of(data), threading.Event())
    assert [folder.name for folder in (tmp_path / "images/layers").iterdir()] == [digest_of(data).partition(":")[2]]


@pytest.mark.parametrize("compression", COMPRESS)
def test_every_compression_is_read_in_parts_and_refused_if_damaged(tmp_path: Path, compression: str) -> None:
    data = tar([entry("big", random.Random(1).randbytes(3_000_000)), entry("zeros", bytes(5_000_000))])
    packed = COMPRESS[compression](data)
    store = make_store(tmp_path)
    add_layer(store, tmp_path, packed, digest_of(data))
    assert store.get_layer(digest_of(data)).size == 8_000_000
    with pytest.raises(BadArchive):
        add_layer(store, tmp_path, packed[:1_000_000], "sha256:" + "1" * 64)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_layer_may_consist_of_several_compressed_parts(tmp_path: Path, compression: str) -> None:
    data = tar([entry("big", random.Random(1).randbytes(700_000))])
    parts = [data[start : start + 10_000] for start in range(0, len(data), 10_000)]
    packed = b"".join(COMPRESS[compression](part) for part in parts)
    store = make_store(tmp_path)
    assert store.get_layer(add_layer(store, tmp_path, packed, digest_of(data))).size == 700_000
    with pytest.raises(BadArchive):
        add_layer(store, tmp_path, packed + b"other data", "sha256:" + "1" * 64)


def test_unused_layers_are_removed_but_not_those_of_a_pull(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    used, pulled, unused = (add_layer(store, tmp_path, tar([entry(name)])) for name in ("a", "b", "c"))
    store.reserve([pulled])
    store.move_unused_layers({used})
    store.remove_trash()
    assert [store.has_layer(digest) for digest in (used, pulled, unused)] == [True, True, False]
    store.release([pulled])
    store.move_unused_layers({used})
    assert store.list_unfinished_folders() != []
    store.remove_trash()
    assert len(list((tmp_path / "images/layers").iterdir())) == 1

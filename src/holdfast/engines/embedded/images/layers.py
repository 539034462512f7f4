"""Unpacked layers, each stored once for all images: `layers/DIGEST/tree`. Blocking: call it from a thread.

`layer.json` has what a folder of files cannot express: whiteouts, and folders that the layer implies but does not
contain. `sources.json` lists the registries that have sent this layer, which is what allows others to use it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds, is_disk_full_error

from ..tree_removal import remove_tree
from .files import write_file_safely
from .layer_streams import COMPRESSION_ERRORS, ByteSource, LayerReader
from .tars import BadArchive
from .unpacking import OPAQUE_WHITEOUT, WHITEOUT_PREFIX, Unpacker, make_disk_space_error

DRAFT_PREFIX = "new-"
_TRASH_PREFIX = "old-"
_MAX_RECORD_LENGTH = 64 * 1024 * 1024  # characters of paths in `layer.json`
_MAX_BLOB_AGE = 24 * 3600.0  # seconds a partial download is kept for a later pull


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An unpacked layer. Folders are paths in the layer, without a leading slash; the top is empty."""

    tree: str
    size: int  # bytes of its files
    whiteouts: dict[str, frozenset[str]]  # folder -> names removed from lower layers
    opaque: frozenset[str]  # folders whose content in lower layers is hidden
    implied: frozenset[str]  # folders that only exist as parents: they keep what lower layers say about them


class LayerUnpacker(Unpacker):
    """Unpacks one layer on its own: whiteouts are recorded."""

    _applies_whiteouts = False

    def __init__(self, root: str, marks: DiskThresholds) -> None:
        super().__init__(root, marks)
        self._whiteouts: dict[str, set[str]] = {}
        self._opaque: set[str] = set()
        self._implied: set[str] = set()
        self._record_length = 0

    def describe_layer(self) -> dict[str, Any]:
        """Return the content of `layer.json`."""
        return {
            "size": self.size,
            "whiteouts": {folder: sorted(names) for folder, names in self._whiteouts.items()},
            "opaque": sorted(self._opaque),
            "implied": sorted(self._implied),
        }

    def _apply_whiteout(self, folder: str, name: str, fresh: set[str]) -> None:
        path = self._get_layer_path(folder)
        gone = name.removeprefix(WHITEOUT_PREFIX)
        self._count_record(path + gone)
        if name == OPAQUE_WHITEOUT:
            self._opaque.add(path)
        elif gone not in ("", ".", ".."):
            self._whiteouts.setdefault(path, set()).add(gone)

    def _mkdir(self, path: str) -> None:
        super()._mkdir(path)
        self._count_record(path)
        self._implied.add(self._get_layer_path(path))

    def _create_folder(self, entry: Any, target: str) -> None:
        super()._create_folder(entry, target)
        self._implied.discard(self._get_layer_path(target))

    def _count_record(self, text: str) -> None:
        """Limit the memory that a layer of many long paths takes."""
        self._record_length += len(text)
        if self._record_length > _MAX_RECORD_LENGTH:
            raise BadArchive(msg("A layer has too many folders and whiteouts."))

    def _get_layer_path(self, path: str) -> str:
        return path[len(self._root) :].lstrip("/")


class LayerStore:
    """The layers and partial downloads in `images/`. A pull reserves its layers, so that none is removed meanwhile."""

    def __init__(self, folder: Path, marks: DiskThresholds, lock: threading.Lock) -> None:
        self._layers = folder / "layers"
        self._blobs = folder / "blobs"
        self._marks = marks
        self._lock = lock  # of the image store: images and reservations are read together
        self._sources_lock = threading.Lock()
        self._reserved: Counter[str] = Counter()

    def create_folders(self) -> None:
        for folder in (self._layers, self._blobs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def reserve(self, digests: Iterable[str]) -> None:
        with self._lock:
            self._reserved.update(set(digests))

    def release(self, digests: Iterable[str]) -> None:
        with self._lock:
            self._reserved.subtract(set(digests))
            self._reserved = +self._reserved

    def get_blob_path(self, registry: str, digest: str) -> str:
        """Return the file for a layer as the registry sends it. Each registry has its own: bytes from one must neither
        count as sent by another, nor damage its download."""
        prefix = hashlib.sha256(registry.encode()).hexdigest()[:16]
        return str(self._blobs / f"{prefix}-{_get_hex(digest)}.part")

    def get_layer(self, digest: str) -> Layer:
        """Return it by the digest of its uncompressed tar."""
        folder = self._get_folder(digest)
        fields = json.loads((folder / "layer.json").read_bytes())
        return Layer(
            tree=str(folder / "tree"),
            size=int(fields["size"]),
            whiteouts={path: frozenset(names) for path, names in fields["whiteouts"].items()},
            opaque=frozenset(fields["opaque"]),
            implied=frozenset(fields["implied"]),
        )

    def has_layer(self, digest: str) -> bool:
        return (self._get_folder(digest) / "layer.json").exists()

    def has_source(self, digest: str, registry: str, blob: str) -> bool:
        """Return whether this registry has sent this blob, and it was this layer."""
        return [registry, blob] in self._read_sources(digest)

    def add_source(self, digest: str, registry: str, blob: str) -> None:
        with self._sources_lock:
            sources = self._read_sources(digest)
            if [registry, blob] not in sources:
                write_file_safely(self._get_folder(digest) / "sources.json", json.dumps([*sources, [registry, blob]]))

    def _read_sources(self, digest: str) -> list[list[str]]:
        try:
            found: list[list[str]] = json.loads((self._get_folder(digest) / "sources.json").read_bytes())
        except (OSError, ValueError):
            return []
        return found

    def unpack_layer(self, source: ByteSource, announced_size: int, digest: str, cancelled: threading.Event) -> None:
        """Unpack a layer; BadArchive if it is not the one with this digest."""
        draft = self._layers / f"{DRAFT_PREFIX}{secrets.token_hex(8)}"
        try:
            (draft / "tree").mkdir(parents=True)
            (draft / "tree").chmod(0o755)
            unpacker = LayerUnpacker(str(draft / "tree"), self._marks)
            checksum = hashlib.sha256()
            unpacker.add_layer(source, digest=checksum, cancelled=cancelled, announced_size=announced_size)
            if f"sha256:{checksum.hexdigest()}" != digest:
                raise BadArchive(msg("The content of a layer does not match the digest in the image's configuration."))
            unpacker.set_folder_modes()
            (draft / "layer.json").write_text(json.dumps(unpacker.describe_layer()))
            self._publish_layer(draft, digest)
        except OSError as error:
            if is_disk_full_error(error):
                raise make_disk_space_error() from error
            raise BadArchive(msg("Cannot unpack the image: {error}.", error=error.strerror or error)) from error
        finally:
            remove_tree(str(draft))

    def _publish_layer(self, draft: Path, digest: str) -> None:
        try:
            draft.rename(self._get_folder(digest))
        except OSError:
            if not self.has_layer(digest):  # else a pull from another registry has unpacked the same layer
                raise

    def check_layer(self, source: ByteSource, announced_size: int, digest: str, cancelled: threading.Event) -> None:
        """Check that a layer is the one with this digest, without unpacking it."""
        checksum = hashlib.sha256()
        try:
            LayerReader(source, digest=checksum, cancelled=cancelled, announced_size=announced_size).read_all()
        except COMPRESSION_ERRORS as error:
            raise BadArchive(msg("The archive is damaged: {error}", error=error)) from error
        if f"sha256:{checksum.hexdigest()}" != digest:
            raise BadArchive(msg("The content of a layer does not match the digest in the image's configuration."))

    # -- cleaning

    def move_unused_layers(self, wanted: Collection[str]) -> None:
        """Make layers unusable that no image in `wanted` and no pull uses. The caller holds the lock."""
        for folder in _list_folder(self._layers):
            digest = f"sha256:{folder.name}"
            is_done = not folder.name.startswith((DRAFT_PREFIX, _TRASH_PREFIX))
            if is_done and digest not in wanted and digest not in self._reserved:
                folder.rename(self._layers / f"{_TRASH_PREFIX}{secrets.token_hex(8)}")

    def remove_trash(self) -> None:
        """Remove what `move_unused_layers` found, and old partial downloads."""
        for folder in _list_folder(self._layers):
            if folder.name.startswith(_TRASH_PREFIX):
                remove_tree(str(folder))
        now = time.time()
        for blob in _list_folder(self._blobs):
            with suppress(OSError):
                if now - blob.stat().st_mtime > _MAX_BLOB_AGE:
                    blob.unlink()

    def list_unfinished_folders(self) -> list[str]:
        names = (DRAFT_PREFIX, _TRASH_PREFIX)
        return [str(folder) for folder in _list_folder(self._layers) if folder.name.startswith(names)]

    def _get_folder(self, digest: str) -> Path:
        return self._layers / _get_hex(digest)


def _get_hex(digest: str) -> str:
    return digest.partition(":")[2]


def _list_folder(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []

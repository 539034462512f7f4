"""Stored images: unpacked root filesystems in home/images, with their configuration.

`NAME.json` names a folder in `roots/`; a new import of the same name creates a new folder and then replaces the file,
so an image is always complete. Folders without a name are garbage, removed once no task uses them. A pulled image has
its full name, such as `docker.io/library/debian:12`, and consists of hard links to shared layers (`layers.py`).
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.core.errors import UserError
from holdfast.core.image_names import DOCKER_HUB, parse_reference
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds, is_disk_full_error
from holdfast.engines.base import ImageSummary

from ..image import Image
from ..libc import sync_filesystem
from ..sandbox.roots import find_shell
from ..tree_removal import remove_tree
from .archives import unpack_image
from .files import write_file_safely
from .image_config import ImageConfig
from .layers import DRAFT_PREFIX, Layer, LayerStore
from .root_builder import RootBuilder
from .tars import BadArchive, NoShell
from .unpacking import Unpacker, make_disk_space_error

_MAX_FILE_NAME_LENGTH = 200
_TUPLE_FIELDS = ("entrypoint", "cmd", "layers")


class ImageStore:
    """Blocking: call it from a thread."""

    def __init__(self, folder: Path, marks: DiskThresholds | None = None, default_registry: str = DOCKER_HUB) -> None:
        self.folder = folder
        self.marks = marks or DiskThresholds()
        self._default_registry = default_registry
        self._roots = folder / "roots"
        self._lock = threading.Lock()
        self.layers = LayerStore(folder, self.marks, self._lock)
        self._images: dict[str, Image] | None = None  # by name, as in the files; None: not read yet

    def find_image(self, name: str) -> Image | None:
        """Find it by its name; a missing tag means `latest`. Imported images come before pulled ones. It only blocks at
        its first call."""
        images = self._load_images()
        bare = name.removesuffix(":latest")
        found = images.get(name) or images.get(f"{name}:latest") or images.get(bare)
        if found is None and (reference := parse_reference(name, self._default_registry)) is not None:
            found = images.get(str(reference))
        return found

    def record_use(self, image: Image) -> None:
        """Record that a task starts on it."""
        path = self._get_index_file(image.name)
        if path is not None and image.digest:
            with suppress(OSError):
                os.utime(path)

    def _load_images(self) -> dict[str, Image]:
        if self._images is None:
            self._images = {image.name: image for image in self._list_images()}
        return self._images

    def is_valid_name(self, name: str) -> bool:
        return self._get_index_file(name) is not None

    def list_names(self) -> list[str]:
        return [HOST_IMAGE, *sorted(self._load_images())]

    def list_image_summaries(self) -> list[ImageSummary]:
        host = ImageSummary(name=HOST_IMAGE, size=None, created_at=None, source=msg("this machine"))
        images = sorted(self._load_images().values(), key=lambda image: image.name)
        return [host, *(image.summarize(self._read_use_time(image)) for image in images)]

    def _read_use_time(self, image: Image) -> datetime | None:
        path = self._get_index_file(image.name)
        try:
            return datetime.fromtimestamp(path.stat().st_mtime, UTC) if path and image.digest else None
        except OSError:
            return None

    def add(self, name: str, file: Path, *, needs_shell: bool = False) -> ImageSummary:
        """Import an archive."""

        def build(folder: Path) -> Image:
            return self._unpack_image(name, file, folder)

        return self._add_image(name, build, needs_shell=needs_shell).summarize()

    def add_from_layers(
        self, name: str, layers: Sequence[Layer], fields: Image, cancelled: threading.Event | None = None
    ) -> Image:
        """Build a pulled image from its layers, the lowest first. `fields` is all that is known about it."""

        def build(folder: Path) -> Image:
            return self._link_image(layers, fields, folder, cancelled)

        return self._add_image(name, build, needs_shell=True)

    def _add_image(self, name: str, build: Callable[[Path], Image], *, needs_shell: bool) -> Image:
        index = self._get_index_file(name)
        if index is None or name == HOST_IMAGE:
            raise UserError(msg("{name} is not a valid image name.", name=repr(name[:100])), field="name")
        self._roots.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self._roots / f"{DRAFT_PREFIX}{secrets.token_hex(8)}"
        try:
            (folder / "rootfs").mkdir(parents=True)
            (folder / "rootfs").chmod(0o755)
            image = build(folder)
            if needs_shell and image.shell is None:
                raise NoShell(
                    msg("The image has no shell: it contains neither bash nor sh. Jobs run their commands in a shell."),
                    hint=msg("Use a base image with a shell, such as debian:stable-slim or alpine."),
                )
            final = self._roots / folder.name.removeprefix(DRAFT_PREFIX)
            image = replace(image, rootfs=str(final / "rootfs"))
            with self._lock:
                folder.rename(final)
                self._write_image(index, image)
                self._load_images()[name] = image
        except OSError as error:
            remove_tree(str(folder))
            if is_disk_full_error(error):
                raise make_disk_space_error() from error
            raise BadArchive(msg("Cannot unpack the image: {error}.", error=error.strerror or error)) from error
        except BaseException:
            remove_tree(str(folder))
            raise
        return image

    def remove(self, name: str) -> bool:
        path = self._get_index_file(name)
        try:
            if path is not None:
                path.unlink()
                self._load_images().pop(name, None)
                return True
        except FileNotFoundError:
            pass
        return False

    def make_public(self, image: Image) -> None:
        """Record that everybody has access to a pulled image."""
        path = self._get_index_file(image.name)
        with self._lock:
            if path is not None and image.private and self._load_images().get(image.name) is image:
                self._images = {**self._load_images(), image.name: replace(image, private=False)}
                self._write_image(path, self._images[image.name])

    def remove_unused_folders(self, in_use: Collection[str]) -> None:
        """Remove folders that no image points to and no task in `in_use` uses, and layers without an image or pull."""
        with self._lock:
            images = self._list_images()
            self.layers.move_unused_layers({digest for image in images for digest in image.layers})
            wanted = {image.rootfs for image in images} | set(in_use)
            folders = [folder for folder in self._list_folders() if not folder.name.startswith(DRAFT_PREFIX)]
        for folder in folders:
            if str(folder / "rootfs") not in wanted:
                remove_tree(str(folder))
        self.layers.remove_trash()

    def list_unfinished_folders(self) -> list[str]:
        """Return unfinished imports, left by a server that died. Call it before any import."""
        roots = [str(folder) for folder in self._list_folders() if folder.name.startswith(DRAFT_PREFIX)]
        return [*roots, *self.layers.list_unfinished_folders()]

    def _list_folders(self) -> list[Path]:
        return list(self._roots.iterdir()) if self._roots.is_dir() else []

    def _unpack_image(self, name: str, file: Path, folder: Path) -> Image:
        rootfs = folder / "rootfs"
        unpacker = Unpacker(str(rootfs), self.marks)
        config = unpack_image(file, unpacker)
        unpacker.set_folder_modes()
        return Image(
            name=name,
            rootfs=str(rootfs),
            shell=find_shell(str(rootfs)),
            size=unpacker.size,
            created_at=datetime.now(UTC),
            source=config.kind,
            **get_config_fields(config),
        )

    def _link_image(
        self, layers: Sequence[Layer], fields: Image, folder: Path, cancelled: threading.Event | None
    ) -> Image:
        rootfs = str(folder / "rootfs")
        builder = RootBuilder(rootfs, self.marks, cancelled)
        for layer in layers:
            builder.add_layer(layer)
        sync_filesystem(rootfs)  # the layers too, before a file names them
        return replace(fields, rootfs=rootfs, shell=find_shell(rootfs), size=sum(layer.size for layer in layers))

    def _list_images(self) -> list[Image]:
        files = self.folder.glob("*.json") if self.folder.is_dir() else ()
        return [image for path in files if (image := self._read_image(path)) is not None]

    def _get_index_file(self, name: str) -> Path | None:
        """Return None if it is not a valid name."""
        if not name or name == HOST_IMAGE or "\0" in name:
            return None
        file = quote(name, safe="").replace(".", "%2E")
        return self.folder / f"{file}.json" if len(file) <= _MAX_FILE_NAME_LENGTH else None

    def _read_image(self, path: Path) -> Image | None:
        try:
            fields: dict[str, Any] = json.loads(path.read_bytes())
            fields["created_at"] = datetime.fromisoformat(fields["created_at"])
            fields.update({name: tuple(fields.get(name, ())) for name in _TUPLE_FIELDS})
            return Image(**fields)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _write_image(self, path: Path, image: Image) -> None:
        fields = {name: getattr(image, name) for name in Image.__dataclass_fields__}
        fields["created_at"] = image.created_at.isoformat()
        write_file_safely(path, json.dumps(fields))


def get_config_fields(config: ImageConfig) -> dict[str, Any]:
    """Return the fields of an image that its configuration determines."""
    names = ("env", "workdir", "user", "entrypoint", "cmd")
    return {name: getattr(config, name) for name in names}

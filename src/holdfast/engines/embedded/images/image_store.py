"""Stored images: unpacked root filesystems in home/images, with their configuration.

`NAME.json` names a folder in `roots/`; a new import of the same name creates a new folder and then replaces the file,
so an image is always complete. Folders without a name are garbage, removed once no task uses them.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.core.errors import UserError
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds, is_disk_full_error
from holdfast.engines.base import ImageSummary

from ..image import Image
from ..sandbox.roots import find_shell
from ..tree_removal import remove_tree
from .archives import unpack_image
from .tars import BadArchive
from .unpacking import Unpacker, make_disk_space_error

_MAX_FILE_NAME_LENGTH = 200
_DRAFT_PREFIX = "new-"


class ImageStore:
    """Blocking: call it from a thread."""

    def __init__(self, folder: Path, marks: DiskThresholds | None = None) -> None:
        self._folder = folder
        self._marks = marks or DiskThresholds()
        self._roots = folder / "roots"
        self._lock = threading.Lock()

    def find_image(self, name: str) -> Image | None:
        """Find it by its name; a missing tag means `latest`."""
        bare = name.removesuffix(":latest")
        for candidate in dict.fromkeys((name, f"{name}:latest", bare)):
            path = self._get_index_file(candidate)
            if path is not None and (image := self._read_image(path)) is not None:
                return image
        return None

    def list_names(self) -> list[str]:
        return [HOST_IMAGE, *sorted(image.name for image in self._list_images())]

    def list_image_summaries(self) -> list[ImageSummary]:
        host = ImageSummary(name=HOST_IMAGE, size=None, created_at=None, source=msg("this machine"))
        return [host, *sorted((image.summary for image in self._list_images()), key=lambda info: info.name)]

    def add(self, name: str, file: Path, *, needs_shell: bool = False) -> ImageSummary:
        index = self._get_index_file(name)
        if index is None or name == HOST_IMAGE:
            raise UserError(msg("{name} is not a valid image name.", name=repr(name[:100])), field="name")
        self._roots.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self._roots / f"{_DRAFT_PREFIX}{secrets.token_hex(8)}"
        try:
            image = self._unpack_image(name, file, folder)
            if needs_shell and image.shell is None:
                raise BadArchive(
                    msg("The image has no shell: it contains neither bash nor sh. Jobs run their commands in a shell."),
                    hint=msg("Use a base image with a shell, such as debian:stable-slim or alpine."),
                )
            final = self._roots / folder.name.removeprefix(_DRAFT_PREFIX)
            image = replace(image, rootfs=str(final / "rootfs"))
            with self._lock:
                folder.rename(final)
                self._write_image(index, image)
        except OSError as error:
            remove_tree(str(folder))
            if is_disk_full_error(error):
                raise make_disk_space_error() from error
            raise BadArchive(msg("Cannot unpack the image: {error}.", error=error.strerror or error)) from error
        except BaseException:
            remove_tree(str(folder))
            raise
        return image.summary

    def remove(self, name: str) -> bool:
        path = self._get_index_file(name)
        try:
            if path is not None:
                path.unlink()
                return True
        except FileNotFoundError:
            pass
        return False

    def remove_unused_folders(self, in_use: Collection[str]) -> None:
        """Remove folders that no image points to and no task in `in_use` uses."""
        with self._lock:
            wanted = {image.rootfs for image in self._list_images()} | set(in_use)
            folders = [folder for folder in self._list_folders() if not folder.name.startswith(_DRAFT_PREFIX)]
        for folder in folders:
            if str(folder / "rootfs") not in wanted:
                remove_tree(str(folder))

    def list_unfinished_folders(self) -> list[str]:
        """Return unfinished imports, left by a server that died. Call it before any import."""
        return [str(folder) for folder in self._list_folders() if folder.name.startswith(_DRAFT_PREFIX)]

    def _list_folders(self) -> list[Path]:
        return list(self._roots.iterdir()) if self._roots.is_dir() else []

    def _unpack_image(self, name: str, file: Path, folder: Path) -> Image:
        rootfs = folder / "rootfs"
        rootfs.mkdir(parents=True)
        rootfs.chmod(0o755)
        unpacker = Unpacker(str(rootfs), self._marks)
        config = unpack_image(file, unpacker)
        unpacker.set_folder_modes()
        return Image(
            name=name,
            rootfs=str(rootfs),
            shell=find_shell(str(rootfs)),
            size=unpacker.size,
            created_at=datetime.now(UTC),
            source=config.kind,
            env=config.env,
            workdir=config.workdir,
        )

    def _list_images(self) -> list[Image]:
        files = self._folder.glob("*.json") if self._folder.is_dir() else ()
        return [image for path in files if (image := self._read_image(path)) is not None]

    def _get_index_file(self, name: str) -> Path | None:
        """Return None if it is not a valid name."""
        if not name or name == HOST_IMAGE or "\0" in name:
            return None
        file = quote(name, safe="").replace(".", "%2E")
        return self._folder / f"{file}.json" if len(file) <= _MAX_FILE_NAME_LENGTH else None

    def _read_image(self, path: Path) -> Image | None:
        try:
            fields: dict[str, Any] = json.loads(path.read_bytes())
            fields["created_at"] = datetime.fromisoformat(fields["created_at"])
            return Image(**fields)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _write_image(self, path: Path, image: Image) -> None:
        fields = {name: getattr(image, name) for name in Image.__dataclass_fields__}
        fields["created_at"] = image.created_at.isoformat()
        draft = path.with_suffix(".draft")
        with open(draft, "w") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)

"""Images: the root filesystems of jobs."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.disk_space import DiskThresholds, is_disk_full_error, require_space
from holdfast.engines.base import ImageSummary, SupportsImagePulls
from holdfast.engines.engine_set import EngineSet

from ..audit import AuditedStore, AuditEntry
from ..errors import Unavailable
from ..name_suggestions import suggest_name
from ..permissions import require_admin

ADMINS_ONLY_MESSAGE = msg("Only admins can manage images")
log = logging.getLogger(__name__)

_IMAGE_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
BUFFER_SIZE = 1024 * 1024  # bytes per write

AccessGuard = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]  # cancels the work and raises if access is revoked


@runtime_checkable
class SupportsImages(Protocol):
    """An engine into which images are imported."""

    name: str

    async def import_image(self, name: str, file: Path) -> ImageSummary:
        """Import a docker-save tar, an OCI layout or a rootfs tar; raise UserError for other files."""
        ...

    async def remove_image(self, name: str) -> bool:
        """Remove an image; return False if it is not found."""
        ...


class Images:
    def __init__(self, store: AuditedStore, engine: EngineSet, home: Path, marks: DiskThresholds) -> None:
        self._disk_thresholds = marks
        self._store = store
        self._engine = engine
        self._upload_folder = home / "uploads"

    async def list(self, actor: Actor) -> Sequence[ImageSummary]:
        """Return the images of the engines that jobs can choose; private ones only to admins: others could not use
        them."""
        found = [image for image in await self._engine.list_images() if image.engine in ("", *self._engine.names)]
        shows_all = has_permission(actor, Permission.MANAGE_INSTALLATION)
        return [image for image in found if shows_all or not self._is_private(image)]

    def _is_private(self, image: ImageSummary) -> bool:
        engine = self._engine.get_engine(image.engine)
        return isinstance(engine, SupportsImagePulls) and engine.is_private_image(image.name)

    def check_import(self, actor: Actor, name: str) -> None:
        """Check everything that can be rejected before the first byte is read."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        if not _IMAGE_NAME_PATTERN.fullmatch(name) or ".." in name:
            raise UserError(
                msg("{name} is not a valid image name", name=repr(name[:100])),
                field="name",
                hint=msg("Use letters, digits and . _ / : @ -, such as pytorch:2.4."),
            )
        if name == HOST_IMAGE:
            raise Conflict(
                msg("{host_image} is reserved for the host's root filesystem", host_image=HOST_IMAGE), field="name"
            )
        self._find_import_engine()

    async def add(self, actor: Actor, name: str, chunks: AsyncIterator[bytes], guard: AccessGuard) -> ImageSummary:
        """Import an image from a stream of tar bytes; `guard` runs the upload."""
        self.check_import(actor, name)
        path = self._upload_folder / secrets.token_hex(8)
        try:
            await self._receive_upload(path, chunks, guard)
            engine = self._find_import_engine()
            found = await engine.import_image(name, path)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        await self._store.record_entry(AuditEntry(actor.name, AuditKind.IMAGE, AuditAction.CREATED, name))
        return replace(found, engine=engine.name) if len(self._engine.names) > 1 else found

    async def remove(self, actor: Actor, name: str) -> None:
        """Remove an image from every engine that has it."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        holders = [engine for engine in self._engine if isinstance(engine, SupportsImages | SupportsImagePulls)]
        removed = [await engine.remove_image(name) for engine in holders]
        if not any(removed):
            known = [image.name for image in await self._engine.list_images()]
            raise NotFound(
                msg("Image {name} not found", name=name[:100]), hint=suggest_name(name, known, "holdfast image ls")
            )
        await self._store.record_entry(AuditEntry(actor.name, AuditKind.IMAGE, AuditAction.REMOVED, name))

    def delete_partial_uploads(self) -> None:
        """Delete partial uploads of a killed server. Call it before the first request."""
        for path in self._upload_folder.glob("*"):
            path.unlink(missing_ok=True)

    async def _receive_upload(self, path: Path, chunks: AsyncIterator[bytes], guard: AccessGuard) -> None:
        try:
            file = await asyncio.to_thread(self._create_upload_file, path)
            try:
                await guard(_write_chunks(file, chunks, self._disk_thresholds))
            finally:
                await asyncio.to_thread(file.close)
        except OSError as error:
            if is_disk_full_error(error):
                raise Unavailable(
                    msg("The image was not saved: the server's disk is full"),
                    hint=msg("Free disk space first: run `holdfast prune` to see what uses it."),
                ) from error
            raise Unavailable(msg("The upload could not be saved: {error}", error=error.strerror)) from error

    def _create_upload_file(self, path: Path) -> IO[bytes]:
        self._upload_folder.mkdir(mode=0o700, exist_ok=True)
        return path.open("xb")

    def _find_import_engine(self) -> SupportsImages:
        """Return the first engine of those that jobs can choose."""
        engines = map(self._engine.get_engine, self._engine.names)
        found = next((engine for engine in engines if isinstance(engine, SupportsImages)), None)
        if found is None:
            text = msg("The engine {name} does not support importing images", name=self._engine.name)
            raise Conflict(text, hint=msg("Load the image with the engine's own tool: `docker load -i FILE`."))
        return found


async def _write_chunks(file: IO[bytes], chunks: AsyncIterator[bytes], marks: DiskThresholds) -> None:
    waiting = bytearray()

    def write_buffer(data: bytes) -> None:
        require_space(file.fileno(), len(data), marks)
        file.write(data)

    async for chunk in chunks:
        waiting += chunk
        if len(waiting) >= BUFFER_SIZE:
            await asyncio.to_thread(write_buffer, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(write_buffer, bytes(waiting))

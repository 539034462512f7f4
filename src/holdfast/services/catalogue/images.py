"""Images: the root filesystems jobs run on."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.disk_space import DiskMarks, is_disk_full, require_room
from holdfast.engines.base import Engine, ImageInfo

from ..audit import AuditedStore, AuditEntry
from ..name_suggestions import nearest
from ..refusals import Unavailable

log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
BUFFER = 1024 * 1024  # bytes written at one time

Guard = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]  # ends the work, and raises, when access is lost


@runtime_checkable
class KeepsImages(Protocol):
    """An engine whose images are put in by hand."""

    async def import_image(self, name: str, file: Path) -> ImageInfo:
        """From a docker-save tar, an OCI layout or a rootfs tar. UserError when it is none of them."""
        ...

    async def remove_image(self, name: str) -> bool:
        """False when there was none."""
        ...


class Images:
    def __init__(self, store: AuditedStore, engine: Engine, home: Path, marks: DiskMarks) -> None:
        self._marks = marks
        self._store = store
        self._engine = engine
        self._uploads = home / "uploads"

    async def list(self, actor: Actor) -> Sequence[ImageInfo]:
        return await self._engine.images()

    def check_import(self, actor: Actor, name: str) -> None:
        """Everything that can be refused before the first byte is read."""
        _need_admin(actor)
        if not _NAME.fullmatch(name) or ".." in name:
            raise UserError(
                msg("{name} cannot be the name of an image", name=repr(name[:100])),
                field="name",
                hint=msg("Use letters, digits and . _ / : @ -, such as pytorch:2.4."),
            )
        if name == HOST_IMAGE:
            raise Conflict(
                msg("{host_image} is this machine's own root filesystem", host_image=HOST_IMAGE), field="name"
            )
        self._shelf()

    async def add(self, actor: Actor, name: str, chunks: AsyncIterator[bytes], guard: Guard) -> ImageInfo:
        """From the bytes of a tar, as they come; `guard` runs what receives them."""
        self.check_import(actor, name)
        path = self._uploads / secrets.token_hex(8)
        try:
            await self._receive(path, chunks, guard)
            found = await self._shelf().import_image(name, path)
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)
        await self._store.note(_deed(actor, Act.CREATED, name))
        return found

    async def remove(self, actor: Actor, name: str) -> None:
        _need_admin(actor)
        if not await self._shelf().remove_image(name):
            known = [image.name for image in await self._engine.images()]
            raise NotFound(
                msg("There is no image {name}", name=name[:100]), hint=nearest(name, known, "holdfast image ls")
            )
        await self._store.note(_deed(actor, Act.REMOVED, name))

    def clear_uploads(self) -> None:
        """What a server that was killed had half received. To be called before the first request."""
        for path in self._uploads.glob("*"):
            path.unlink(missing_ok=True)

    async def _receive(self, path: Path, chunks: AsyncIterator[bytes], guard: Guard) -> None:
        try:
            file = await asyncio.to_thread(self._open, path)
            try:
                await guard(_write_all(file, chunks, self._marks))
            finally:
                await asyncio.to_thread(file.close)
        except OSError as error:
            if is_disk_full(error):
                raise Unavailable(
                    msg("The image was not kept: there is no room left for it on the server's disk"),
                    hint=msg("Free room first: `holdfast prune` shows what takes it."),
                ) from error
            raise Unavailable(msg("The upload could not be kept: {strerror}", strerror=error.strerror)) from error

    def _open(self, path: Path) -> IO[bytes]:
        self._uploads.mkdir(mode=0o700, exist_ok=True)
        return path.open("xb")

    def _shelf(self) -> KeepsImages:
        if isinstance(self._engine, KeepsImages):
            return self._engine
        raise Conflict(msg("The engine {name} takes its images from elsewhere", name=self._engine.name))


async def _write_all(file: IO[bytes], chunks: AsyncIterator[bytes], marks: DiskMarks) -> None:
    waiting = bytearray()

    def write(data: bytes) -> None:
        require_room(file.fileno(), len(data), marks)
        file.write(data)

    async for chunk in chunks:
        waiting += chunk
        if len(waiting) >= BUFFER:
            await asyncio.to_thread(write, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(write, bytes(waiting))


def _deed(actor: Actor, act: Act, name: str) -> AuditEntry:
    return AuditEntry(actor=actor.name, kind=AuditKind.IMAGE, act=act, subject=name)


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins manage images"))

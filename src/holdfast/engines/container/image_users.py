"""Finds the user of an image: by a container that is created to read the image's user list, and never started."""

from __future__ import annotations

import asyncio
import posixpath
import stat
import tarfile
from collections.abc import Mapping
from dataclasses import replace

from holdfast.core.errors import EngineError
from holdfast.engines.embedded.lifecycle.user_files import has_usable_home, make_user_refusal
from holdfast.engines.task_user import TaskUser, UnknownUser, is_root_user, resolve_user

from .daemon import ContainerImage, Daemon, DaemonError
from .names import ContainerNames

_MAX_LINKS = 8


class ImageUsers:
    def __init__(self, daemon: Daemon, names: ContainerNames) -> None:
        self._daemon = daemon
        self._names = names
        self._users: dict[tuple[str, str], TaskUser | None] = {}  # by image id and user: neither changes
        self._lock = asyncio.Lock()

    async def find_user(self, name: str, image: ContainerImage) -> TaskUser | None:
        """Return None for root. StartRefused if the image does not contain its user."""
        if is_root_user(image.user):
            return None
        key = image.id, image.user
        async with self._lock:
            if key not in self._users:
                try:
                    self._users[key] = await self._read_user(image)
                except UnknownUser as error:
                    raise make_user_refusal(name, error) from error
            return self._users[key]

    async def _read_user(self, image: ContainerImage) -> TaskUser | None:
        try:
            return await self._probe_image(image, {})
        except EngineError:  # Podman looks up the image's user, and fails if it does not exist
            return await self._probe_image(image, {"User": "0:0"})

    async def _probe_image(self, image: ContainerImage, more: Mapping[str, str]) -> TaskUser | None:
        """Read the user from a container that is never started."""
        container = self._names.make_probe_name(image.id)
        await self._daemon.remove(container, force=True)  # left by a server that died
        body = {"Image": image.id, "Entrypoint": ["/bin/sh"], "Cmd": [], "Labels": self._names.make_probe_labels()}
        await self._daemon.create(container, {**body, "HostConfig": {"NetworkMode": "none"}, **more})
        try:
            lists = [await self._read_file(container, path) for path in ("/etc/passwd", "/etc/group")]
            user = resolve_user(image.user, *lists)
            if user is None or not user.home:
                return user
            found = await self._find_entry(container, user.home)
            is_usable = found is not None and _is_usable_home(user, found[0])
            return user if is_usable else replace(user, home="")
        finally:
            await asyncio.shield(self._daemon.remove(container, force=True))

    async def _read_file(self, container: str, path: str) -> bytes:
        """Return the beginning of a regular file; empty if there is none."""
        found = await self._find_entry(container, path)
        return found[1] if found is not None and found[0].isreg() else b""

    async def _find_entry(self, container: str, path: str) -> tuple[tarfile.TarInfo, bytes] | None:
        """Return a file or folder; some daemons do not follow links."""
        for _ in range(_MAX_LINKS):
            try:
                found = await self._daemon.read_archive_entry(container, path)
            except DaemonError as error:
                raise EngineError(str(error)) from error
            if found is None or not found[0].issym():
                return found
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[0].linkname))
        return None


def _is_usable_home(user: TaskUser, entry: tarfile.TarInfo) -> bool:
    kind = stat.S_IFDIR if entry.isdir() else 0
    return has_usable_home(user, kind | entry.mode, entry.uid, entry.gid)

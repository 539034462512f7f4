"""Binds the sources of a task's mounts where no job can redirect them, while its container starts. Blocking.

The daemon only takes paths. A folder that users can write to can be replaced by a link at any time, and the daemon
would follow it. So each source is opened part by part, as the embedded engine does, and bound in a folder that only
root can change. The binds are removed once the container has its own.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from holdfast.core.exits.exit import Cause
from holdfast.core.job import Mount
from holdfast.core.messages import msg
from holdfast.core.volumes import VolumeKind
from holdfast.engines.embedded.sandbox.mounts import InvalidMount, is_within, make_mount_binds, open_mount_source
from holdfast.engines.start_refusal import StartRefused

from .options import ContainerOptions
from .render import ContainerMount

_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_NO_IMAGE = "/proc/self/fdinfo"  # has no links: targets are resolved by the daemon, inside the container
_libc = ctypes.CDLL(None, use_errno=True)


class MountStaging:
    def __init__(self, tag: str, protected: Sequence[str], options: ContainerOptions) -> None:
        self._base = os.path.realpath(f"/run/holdfast-mounts-{tag}")
        self._has_root = options.has_root
        self._multi_user = options.multi_user
        self._protected = [os.path.realpath(path) for path in protected]

    def resolve_mounts(self, mounts: Sequence[Mount]) -> list[ContainerMount]:
        """Check the mounts of a task. StartRefused if one is not possible, or shows the server's own files."""
        try:
            binds = make_mount_binds(mounts, _NO_IMAGE)
        except InvalidMount as bad:
            raise StartRefused(str(bad), cause=Cause.NOT_ALLOWED) from bad
        for mount, bind in zip(mounts, binds, strict=True):
            source = os.path.realpath(bind.source)
            if self._has_root and (is_within(self._base, [source]) or is_within(source, [self._base])):
                text = msg(
                    "{source} cannot be mounted in a container: mounts are prepared in {folder}. "
                    "Mount a folder that does not contain it.",
                    source=bind.source,
                    folder=self._base,
                )
                raise StartRefused(text, cause=Cause.NOT_ALLOWED)
            if self._shows_server_files(mount, source):
                text = msg("The mount at {target} is not allowed: it shows files of the server.", target=bind.target)
                raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        return [ContainerMount(source=bind.source, target=bind.target, read_only=bind.read_only) for bind in binds]

    def _shows_server_files(self, mount: Mount, source: str) -> bool:
        if source == "/" or any(is_within(path, [source]) for path in self._protected):
            return True
        if mount.volume.kind is VolumeKind.SHARED and source == mount.volume.folder:
            return False  # shared files are in the state folder by default
        return any(is_within(source, [path]) for path in self._protected)

    def stage_mounts(self, name: str, mounts: Sequence[ContainerMount]) -> list[ContainerMount]:
        """Return the mounts with their sources bound in a folder of the container `name`, until `unstage_mounts`.
        Without root they stay as they are: a user who runs only own jobs gains nothing by redirecting them."""
        if not self._has_root and mounts and self._multi_user:
            text = msg("Mounts in containers need a server that runs as root, because it has several users.")
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        if not mounts or not self._has_root:
            return list(mounts)
        folder = f"{self._base}/{name}"
        self.unstage_mounts(name)
        os.makedirs(folder, mode=0o700)
        staged = []
        with ExitStack() as opened:
            for number, mount in enumerate(mounts):
                fd = _open_source(mount.source)
                opened.callback(os.close, fd)
                point = f"{folder}/{number}"
                _bind(fd, point)
                staged.append(ContainerMount(source=point, target=mount.target, read_only=mount.read_only))
        return staged

    def unstage_mounts(self, name: str) -> None:
        folder = f"{self._base}/{name}"
        with suppress(FileNotFoundError):
            for entry in os.listdir(folder):
                _unbind(f"{folder}/{entry}")
            os.rmdir(folder)

    def clean_up(self) -> None:
        """Remove what a server that died left."""
        with suppress(FileNotFoundError):
            for name in os.listdir(self._base):
                self.unstage_mounts(name)

    def remove_folder(self) -> None:
        with suppress(OSError):  # another server may use it
            os.rmdir(self._base)


def _open_source(path: str) -> int:
    try:
        return open_mount_source(path)
    except InvalidMount as bad:
        raise StartRefused(str(bad), cause=Cause.NOT_ALLOWED) from bad


def _bind(fd: int, point: str) -> None:
    """Bind it there, apart from the original: removing the bind must not unmount what is mounted below the source."""
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.mkdir(point, 0o700)
    else:
        os.close(os.open(point, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _mount(f"/proc/self/fd/{fd}", point, _MS_BIND | _MS_REC)
    _mount("none", point, _MS_REC | _MS_PRIVATE)


def _mount(source: str, target: str, flags: int) -> None:
    if _libc.mount(source.encode(), target.encode(), None, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _unbind(point: str) -> None:
    """Unmount it, and remove only the empty mount point: never the files below."""
    _libc.umount2(point.encode(), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    with suppress(OSError):
        if os.path.isdir(point):
            os.rmdir(point)
        elif os.path.getsize(point) == 0:
            os.unlink(point)

"""Mounts of a task: sources opened without following links, targets that no earlier job can redirect.

A folder that users can write to can be replaced by a link at any time. So a source is opened part by part and passed to
the sandbox as a descriptor, and a target is never inside another mount.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from holdfast.core.job import Mount
from holdfast.core.messages import msg
from holdfast.engines.sandbox_paths import HOLDFAST_PATH

from .render import Bind
from .roots import resolve_path_inside

MAX_MOUNTS = 64  # descriptors reserved for them
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")


class InvalidMount(Exception):
    """A mount that is not possible; the text says which, and why."""


def open_mount_source(path: str) -> int:
    """Return a descriptor of exactly this path. InvalidMount if a part of it is a link, or missing."""
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in PurePosixPath(path).parts[1:]:
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = below
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise InvalidMount(
                    msg(
                        "{path} cannot be mounted: {part} in its path is now a symbolic link.",
                        path=path,
                        part=repr(part),
                    )
                )
    except OSError as error:
        os.close(fd)
        raise InvalidMount(msg("{path} cannot be mounted: {error}.", path=path, error=error.strerror)) from error
    except InvalidMount:
        os.close(fd)
        raise
    return fd


def probe_mount_source(source: str) -> None:
    """Return once it responds, even with an error: errors are reported when it is mounted."""
    with suppress(InvalidMount):
        os.close(open_mount_source(source))


def get_mount_folder(mount: Mount) -> str:
    """Return the folder of its volume on this machine. InvalidMount if there is none."""
    if not mount.volume.folder:
        text = msg("{source} cannot be mounted: it has no folder on this machine.", source=mount.source)
        raise InvalidMount(text)
    return mount.volume.folder


def make_mount_binds(mounts: Sequence[Mount], lower: str) -> list[Bind]:
    """Return the bind of each mount, with the image's links resolved within the image."""
    if len(mounts) > MAX_MOUNTS:
        raise InvalidMount(
            msg("The task has {mounts} mounts; the limit is {limit}.", mounts=len(mounts), limit=MAX_MOUNTS)
        )
    binds: list[Bind] = []
    for mount in mounts:
        if not mount.target.startswith("/"):
            raise InvalidMount(msg("The mount target {target} is not an absolute path.", target=repr(mount.target)))
        target = resolve_path_inside(lower, mount.target)
        if (
            target in (None, "/")
            or is_within(str(target), (*_SYSTEM_FOLDERS, HOLDFAST_PATH))
            or is_within(HOLDFAST_PATH, [str(target)])
        ):
            raise InvalidMount(msg("Mounting at {target} is not allowed.", target=mount.target))
        binds.append(Bind(source=get_mount_folder(mount), target=str(target), read_only=mount.read_only))
    for bind in binds:
        others = [other.target for other in binds if other is not bind]
        if is_within(bind.target, others):
            raise InvalidMount(msg("{target} is inside another mount, or is mounted twice.", target=bind.target))
    return binds


def is_within(path: str, folders: Sequence[str]) -> bool:
    """Return whether it is one of them, or below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)

"""What a task mounts: sources opened so that no link can lead elsewhere, targets that no earlier job can bend.

A folder that people may write to can be replaced by a link at any time, also between two lines of ours. So a source is
walked part by part and handed to the sandbox as a descriptor, and a target never lies within another mount.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from holdfast.core.job import Mount
from holdfast.core.messages import msg

from ..sandbox_paths import OWN
from .render import Bind
from .roots import follow_inside

MAX_COUNT = 64  # descriptors set aside for them
_SYSTEM = ("/proc", "/sys", "/dev")


class BadMount(Exception):
    """Says which mount cannot be made, and why."""


def open_source(path: str) -> int:
    """A descriptor of exactly this place. BadMount when a part of the way is a link, or missing."""
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in PurePosixPath(path).parts[1:]:
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = below
            if stat.S_ISLNK(os.fstat(fd).st_mode):
                raise BadMount(
                    msg("{path} cannot be mounted: {part} on its way has become a link.", path=path, part=repr(part))
                )
    except OSError as error:
        os.close(fd)
        raise BadMount(msg("{path} cannot be mounted: {strerror}.", path=path, strerror=error.strerror)) from error
    except BadMount:
        os.close(fd)
        raise
    return fd


def try_source(source: str) -> None:
    """Returns when it answered, whatever it said: what is wrong with it is told when it is mounted."""
    with suppress(BadMount):
        os.close(open_source(source))


def plan_mounts(mounts: Sequence[Mount], lower: str) -> list[Bind]:
    """Where each is to be mounted, with the image's own links followed within the image."""
    if len(mounts) > MAX_COUNT:
        raise BadMount(
            msg("{mounts} mounts are more than the {most} a task can have.", mounts=len(mounts), most=MAX_COUNT)
        )
    binds: list[Bind] = []
    for mount in mounts:
        if not mount.target.startswith("/"):
            raise BadMount(msg("The mount target {target} is not an absolute path.", target=repr(mount.target)))
        target = follow_inside(lower, mount.target)
        if target in (None, "/") or within(str(target), (*_SYSTEM, OWN)) or within(OWN, [str(target)]):
            raise BadMount(msg("Nothing can be mounted at {target}.", target=mount.target))
        binds.append(Bind(source=mount.source, target=str(target), read_only=mount.read_only))
    for bind in binds:
        others = [other.target for other in binds if other is not bind]
        if within(bind.target, others):
            raise BadMount(msg("{target} lies within another mount, or is mounted twice.", target=bind.target))
    return binds


def within(path: str, folders: Sequence[str]) -> bool:
    """Is one of them, or lies below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)

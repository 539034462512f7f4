"""Where groups' volumes and files appear in tasks."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.identity import group_path
from holdfast.core.job import FILES, Mount
from holdfast.engines.base import Launch

VOLUMES = "/project"


def volume_path(group: str) -> str:
    return f"{VOLUMES}/{group_path(group)}"


def with_volume(launch: Launch, source: str) -> Launch:
    """The launch with its group's volume; what the job itself mounts there goes first."""
    return _with(launch, Mount(source=source, target=volume_path(launch.group), read_only=False))


def with_files(launch: Launch, source: str, *, isolated: bool) -> Launch:
    """The launch with the files that its group shares. Where nothing appears at another path, a variable leads there;
    it does so everywhere, for scripts that are to run on both."""
    launch = replace(launch, env={"HOLDFAST_FILES": FILES if isolated else source, **launch.env})
    return _with(launch, Mount(source=source, target=FILES, read_only=False)) if isolated else launch


def _with(launch: Launch, mount: Mount) -> Launch:
    return launch if _is_taken(mount.target, launch.mounts) else replace(launch, mounts=(*launch.mounts, mount))


def _is_taken(target: str, mounts: Sequence[Mount]) -> bool:
    ours = f"{target}/"
    others = [f"/{posixpath.normpath(mount.target).strip('/')}/" for mount in mounts]
    return any(ours.startswith(other) or other.startswith(ours) for other in others)

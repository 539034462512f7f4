"""Checks that the folders a task mounts respond: a network file system may not, and blocks its reader."""

from __future__ import annotations

from functools import partial

from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.engines.base import LaunchSpec
from holdfast.hang_guard import HangGuard, NotResponding

from ..sandbox.mounts import probe_mount_source
from .start_refusal import StartRefused

_MOUNT_TIMEOUT = 30.0  # seconds for each folder


class MountCheck:
    def __init__(self) -> None:
        self._guard = HangGuard("embedded-mounts")

    async def check_mounts(self, launch: LaunchSpec) -> None:
        """Refusal when a folder does not respond."""
        try:
            for source in dict.fromkeys(mount.source for mount in launch.mounts):
                await self._guard.run_once_per_path(source, partial(probe_mount_source, source), _MOUNT_TIMEOUT)
        except NotResponding:
            text = msg("A mounted folder is not responding.")
            raise StartRefused(text, cause=Cause.START_FAILED, transient=True) from None

"""Masks for parts of /proc, /sys and the machine's files in every sandbox. Blocking: call it from a thread.

/sys is the machine's own, read-only, and everything mounted below it is covered: file systems for debugging and
tracing, security modules, firmware variables, and the cgroups, of which a task only sees its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from holdfast.engines.sandbox_paths import CGROUP_PATH

from ..mount_table import Mount, MountTable, find_top_mounts, is_folder_mount
from .host import SHOWN_FOLDERS
from .render import Bind, SandboxGuard

# The lists that container runtimes use by default.
READ_ONLY_PATHS = ("/proc/sys", "/proc/fs", "/proc/irq", "/proc/bus", "/proc/sysrq-trigger")
MASKED_PATHS = (
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
)  # fmt: skip
MASKED_SYS_PATHS = ("/sys/firmware", "/sys/devices/virtual/powercap")
# Covered whether mounted or not: a mount on the machine reaches running sandboxes too.
SYS_MOUNT_POINTS = (
    CGROUP_PATH, "/sys/fs/bpf", "/sys/fs/fuse/connections", "/sys/fs/pstore", "/sys/fs/resctrl", "/sys/fs/selinux",
    "/sys/fs/smackfs", "/sys/kernel/config", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing",
)  # fmt: skip
_HARMLESS_FILESYSTEMS = frozenset({"fuse.lxcfs"})  # shows a container its own processors


def build_guard(*, privileged: bool) -> SandboxGuard:
    guard = SandboxGuard(
        privileged=privileged, read_only=tuple(path for path in READ_ONLY_PATHS if os.path.exists(path))
    )
    return mask_sys_paths(mask_paths(guard, MASKED_PATHS), MountTable().read_mounts())


def mask_sys_paths(guard: SandboxGuard, mounts: Iterable[Mount], groups: Iterable[Bind] = ()) -> SandboxGuard:
    """Cover the current mounts below /sys; `groups` are the task's own cgroups."""
    groups = tuple(groups)
    shown = {bind.target for bind in groups}
    folders = {path for path in (*MASKED_SYS_PATHS, *SYS_MOUNT_POINTS) if os.path.isdir(path)}
    files: set[str] = set()
    for point, mount in find_top_mounts(each for each in mounts if each.point.startswith("/sys/")).items():
        if mount.kind not in _HARMLESS_FILESYSTEMS:
            (files if is_folder_mount(mount) is False else folders).add(point)
    outermost = _find_outermost_paths(folders | files)
    return replace(
        guard,
        sys_folders=tuple(path for path in outermost if path in folders and path not in shown),
        sys_files=tuple(path for path in outermost if path in files),
        groups=groups,
    )


def _find_outermost_paths(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not found or not path.startswith(f"{found[-1]}/"):
            found.append(path)
    return found


def mask_host_paths(guard: SandboxGuard, paths: Iterable[str]) -> SandboxGuard:
    """Mask hidden paths in the machine's folders that are bound into the sandbox."""
    return mask_paths(guard, (path for path in paths if path.split("/")[1] in SHOWN_FOLDERS))


def mask_paths(guard: SandboxGuard, paths: Iterable[str]) -> SandboxGuard:
    """Cover each of these paths that exists with an empty folder or an empty file."""
    present = [path for path in paths if os.path.lexists(path)]
    return replace(
        guard,
        empty_folders=(*guard.empty_folders, *(path for path in present if os.path.isdir(path))),
        empty_files=(*guard.empty_files, *(path for path in present if not os.path.isdir(path))),
    )

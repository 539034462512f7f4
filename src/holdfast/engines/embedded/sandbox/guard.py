"""Which parts of /proc, /sys and the machine's files are masked in every sandbox. Blocking: call it from a thread.

/sys is the machine's own, read-only, and everything mounted below it is covered: file systems for debugging and
tracing, security modules, firmware variables, and the control groups, of which a task sees its own alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from ..mount_table import Mount, MountTable, is_folder, top_mounts
from ..sandbox_paths import CGROUP_POINT
from .host import SHOWN
from .render import Bind, Guard

# The lists that container runtimes use by default.
_READ_ONLY_PATHS = ("/proc/sys", "/proc/fs", "/proc/irq", "/proc/bus", "/proc/sysrq-trigger")
_MASKED_PATHS = (
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
    "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
)  # fmt: skip
_MASKED_SYS_PATHS = ("/sys/firmware", "/sys/devices/virtual/powercap")
# Covered whether something is mounted there or not: a mount on the machine reaches running sandboxes too.
_SYS_MOUNT_POINTS = (
    CGROUP_POINT, "/sys/fs/bpf", "/sys/fs/fuse/connections", "/sys/fs/pstore", "/sys/fs/resctrl", "/sys/fs/selinux",
    "/sys/fs/smackfs", "/sys/kernel/config", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing",
)  # fmt: skip
_HARMLESS_KINDS = frozenset({"fuse.lxcfs"})  # shows a container its own processors


def find_guard(*, privileged: bool) -> Guard:
    """The masks for this machine."""
    guard = Guard(privileged=privileged, read_only=tuple(path for path in _READ_ONLY_PATHS if os.path.exists(path)))
    return cover_sys(mask_paths(guard, _MASKED_PATHS), MountTable().read())


def cover_sys(guard: Guard, mounts: Iterable[Mount], groups: Iterable[Bind] = ()) -> Guard:
    """Cover what is mounted below /sys at this moment; `groups` are the task's own control groups."""
    groups = tuple(groups)
    shown = {bind.target for bind in groups}
    folders = {path for path in (*_MASKED_SYS_PATHS, *_SYS_MOUNT_POINTS) if os.path.isdir(path)}
    files: set[str] = set()
    for point, mount in top_mounts(each for each in mounts if each.point.startswith("/sys/")).items():
        if mount.kind not in _HARMLESS_KINDS:
            (files if is_folder(mount) is False else folders).add(point)
    outermost = _find_outermost(folders | files)
    return replace(
        guard,
        sys_folders=tuple(path for path in outermost if path in folders and path not in shown),
        sys_files=tuple(path for path in outermost if path in files),
        groups=groups,
    )


def _find_outermost(paths: Iterable[str]) -> list[str]:
    """Those that lie below none of the others."""
    found: list[str] = []
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not found or not path.startswith(f"{found[-1]}/"):
            found.append(path)
    return found


def mask_host_paths(guard: Guard, paths: Iterable[str]) -> Guard:
    """Mask what must not be seen of the machine's folders that are bound into the sandbox."""
    return mask_paths(guard, (path for path in paths if path.split("/")[1] in SHOWN))


def mask_paths(guard: Guard, paths: Iterable[str]) -> Guard:
    """Cover each of these paths that exists with an empty folder or an empty file."""
    present = [path for path in paths if os.path.lexists(path)]
    return replace(
        guard,
        empty_folders=(*guard.empty_folders, *(path for path in present if os.path.isdir(path))),
        empty_files=(*guard.empty_files, *(path for path in present if not os.path.isdir(path))),
    )

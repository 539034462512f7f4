"""Which parts of /proc, /sys and the machine's files are masked in every sandbox. Blocking: call it from a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from .host import SHOWN
from .render import Guard

# The lists that container runtimes use by default.
_READ_ONLY_PATHS = ("/proc/sys", "/proc/fs", "/proc/irq", "/proc/bus", "/proc/sysrq-trigger")
_MASKED_PATHS = (
    "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
    "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
)  # fmt: skip


def find_guard(*, privileged: bool) -> Guard:
    """The masks for this machine."""
    guard = Guard(privileged=privileged, read_only=tuple(path for path in _READ_ONLY_PATHS if os.path.exists(path)))
    return mask_paths(guard, _MASKED_PATHS)


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

"""What the node needs to isolate a task: files beside its program, for `runtime/slurm_sandbox.sh`. Pure.

Which way works is only known on the node: a cluster has different nodes, and the server is none of them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded.sandbox import guard
from holdfast.engines.embedded.sandbox.host import SHOWN_FOLDERS
from holdfast.engines.embedded.sandbox.mounts import InvalidMount, make_mount_binds
from holdfast.engines.embedded.sandbox.render import CAPABILITIES, Bind
from holdfast.engines.start_refusal import StartRefused
from holdfast.engines.task_program import TaskFile, make_hostname

from ..node_programs import SANDBOX_PROGRAM, TASK_PROGRAMS

SANDBOX_FILES = _VARIABLES_FILE, _MOUNTS_FILE = "sandbox", "mounts.list"
_NO_FOLDER = "/dev/null"  # for paths without links of this machine
_DRIVER_FOLDER = "/usr/local/nvidia"  # where images for CUDA expect the driver


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """How the node isolates a task."""

    required: bool = False  # it must not run without
    image: str = ""  # root filesystem of its image; empty: the node's own files
    home: str  # as the task sees it
    scratch: str  # the folder that contains its home
    programs: str  # folder with the programs for nodes
    node_folder: str = ""  # folder on the node's own disk; empty: as Slurm sets it
    nodes: str  # folder in which nodes record how tasks run there
    hidden: tuple[str, ...] = ()
    host_show: tuple[str, ...] = ()
    binds: Sequence[Bind] = field(default_factory=tuple)


def make_volume_binds(launch: LaunchSpec, image: str = "") -> list[Bind]:
    """Return the binds of its volumes. StartRefused if one is not possible."""
    try:
        binds = make_mount_binds(launch.mounts, image or _NO_FOLDER)
    except InvalidMount as bad:
        raise StartRefused(str(bad), cause=Cause.NOT_ALLOWED) from bad
    for bind in binds:
        if "\n" in bind.source + bind.target:
            raise StartRefused(msg("Mounting at {target} is not allowed.", target=repr(bind.target)))
    return binds


def has_moved_volume(launch: LaunchSpec) -> bool:
    """Return whether a volume is to be at another path than its own, which needs a sandbox."""
    return any(os.path.normpath(mount.volume.folder) != os.path.normpath(mount.target) for mount in launch.mounts)


def make_sandbox_files(launch: LaunchSpec, plan: SandboxPlan) -> dict[str, TaskFile]:
    """Return the files that the node needs to isolate the task, by name."""
    files = {
        SANDBOX_PROGRAM: TASK_PROGRAMS[SANDBOX_PROGRAM],
        _VARIABLES_FILE: TaskFile(text=_render_variables(launch, plan), mode=0o400),
    }
    if plan.binds:
        lines = (f"{'--ro-bind' if b.read_only else '--bind'}\n{b.source}\n{b.target}\n" for b in plan.binds)
        files[_MOUNTS_FILE] = TaskFile(text="".join(lines), mode=0o400)
    return files


def _render_variables(launch: LaunchSpec, plan: SandboxPlan) -> str:
    shown = [name for name in SHOWN_FOLDERS if name != "var"]  # programs keep private files there
    values: Mapping[str, str] = {
        "required": "yes" if plan.required else "",
        "image": plan.image,
        "home": plan.home,
        "scratch": plan.scratch,
        "programs": plan.programs,
        "nodes": plan.nodes,
        "node_folder": plan.node_folder,
        "hostname": make_hostname(launch.task),
        "shm": str(launch.resources.shm or launch.resources.memory),
        "shown": " ".join(shown),
        "hidden": "\n".join(plan.hidden),
        "host_show": "\n".join(plan.host_show),
        "capabilities": " ".join(CAPABILITIES),
        "read_only": " ".join(guard.READ_ONLY_PATHS),
        "masked": " ".join(guard.MASKED_PATHS),
        "masked_sys": " ".join((*guard.MASKED_SYS_PATHS, *guard.SYS_MOUNT_POINTS)),
        "driver": _DRIVER_FOLDER,
    }
    return "".join(f"_holdfast_{name}={shlex.quote(value)}\n" for name, value in values.items())

"""Decides how a task is set up: with which image and user, and whether its node must isolate it. Blocking."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.core.volumes import LOCAL_KINDS, is_mountable
from holdfast.engines.base import LaunchSpec
from holdfast.engines.start_refusal import StartRefused, check_task_program
from holdfast.engines.task_program import TaskFile, build_task_program

from ..node_programs import NodePrograms
from ..options import SlurmOptions
from ..render import MAX_GANG_SIZE
from .node_isolation import IsolationMode, NodeIsolation, parse_isolation
from .sandbox_files import SandboxPlan, has_moved_volume, make_sandbox_files, make_volume_binds

NODES_FOLDER = "nodes"  # in the engine's folder: nodes record there how tasks run on them


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSetup:
    """The files of a task that depend on its image and on its isolation."""

    files: Mapping[str, TaskFile]
    warning: str = ""
    replaces_image: bool = False  # of the image `host`, since the task's own is missing
    lower_folders: tuple[str, ...] = field(default_factory=tuple)  # shared folders that it uses


class TaskSetups:
    def __init__(self, options: SlurmOptions, home: Path, programs: NodePrograms) -> None:
        self._options = options
        self._home = home
        self._programs = programs

    def check_launch(self, launch: LaunchSpec) -> None:
        """Raise StartRefused if this engine cannot run it. It looks at the sources of mounts."""
        check_task_program(launch)
        if launch.image != HOST_IMAGE and self._options.unknown_image != HOST_IMAGE:
            text = msg(
                "The Slurm engine does not run images yet, so it has no image {image}. Use the image `host`.",
                image=launch.image,
            )
            raise StartRefused(text, cause=Cause.IMAGE_MISSING)
        if len(launch.gang) > MAX_GANG_SIZE:
            text = msg("Slurm starts at most {limit} tasks together.", limit=MAX_GANG_SIZE)
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        self._check_mounts(launch)

    def _check_mounts(self, launch: LaunchSpec) -> None:
        for mount in launch.mounts:
            source, target = mount.volume.folder, os.path.normpath(mount.target)
            if not is_mountable(mount.volume, LOCAL_KINDS):
                text = msg("The Slurm engine cannot mount {source}.", source=mount.volume.address)
                raise StartRefused(text, cause=Cause.NOT_ALLOWED)
            if self._options.isolation == IsolationMode.NONE and os.path.normpath(source) != target:
                why = msg("without isolation, the target must equal the source")
                text = msg("{source} cannot be mounted at {target}: {why}.", source=source, target=target, why=why)
                raise StartRefused(text, cause=Cause.NOT_ALLOWED)
            if not os.path.exists(source):
                raise StartRefused(msg("The mount source {source} does not exist.", source=source))
        make_volume_binds(launch)

    def read_nodes(self) -> dict[str, NodeIsolation]:
        """Return how nodes have run tasks, by name."""
        found = {}
        with suppress(OSError):
            for entry in os.scandir(self._home / NODES_FOLDER):
                if "." not in entry.name:  # it is being written
                    with suppress(OSError):
                        found[entry.name] = parse_isolation(Path(entry.path).read_bytes()[:1000])
        return found

    def prepare(self, launch: LaunchSpec, folder: str, scratch: str) -> TaskSetup:
        """`scratch`: the folder that contains its home."""
        program = build_task_program(launch, folder=folder, home=scratch, user_name=getpass.getuser())
        files = dict(program.files)
        if self._options.isolation != IsolationMode.NONE:
            self._programs.install()
            files |= make_sandbox_files(launch, self._make_plan(launch, scratch))
        is_replaced = launch.image != HOST_IMAGE
        warning = (
            msg("{image} is not used: tasks in Slurm run on the files of the node.", image=launch.image)
            if is_replaced
            else ""
        )
        return TaskSetup(files=files, warning=warning, replaces_image=is_replaced)

    def _make_plan(self, launch: LaunchSpec, scratch: str) -> SandboxPlan:
        return SandboxPlan(
            required=self._options.isolation != IsolationMode.AUTO or has_moved_volume(launch),
            home=scratch,
            scratch=scratch,
            programs=self._programs.folder,
            nodes=str(self._home / NODES_FOLDER),
            hidden=(str(self._home), *self._options.hidden),
            host_show=self._options.host_show,
            binds=make_volume_binds(launch),
        )

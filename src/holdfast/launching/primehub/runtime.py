"""Adds the PrimeHub runtime to the Launch of a PrimeHub job."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.attempt import JobSnapshot
from holdfast.core.identity import format_group_path
from holdfast.core.job import Role
from holdfast.engines.base import LaunchSpec

from ..context import LaunchContext
from .entry import EntryScript, render_entry_script
from .folders import HOME_FOLDER, make_primehub_folders
from .variables import make_primehub_variables, split_valid_variables


def add_primehub_runtime(launch: LaunchSpec, snapshot: JobSnapshot, role: Role, context: LaunchContext) -> LaunchSpec:
    given, group = context.primehub, snapshot.job.group
    folders = make_primehub_folders(group, launch.mounts, context)
    others, left_out = split_valid_variables(context.variables)
    ours = make_primehub_variables(snapshot, role, given, folders)
    entry = EntryScript(
        isolated=context.isolated,
        sudo=given.platform.sudo,
        volume=folders.volume,
        files=folders.files,
        group=group,
        home_link=format_group_path(group) if folders.volume and given.home_symlink else "",
        datasets=folders.datasets,
        notes=(*folders.left_out, *left_out),
    )
    launch = replace(
        launch,
        env={**others, **launch.env, **ours},
        secret_env=launch.secret_env | others.keys(),
        mounts=folders.mounts,
        resources=replace(launch.resources, shm=launch.resources.shm or launch.resources.memory),
        entry=render_entry_script(entry),
        scratch=given.platform.scratch or None,
    )
    if not context.isolated:
        return launch
    # It starts in PrimeHub's home, whatever the home and working folder of the image.
    return replace(launch, env={**launch.env, "HOME": HOME_FOLDER}, workdir=HOME_FOLDER)

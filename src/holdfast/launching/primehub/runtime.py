"""Adds the PrimeHub runtime to the Launch of a PrimeHub job."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.attempt import JobSnapshot
from holdfast.core.identity import format_group_path
from holdfast.core.job import Role
from holdfast.engines.base import Launch

from ..context import LaunchContext
from .entry import Entry, render_entry
from .folders import HOME, find_folders
from .variables import make_primehub_variables, split_valid_variables


def add_primehub_runtime(launch: Launch, snapshot: JobSnapshot, role: Role, context: LaunchContext) -> Launch:
    given, group = context.primehub, snapshot.job.group
    folders = find_folders(group, launch.mounts, context)
    others, left_out = split_valid_variables(context.variables)
    ours = make_primehub_variables(snapshot, role, given, folders)
    entry = Entry(
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
        mounts=folders.mounts,
        resources=replace(launch.resources, shm=launch.resources.shm or launch.resources.memory),
        entry=render_entry(entry),
        scratch=given.platform.scratch or None,
    )
    if not context.isolated:
        return launch
    # It starts in PrimeHub's home, whatever the home and working folder of the image.
    return replace(launch, env={**launch.env, "HOME": HOME}, workdir=HOME)

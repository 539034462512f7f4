"""A Launch of a PrimeHub job with what its command expects to find."""

from __future__ import annotations

from dataclasses import replace

from holdfast.core.attempt import JobSnapshot
from holdfast.core.identity import group_path
from holdfast.core.job import Role
from holdfast.engines.base import Launch

from ..context import LaunchContext
from .entry import Entry, render_entry
from .folders import HOME, find_folders
from .variables import fitting, primehub_variables


def dress_primehub(launch: Launch, snapshot: JobSnapshot, role: Role, surroundings: LaunchContext) -> Launch:
    given, group = surroundings.primehub, snapshot.job.group
    folders = find_folders(group, launch.mounts, surroundings)
    others, left_out = fitting(surroundings.variables)
    ours = primehub_variables(snapshot, role, given, folders)
    entry = Entry(
        isolated=surroundings.isolated,
        sudo=given.platform.sudo,
        volume=folders.volume,
        files=folders.files,
        group=group,
        home_link=group_path(group) if folders.volume and given.home_symlink else "",
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
    return _at_home(launch) if surroundings.isolated else launch


def _at_home(launch: Launch) -> Launch:
    """Whatever the image says of its home and working directory, PrimeHub's jobs begin in theirs."""
    return replace(launch, env={**launch.env, "HOME": HOME}, workdir=HOME)

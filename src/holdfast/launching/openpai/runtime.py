"""Adds the OpenPAI runtime to the Launch of an OpenPAI job."""

from __future__ import annotations

import json
from dataclasses import replace

from holdfast.core.attempt import TaskAttempt
from holdfast.core.job import Job
from holdfast.engines.base import LaunchSpec
from holdfast.jobspec import MASK
from holdfast.jobspec.templates import has_secrets

from ..context import LaunchContext, needs_intra_job_ssh
from ..intra_job_ssh import uses_ssh
from .entry import SYSTEM_FOLDER, EntryScript, render_entry_script
from .plugins import make_plugin_steps
from .references import get_openpai_config
from .variable_limits import SharedLaunchData, fit_variables
from .variables import TaskContext

MAX_CONFIG_LENGTH = 1024 * 1024  # characters; a job's file is not meant to carry data


def add_openpai_runtime(
    launch: LaunchSpec, task: TaskAttempt, shared_data: SharedLaunchData, context: LaunchContext
) -> LaunchSpec:
    scene = TaskContext(shared_data.job_tasks, task)
    fitted = fit_variables(scene, shared_data, launch.env)
    config = render_job_config(scene.snapshot.job)
    notes = list(fitted.left_out)
    if len(config) > MAX_CONFIG_LENGTH:
        notes.append("The job file is too long for job_config.yaml, which is missing.")
        config = ""
    entry = EntryScript(
        system=context.isolated and not any(_overlaps_system_folder(mount.target) for mount in launch.mounts),
        own_home=context.isolated and "HOME" not in launch.env,
        container=scene.container,
        exports=fitted.exports,
        config=config,
        script=launch.script,
        shell_options=launch.shell_options,
        steps=make_plugin_steps(scene, context),
        notes=tuple(notes),
        ssh_setup=_render_ssh_setup(launch.script, scene, shared_data, context),
    )
    return replace(launch, env=fitted.env, entry=render_entry_script(entry))


def _render_ssh_setup(script: str, scene: TaskContext, shared_data: SharedLaunchData, context: LaunchContext) -> str:
    if not needs_intra_job_ssh(scene.snapshot.job, scene.task.role):
        return ""
    return shared_data.render_ssh_setup(context, tell=uses_ssh(script))


def _overlaps_system_folder(target: str) -> bool:
    """Return whether it is inside a mount, so not private to the task."""
    mounted, ours = f"{target.rstrip('/')}/", f"{SYSTEM_FOLDER}/"
    return mounted.startswith(ours) or ours.startswith(mounted)


def render_job_config(job: Job) -> str:
    """Return the job's file without its secrets as JSON, which is also valid YAML and fast to write."""
    config = dict(get_openpai_config(job))
    if has_secrets(job.secrets):
        config["secrets"] = MASK
    return json.dumps(config, ensure_ascii=False, indent=2) + "\n"
